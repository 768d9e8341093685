"""What one configuration for all embedded benchmarks loses against one for each, for the six ITA and IEL systems.

For each system one search on all benchmarks and one on each, with as many trials, so that every benchmark sees as many
parts in both. Every choice is trained whole and tested. It takes a day on two cores. What has been run is kept in
`tausearch-runs/travel` and is not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tausearch
from benchmarks.choosing.making import TEST_SEEDS
from benchmarks.results.page import as_table, replaced
from tausearch.api import FinalResult, SearchResult
from trainables.metrics import TEST

SYSTEMS = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
BENCHMARKS = ("digits", "glyphs", "letters")
TRIALS = 24
STORAGE = Path("tausearch-runs/travel")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-benchmarks.md"


def run(
    systems: Sequence[str] = SYSTEMS,
    benchmarks: Sequence[str] = BENCHMARKS,
    trials: int = TRIALS,
    seeds: Sequence[int] = TEST_SEEDS,
    storage: Path = STORAGE,
) -> list[dict[str, Any]]:
    """Search, train and test; returns a row for each system and benchmark, test accuracies in percent.

    "left out" is the validation accuracy of the trial that the other benchmarks chose, less that of the best trial.
    """
    rows = []
    for system in systems:
        together = _searched(",".join(benchmarks), system, trials, storage)
        for place, benchmark in enumerate(benchmarks):
            alone = _searched(benchmark, system, trials, storage)
            one, each = (_tested(found, benchmark, seeds, storage) for found in (together, alone))
            left_out = -together.left_out[place].lost if together.left_out else None
            found = {"one for all": one, "one for each": each, "lost": each - one, "left out": left_out}
            rows.append({"method": system, "benchmark": benchmark, **found})
    return rows


def write_page() -> None:
    """Measure, and write the table of docs/how-to/several-benchmarks.md."""
    header = ("system", "benchmark", "one for all", "one for each", "lost", "left out, validation")
    rows = [
        (f"`{method}`", f"`{benchmark}`", *("" if value is None else f"{value:.2f}" for value in values))
        for method, benchmark, *values in (row.values() for row in run())
    ]
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "travel", as_table(header, rows)), encoding="utf-8")


def _searched(benchmark: str, system: str, trials: int, storage: Path) -> SearchResult:
    name = f"{benchmark.replace(',', '-').replace('?', '-').replace('=', '-')}-{system}"
    how: dict[str, Any] = {"trials": trials, "name": name, "resume_if_exists": True, "storage": storage}
    return tausearch.search(benchmark, system, tracking="none", **how)


def _tested(found: SearchResult, benchmark: str, seeds: Sequence[int], storage: Path) -> float:
    """Return the mean test accuracy on a benchmark of what a search chose, percent."""
    assert found.best is not None, f"{found.name} chose nothing"
    name = f"{found.name}-on-{benchmark.replace('?', '-').replace('=', '-')}"
    how: dict[str, Any] = {"seeds": seeds, "name": name, "resume_if_exists": True, "storage": storage}
    result: FinalResult = tausearch.train(found.best, benchmark=benchmark, tracking="none", **how)
    return result.summary[TEST.final_accuracy]["mean"]
