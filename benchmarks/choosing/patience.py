"""What `--patience` saves and costs: recorded searches replayed, and ended where it would have ended them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choosing.making import processes
from benchmarks.choosing.measuring import Estimate
from benchmarks.choosing.strategies import CANDIDATES, ROUNDS, Draw, Search, chosen, draws_of, replayed
from benchmarks.results.page import as_table, replaced
from tausearch.runs import SearchSpec, StopRule, TrialSummary, cut_short
from tausearch.studies import ConfigurationTable, Replay, read_table, table_files

TRIALS = 48  # of a search without `--patience`, far more than most need
PATIENCE = (5, 10, 15, 20)
RESAMPLES, SEARCHES = 30, 4  # tables drawn with replacement, and searches on each
SEARCHED = (Search("tpe"), Search("random"))
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "what-helps.md"


def run() -> list[dict[str, Any]]:
    """Replay searches on all tables, each with several values of `--patience`."""
    rows = []
    for table in map(read_table, table_files()):
        for search in SEARCHED:
            found = _measured(table, search)
            for place, patience in enumerate(PATIENCE):
                rows.append(
                    {
                        "benchmark": table.spec.benchmark,
                        "algorithm": search.algorithm,
                        "patience": patience,
                        "trials": float(found[:, :, place, 0].mean()),
                        "change": Estimate.of(found[:, :, place, 1]).text("+"),
                        "change, re-evaluated": Estimate.of(found[:, :, place, 2]).text("+"),
                    }
                )
    return rows


def write_page() -> None:
    """Measure, and write the table of docs/explanation/what-helps.md."""
    header = ("benchmark", "algorithm", "`--patience`", f"trials of {TRIALS}", "test accuracy", "re-evaluated")
    rows = [
        (f"`{benchmark}`", f"`{algorithm}`", str(patience), f"{trials:.1f}", *changes)
        for benchmark, algorithm, patience, trials, *changes in (row.values() for row in run())
    ]
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "patience", as_table(header, rows)), encoding="utf-8")


def _measured(table: ConfigurationTable, search: Search) -> np.ndarray:
    """Return trials and the two changes of test accuracy: (resamples, searches, values of patience, 3)."""
    draws = draws_of(table, RESAMPLES, SEARCHES)
    with processes() as pool:
        found = list(pool.map(_of_draw, [(search, draw) for row in draws for draw in row], chunksize=8))
    return np.array(found).reshape(RESAMPLES, SEARCHES, len(PATIENCE), 3)


def _of_draw(job: tuple[Search, Draw]) -> list[tuple[float, float, float]]:
    """Return for each value of patience: the trials, and how the test accuracy of both ways to choose changes."""
    search, draw = job
    spec, steps = draw.table.spec, draw.table.spec.steps
    found = replayed(search, draw, TRIALS * steps)
    trials = [
        replace(draw.table.runs["search", draw.split][number], number=place)
        for place, number in enumerate(found.tried[:TRIALS])
    ]
    ends = [ended_after(spec, trials, patience) for patience in PATIENCE]
    whole = _tested(draw, found, len(trials))
    changes = [[own - all_ for own, all_ in zip(_tested(draw, found, end), whole, strict=True)] for end in ends]
    return [(float(end), *change) for end, change in zip(ends, changes, strict=True)]  # type: ignore[misc]


def ended_after(spec: SearchSpec, trials: Sequence[TrialSummary], patience: int) -> int:
    """Return the number of trials after which a search of one trial at a time ends."""
    rule = spec.model_copy(update={"stop": StopRule(patience=patience)})
    ended = (count for count in range(1, len(trials)) if cut_short(rule, trials[:count]) is not None)
    return next(ended, len(trials))


def _tested(draw: Draw, found: Replay, trials: int) -> tuple[float, float]:
    """Return the test accuracy of the choice among the first trials: of the highest value, and re-evaluated."""
    steps = draw.table.spec.steps
    again = CANDIDATES * ROUNDS * steps  # the re-evaluations come on top of the trials
    picked = (chosen(draw, found, trials * steps, False), chosen(draw, found, trials * steps + again, True))
    return tuple(0.0 if number is None else draw.table.test[number] for number in picked)  # type: ignore[return-value]
