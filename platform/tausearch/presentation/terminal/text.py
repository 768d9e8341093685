"""The text of numbers, times and hyperparameters, and the streams that text is printed to."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from checked_input.names import counted
from checked_input.text_files import printable
from tausearch.presentation.terminal.results import results

WIDE = 10_000  # columns where the output is a file or a pipe: no line is broken, and no column left out


def console() -> Console:
    """Return a console on stdout; a file or a pipe gets whole lines and all columns of a table."""
    return SafeConsole(width=None if sys.stdout.isatty() else WIDE, highlight=False)


class SafeConsole(Console):
    """A console on which names are text: their control characters do not reach the terminal.

    In a notebook it writes plain lines to its file; rich would show them in the notebook, whatever the file.
    """

    def __init__(self, **how: Any) -> None:
        plain = {"force_terminal": False} if in_notebook() else {}
        super().__init__(**{"force_jupyter": False, "emoji": False, "markup": False, **plain, **how})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of rich; its own control codes are segments of their own."""
        for piece in super().render(renderable, options):
            kept = printable(piece.text, "")  # rich has laid them out as having no width
            yield piece if piece.control else Segment(kept, piece.style)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return Console().is_jupyter


def clock(seconds: float) -> str:
    """Format a duration as 0:42, 12:05 or 3:07:12."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def brief(hyperparameters: Mapping[str, object], names: list[str]) -> str:
    """Format chosen hyperparameters as `alpha=0.7 lr=0.003`."""
    return " ".join(
        f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in hyperparameters.items() if k in names
    )


def percent(value: float | None) -> str:
    """Format a percentage as 93.22; nothing for None."""
    return "" if value is None else f"{value:.2f}"


def see_page(name: str) -> str:
    """Return the words that send a reader to a page of the documentation, which is not part of the wheel."""
    return f"see the page {name} of the documentation"


def stopped_words(number: int) -> str:
    """Return what the signal that stopped a run means: SIGPIPE stands for an output that nobody reads any more."""
    words = {signal.SIGINT: "interrupted", signal.SIGPIPE: "stopped, as its output was closed"}
    return words.get(signal.Signals(number), f"stopped by {signal.Signals(number).name}")


def omitted_columns_line(columns: int) -> str:
    """Return the line below a table that says how many columns a terminal has no room for."""
    return f"{counted(columns, 'column')} left out for lack of width; see --format json"


def range_text(values: Sequence[int]) -> str:
    """Return the range of some counts: `42 to 63`, or `56` where all are equal."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def number(value: object) -> str:
    """Return a value as a cell of a table: three digits of a number, nothing for None."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def print_json(content: Any) -> None:
    """Print JSON for a program; null stands for a number that is not finite, as JSON has none."""
    print(json.dumps(_finite(content), indent=2, allow_nan=False), file=results())


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def say_loading() -> None:
    """Tell a person at a terminal that libraries are being imported, which takes seconds."""
    if sys.stderr.isatty() and "torch" not in sys.modules:
        print("loading torch and Ray ...", file=sys.stderr, flush=True)


def print_notices(*notices: Exception | str) -> None:
    """Print notices on stderr, each on a line, such as what is left out because it cannot be read."""
    for notice in notices:
        print(f"tausearch: {printable(str(notice))}", file=sys.stderr)
