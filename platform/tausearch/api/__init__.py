"""Functions of the Python API, one per command: check the request, plan, run, conclude.

Not here: what is parsed from the command line (`cli`), and how trials run (`execution`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
