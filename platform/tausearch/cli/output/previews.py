"""What a run would do, as `--dry-run` shows it."""

from __future__ import annotations

from rich.table import Table

from tausearch.execution import Preview
from tausearch.presentation import console, counted, number


def show_preview(preview: Preview) -> None:
    """Print what a run would do: how large it is, where its trials come from, the points that are known."""
    out, spec = console(), preview.spec
    unit = "trial" if spec.purpose == "search" else "seed"
    ended = f", {preview.ended} of them ended already" if preview.ended else ""
    sizes = f"{counted(spec.trials, unit)} of {counted(spec.steps, 'task')} each{ended}, {preview.tasks} tasks to train"
    out.print(f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {sizes}", soft_wrap=True)
    for line in preview.lines():
        out.print(line, soft_wrap=True)
    if preview.points and preview.points[0]:
        table = Table(title="tried first", title_justify="left")
        for name in ("", *preview.points[0]):
            table.add_column(name, justify="right")
        for place, point in enumerate(preview.points):
            table.add_row(str(place), *map(number, point.values()))
        out.print(table)
    out.print("nothing was started")
