"""What a run would do, as `--dry-run` shows it."""

from __future__ import annotations

from tausearch.execution import Preview
from tausearch.presentation import console, terminal_table


def show_preview(preview: Preview) -> None:
    """Print what a run would do: how large it is, where its trials come from, the points that are known."""
    out = console()
    for line in (preview.in_words, *preview.lines()):
        out.print(line, soft_wrap=True)
    for table in preview.tables:
        out.print(terminal_table(table))
    out.print("nothing was started")
