"""tausearch: find the hyperparameters with which a composable incremental learner does best.

The names below are loaded when they are first used: torch and ray take seconds to import, and `--help` needs neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tausearch.best import BestFile, load_best
    from tausearch.final_run import FinalResult, train
    from tausearch.search_run import SearchResult, resume, search

__all__ = ["BestFile", "FinalResult", "SearchResult", "load_best", "resume", "search", "train"]

_HOMES = {
    "BestFile": "tausearch.best",
    "FinalResult": "tausearch.final_run",
    "SearchResult": "tausearch.search_run",
    "load_best": "tausearch.best",
    "resume": "tausearch.search_run",
    "search": "tausearch.search_run",
    "train": "tausearch.final_run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tausearch' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
