"""Stdout for programs: where a command prints JSON or CSV, nothing else may stand there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_reserved: TextIO | None = None


def results() -> TextIO:
    """Return the stream that results are printed on."""
    return _reserved or sys.stdout


def reserve_stdout() -> None:
    """Leave stdout to what goes to `results`; all else, such as what code of the user prints, goes to stderr."""
    global _reserved
    _reserved, sys.stdout = results(), sys.stderr


@contextmanager
def released_stdout() -> Iterator[None]:
    """Take `reserve_stdout` back at the end of the block."""
    global _reserved
    try:
        yield
    finally:
        if _reserved is not None:
            sys.stdout, _reserved = _reserved, None
