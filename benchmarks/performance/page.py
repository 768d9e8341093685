"""Write the tables of docs/explanation/performance.md from what its benchmarks have kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import (
    arithmetic,
    commands,
    fisher,
    growth,
    overhead,
    sharing,
    stages,
    tracking,
    waiting,
    writers,
)
from benchmarks.gpu import kernels, reading
from benchmarks.many_trials import scale, slots, thousands
from benchmarks.performance import kept
from benchmarks.performance.kept import Kept
from benchmarks.performance.lines import HEADER, Line, Rows
from benchmarks.results.page import as_table, write

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
_PARTS: Mapping[str, tuple[Callable[[], Rows], tuple[Line, ...]]] = {
    "sharing": (sharing.run, sharing.LINES),
    "fisher": (fisher.run, fisher.LINES),
    "growth": (growth.run, growth.LINES),
    "kernels": (kernels.run, kernels.LINES),
    "reading": (reading.run, reading.LINES),
    "waiting": (waiting.run, waiting.LINES),
    "overhead": (overhead.run, overhead.LINES),
    "scale": (scale.run, scale.LINES),
    "slots": (slots.run_busy, slots.LINES),
    "short-trials": (slots.run_short, slots.SHORT_LINES),
    "commands": (commands.run, commands.LINES),
    "thousands": (thousands.run, thousands.LINES),
    "writers": (writers.run, writers.LINES),
    "tracking": (tracking.run, tracking.LINES),
    "arithmetic": (arithmetic.run, arithmetic.LINES),
    "stages": (stages.run, ()),  # has a table of its own
}
BENCHMARKS = {name: run for name, (run, _) in _PARTS.items()}
LINES = {name: lines for name, (_, lines) in _PARTS.items()}


def write_page(page: Path = PAGE, folder: Path = kept.MEASURED) -> None:
    """Write all tables of the page."""
    write(tables(kept.read(LINES, folder)), page)


def tables(found: Mapping[str, Kept]) -> dict[str, str]:
    """Return the tables of the page, by place."""
    rows = {name: found[name].rows if name in found else [] for name in LINES}
    lines = ((*line.cells(rows[name]), f"`{name}`") for name in LINES for line in LINES[name])
    return {
        "today": as_table((*HEADER, "NAME"), lines),
        "machines": machines(found),
        "stages": pivoted(rows["stages"], "stage", "benchmark", "percent"),
        "overhead": pivoted(rows["overhead"], "part", "trials", "percent"),
    }


def machines(found: Mapping[str, Kept]) -> str:
    """Return a list of machines and days, and of what was measured there."""
    names = defaultdict(list)
    for name, each in found.items():
        names[_about(each)].append(f"`{name}`")
    return "\n".join(f"- {', '.join(of)}: {about}" for about, of in names.items())


def _about(each: Kept) -> str:
    machine = each.machine
    cores = f"{machine.cores} cores{'' if machine.instructions is None else f' with {machine.instructions}'}"
    where = f"{machine.processor or 'processor not noted'}, {cores}, {machine.gibibytes} GiB, PyTorch {machine.torch}"
    load = "not noted" if machine.load is None else f"{machine.load:.1f}"
    return f"{each.day}, commit {each.commit}; {where}; load before {load}"


def pivoted(rows: Rows, by: str, across: str, value: str) -> str:
    """Return a table of one column of the rows: a line for each cell of `by`, a column for each cell of `across`."""
    cells = {(row[by], str(row[across])): f"{row[value]:.1f}" for row in rows}
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = dict.fromkeys(line for line, _ in cells)
    return as_table((by, *columns), ((line, *(cells.get((line, column), "") for column in columns)) for line in lines))
