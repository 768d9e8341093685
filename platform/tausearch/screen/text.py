"""How numbers, times and hyperparameters are written, and the console that they are written to."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 160  # columns where the output is not a terminal and has no width of its own


def console() -> Console:
    """Return a console on stdout that does not cut tables when the output is a file or a pipe."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False)


def clock(seconds: float) -> str:
    """Format a duration as 0:42, 12:05 or 3:07:12."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def brief(hyperparameters: dict[str, object], names: list[str]) -> str:
    """Format chosen hyperparameters as `alpha=0.7 lr=0.003`."""
    return " ".join(
        f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in hyperparameters.items() if k in names
    )


def percent(value: float | None) -> str:
    """Format a percentage as 93.22; nothing for None."""
    return "" if value is None else f"{value:.2f}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 trial`, `12 trials`; of entries, `1 entry`, `2 entries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def number(value: object) -> str:
    """Return a value as a cell of a table: three digits of a number, nothing for None."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
