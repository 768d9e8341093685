"""Write the tables of docs/how-to/few-images.md from what was measured: `measured/NAME.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from benchmarks.own_pictures.measuring import SETS
from benchmarks.results.page import as_table, filled

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "few-images.md"
MEASURED = Path(__file__).parent / "measured"
NAME = "own-pictures"  # of the benchmark, and of the file and table of what it measured
DRAWN = "drawn-sets"  # of the two sets on which defaults were chosen; no benchmark draws them again
_COLUMNS = {  # heading to the name of the rows
    "`probe`": "probe",
    "ITA-LoRA at its start": "start",
    "its 12 trials, re-evaluated": "12 trials and re-evaluation",
    "`joint`": "joint",
}


class Measured(BaseModel):
    """A file of `measured`; `python -m benchmarks own-pictures` also writes the machine into its own.

    Attributes:
        day: When it was measured, as YYYY-MM-DD.
        commit: The commit that ran.
        carried_over: Where the figures were taken from, if no benchmark wrote the file.
        rows: `pictures` (the set), `what` (was trained), `mean` and `std` of the test accuracy in percent.
    """

    day: str
    commit: str
    carried_over: str | None = None
    rows: list[dict[str, Any]]


def write_page(page: Path = PAGE, folder: Path = MEASURED) -> None:
    """Write both tables of the page."""
    page.write_text(filled(page.read_text(encoding="utf-8"), tables(folder)), encoding="utf-8")
    print(f"written: {page}")


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the page, by place."""
    chance = {each.name: f"{each.chance:g}" for each in SETS}
    return {DRAWN: _table(_read(DRAWN, folder), {}), NAME: _table(_read(NAME, folder), chance)}


def _read(name: str, folder: Path) -> Measured:
    return Measured.model_validate_json((folder / f"{name}.json").read_text(encoding="utf-8"))


def _table(measured: Measured, chance: Mapping[str, str]) -> str:
    """Return a line for each set, a column for all that was trained on each of them, and the day and commit."""
    cells = {(row["pictures"], row["what"]): f"{row['mean']:.1f} ± {row['std']:.1f}" for row in measured.rows}
    sets = list(dict.fromkeys(pictures for pictures, _ in cells))
    columns = {head: what for head, what in _COLUMNS.items() if all((each, what) in cells for each in sets)}
    header = ("", *(["chance"] if chance else []), *columns)
    rows = ((s, *([chance[s]] if chance else []), *(cells[s, what] for what in columns.values())) for s in sets)
    machine = "" if measured.carried_over is None else "; the machine was not noted"
    return f"{as_table(header, rows)}\n\nFigures of {measured.day}, commit {measured.commit}{machine}."
