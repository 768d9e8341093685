"""What a run would do, as `--dry-run` shows it."""

from __future__ import annotations

from tausearch.execution import Preview
from tausearch.presentation import Table, console, counted, numbers, terminal_table
from tausearch.runs import parts_of


def show_preview(preview: Preview) -> None:
    """Print what a run would do: how large it is, where its trials come from, the points that are known."""
    out, spec, points = console(), preview.spec, preview.points
    ended = f", {preview.ended} of them ended already" if preview.ended else ""
    left = counted(preview.tasks, "task" if parts_of(spec) is None else "part")
    trials, each = counted(spec.trials, spec.trial_name), counted(spec.steps, spec.step_name)
    sizes = f"{trials} of {each} each{ended}, {left} to train"
    device = f", on {preview.device}" if preview.device else ""
    out.print(f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {sizes}{device}", soft_wrap=True)
    for line in preview.lines():
        out.print(line, soft_wrap=True)
    if points and points[0]:
        rows = [(place, *point.values()) for place, point in enumerate(points)]
        out.print(terminal_table(Table("tried first", numbers("", *points[0]), rows)))
    out.print("nothing was started")
