"""A composition without some classes, for people."""

from __future__ import annotations

from rich.console import Console

from tausearch.models import MEMBERSHIP_NOTE, CompositionResult, few_images, removal_tables
from tausearch.presentation import terminal_table
from trainables.task_names import quoted


def show_removal(out: Console, result: CompositionResult) -> None:
    """Print what was taken out, the rest before and after, and what remains."""
    report = result.removal
    assert report is not None
    gone = ", ".join(f"{quoted(str(each.name))} (class {each.number}, task {each.task})" for each in report.classes)
    out.print(f"forgotten: {gone}", soft_wrap=True, markup=False)
    for table in removal_tables(report, result.accuracies, result.task_names):
        out.print(terminal_table(table))
    out.print(MEMBERSHIP_NOTE, style="dim", soft_wrap=True)
    if line := few_images(report):
        out.print(line, style="yellow", soft_wrap=True)
    for title, lines in (("Left out", report.left_out), ("What remains", report.remains)):
        out.print(f"{title}:", soft_wrap=True)
        for line in lines:
            out.print(f"  - {line}", soft_wrap=True, markup=False)
