"""What the shell offers where a command wants a name: benchmarks, methods, runs. Neither torch nor Ray is imported."""

from __future__ import annotations

from typing import Any

import typer

from tausearch.runs import DEFAULT_STORAGE, open_storage
from trainables.errors import InputError
from trainables.user_code import installed


def methods(incomplete: str) -> list[str]:
    """Return the names of methods that begin so."""
    from search_spaces import METHODS_WITH_SPACE  # pydantic takes a moment to import

    return _beginning((*METHODS_WITH_SPACE, *installed("method")), incomplete)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of runs in the storage folder that begin so, the newest first."""
    try:
        found = open_storage(context.params.get("storage") or DEFAULT_STORAGE, write=False).runs()
    except InputError:
        return []
    return _beginning([run.name for run in reversed(found)], incomplete)


def _beginning(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
