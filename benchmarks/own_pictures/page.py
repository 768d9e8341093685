"""Write the tables of few-images.md and removability.md in docs/how-to from what was measured: `measured/NAME.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.own_pictures import measuring, removability
from benchmarks.own_pictures.measuring import SETS
from benchmarks.performance.kept import Measured
from benchmarks.performance.lines import Rows
from benchmarks.results.page import as_table, write

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = ("few-images.md", "removability.md")
MEASURED = Path(__file__).parent / "measured"
NAME = "own-pictures"  # of the benchmark, its file and its table
BENCHMARKS: dict[str, Callable[[], Rows]] = {
    NAME: measuring.run,
    **{name: partial(removability.run, number) for name, number in removability.BENCHMARKS.items()},
}
REMOVABILITY = "removability"  # the table of several benchmarks
DRAWN = "drawn-sets"  # of the two sets on which defaults were chosen; no benchmark draws them again
_COLUMNS = {  # heading to the name of the rows
    "`probe`": "probe",
    "ITA-LoRA at its start": "start",
    "its 12 trials, re-evaluated": "12 trials and re-evaluation",
    "`joint`": "joint",
}


def write_pages(docs: Path = DOCS, folder: Path = MEASURED) -> None:
    """Write the tables of both pages."""
    write(tables(folder), *(docs / name for name in PAGES))


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the pages, by place."""
    chance = {each.name: f"{each.chance:g}" for each in SETS}
    return {
        DRAWN: _accuracies(Measured.of(DRAWN, folder), {}),
        NAME: _accuracies(Measured.of(NAME, folder), chance),
        REMOVABILITY: _removability([Measured.of(name, folder) for name in removability.BENCHMARKS]),
    }


def _accuracies(measured: Measured, chance: Mapping[str, str]) -> str:
    """Return a line for each set, a column for all that was trained on each of them, and the day and commit."""
    cells = {(row["pictures"], row["what"]): f"{row['mean']:.1f} ± {row['std']:.1f}" for row in measured.rows}
    sets = list(dict.fromkeys(pictures for pictures, _ in cells))
    columns = {head: what for head, what in _COLUMNS.items() if all((each, what) in cells for each in sets)}
    header = ("", *(["chance"] if chance else []), *columns)
    rows = ((s, *([chance[s]] if chance else []), *(cells[s, what] for what in columns.values())) for s in sets)
    return f"{as_table(header, rows)}\n\n{measured.when}"


def _removability(measured: Sequence[Measured]) -> str:
    """Return a line for each number of pictures and what was measured on."""
    header = ("images of a shape", "`lr`", "measured on", "all vectors, %", "the task without its vector, %")
    rows = (
        (
            str(row["pictures of a shape"]),
            f"{row['lr']:.3g}",
            row["measured on"],
            _cell(row, "all"),
            _cell(row, "without"),
            _cell(row, "gain", "+"),
        )
        for each in measured
        for row in each.rows
    )
    when = " ".join(f"{each.rows[0]['pictures of a shape']} images: {each.source}." for each in measured)
    return f"{as_table((*header, 'the other task, points'), rows)}\n\n{when}"


def _cell(row: Mapping[str, Any], column: str, sign: str = "") -> str:
    """Return a mean, with the deviation if there is one."""
    deviation = f" ± {row[f'{column} std']:.1f}" if f"{column} std" in row else ""
    return f"{row[column]:{sign}.1f}{deviation}"
