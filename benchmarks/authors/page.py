"""Write the tables that set ours beside the authors' code, in docs/explanation, from what was measured.

`measured/NAME.json` has what `python -m benchmarks NAME` found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.authors import comparison
from benchmarks.authors.parity import inflora, parts, prompts, second_order, seed, sequential, tak, tmc, trials
from benchmarks.performance.kept import Measured
from benchmarks.results.page import as_table, of_columns, write

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
PAGES = ("parity.md", "parity-competitors.md", "speed-beside-authors.md")
MEASURED = Path(__file__).parent / "measured"
ITA_IEL, FIXED, TMC = "authors-ita-iel", "authors-ita-iel-fixed", "authors-tmc"
PROGRAMS = {
    ITA_IEL: second_order.PROGRAM,
    FIXED: second_order.PROGRAM_FIXED,
    "authors-sequential": sequential.PROGRAM,
    "authors-prompts": prompts.PROGRAM,
    "authors-inflora": inflora.PROGRAM,
    "authors-seed": seed.PROGRAM,
    TMC: tmc.PROGRAM,
    "authors-tak": tak.PROGRAM,
    "authors-tak-as-it-is": tak.PROGRAM_AS_IT_IS,
}
BENCHMARKS = {
    **{"trials": trials.run, "trial-parts": parts.run, "authors": comparison.run},
    **{name: program.compare for name, program in PROGRAMS.items()},
}
CHECKOUTS: Mapping[str, set[str]] = {  # environment variables without which a benchmark does not measure its table
    **{name: {program.checkout} for name, program in PROGRAMS.items()},
    "authors": {comparison.CHECKOUT},
    "trials": {program.checkout for program in trials.PROGRAMS},
    "trial-parts": set(),
}


def unmeasurable() -> list[str]:
    """Return the benchmarks that need a checkout for which no environment variable is set."""
    return [name for name, variables in CHECKOUTS.items() if not all(map(os.environ.get, variables))]


def write_pages(docs: Path = DOCS, folder: Path = MEASURED) -> None:
    """Write the tables of all pages."""
    write(tables(folder), *(docs / name for name in PAGES))


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the pages, by place; each is followed by the day and the commit of its figures."""
    read = {name: Measured.of(name, folder) for name in CHECKOUTS}
    rows = {name: each.rows for name, each in read.items()}
    made = {name: _compared(rows[name]) for name in PROGRAMS if name not in (ITA_IEL, FIXED, TMC)} | {
        TMC: _by_seed(*rows[TMC]),
        ITA_IEL: _second_order(rows[ITA_IEL], rows[FIXED]),
        "authors": _in_each_way(rows["authors"]),
        "trials": of_columns(rows["trials"], ("method", "CPU seconds, ours", "theirs", "ours over theirs")),
        "trial-parts": _in_parts(rows["trial-parts"], rows["trials"]),
    }
    return {name: f"{table}\n\n{read[name].when}" for name, table in made.items()}


def _compared(rows: Iterable[Mapping[str, Any]]) -> str:
    return of_columns(rows, ("method", "hyperparameters", "theirs is told", "theirs", "ours"))


def _by_seed(row: Mapping[str, Any]) -> str:
    columns = zip(row["theirs, by seed"], row["ours, by seed"], strict=True)
    found = ((str(seed), *map(str, each)) for seed, each in enumerate(columns))
    return as_table(("seed", "theirs", "ours"), found)


def _second_order(as_is: Iterable[Mapping[str, Any]], fixed: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each run as it is; a regularised one has what the fixed code finds, too."""
    mended = {row["method"]: row["theirs"] for row in fixed}
    found = zip(second_order.RUNS, as_is, strict=True)
    cells = ((*run, row["theirs"], mended[run[0]] if run[1] == "yes" else "", row["ours"]) for run, row in found)
    return as_table(("system", "regularised", "theirs as is", "theirs with fixes", "ours, `official`"), cells)


def _in_each_way(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each thing that was timed, with a column for each way in which theirs reads images."""
    by_what: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_what.setdefault(row["what"], {})[row["theirs reads"]] = row
    ways = {"processes": "as it comes", "in process": "without processes", "our batches": "on our batches"}
    header = ("", "ours", *(f"theirs {way}" for way in ways.values()), "limit")
    return as_table(header, ((what, *_line(found, ways)) for what, found in by_what.items()))


def _in_parts(profiles: Iterable[Mapping[str, Any]], timed: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each method whose time is known beside theirs; the last cell is what no rest would leave."""
    ratios = {row["method"]: row["ours over theirs"] for row in timed if row["ours over theirs"] != ""}
    shown = (*parts.PARTS, "rest")
    found = ((row, (1 - row["rest"] / 100) * ratios[row["method"]]) for row in profiles if row["method"] in ratios)
    cells = ((row["method"], *(f"{row[part]:.0f}" for part in shown), f"{least:.2f}") for row, least in found)
    return as_table(("method", *(f"{part}, %" for part in shown), "ours over theirs without rest"), cells)


def _line(found: Mapping[str, Mapping[str, Any]], ways: Iterable[str]) -> list[str]:
    ours = dict.fromkeys(f"{row['seconds, ours']:.1f}" for row in found.values())
    theirs = (f"{row['theirs']:.1f} ({row['ratio']:.3g})" if (row := found.get(way)) else "" for way in ways)
    return [", ".join(ours), *theirs, next(iter(found.values()))["limit"]]
