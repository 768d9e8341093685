"""Functions of the Python API, one per command: check the request, plan, run, conclude.

Not here: what is parsed from the command line (`cli`), and how trials run (`execution`).
"""

from typing import Any

import lazy_loader

from tausearch.cluster import uncollected

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import what a name of the stub needs: for most of them torch and Ray."""
    with uncollected():
        return _load(name)
