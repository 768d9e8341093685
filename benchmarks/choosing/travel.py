"""What one configuration for all embedded benchmarks loses against one for each, for the six ITA and IEL systems.

For each system one search on all benchmarks and one on each, with as many trials, so that every benchmark sees as many
parts in both. Every choice is trained whole with three seeds, and tested. What was measured of a system is kept in
`travelled`, so that the measurement may take several days; the runs themselves are not needed any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tausearch
from benchmarks.results.page import as_table, replaced
from tausearch.api import FinalResult, SearchResult
from tausearch.runs import Score
from trainables.metrics import TEST

SYSTEMS = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
BENCHMARKS = ("digits", "glyphs", "letters")
TRIALS = 12
SEEDS = (0, 1, 2)
STORAGE = Path("tausearch-runs/travel")
KEPT = Path(__file__).with_name("travelled")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-benchmarks.md"
HEADER = ("system", "benchmark", "one for all", "one for each", "lost", "left out, validation")


def measure_all(systems: Sequence[str] = SYSTEMS, storage: Path = STORAGE, kept: Path = KEPT) -> None:
    """Measure the systems that have no file yet."""
    kept.mkdir(exist_ok=True)
    for system in systems:
        file = kept / f"{system}.json"
        if not file.exists():
            file.write_text(json.dumps(measure(system, storage=storage), indent=1) + "\n", encoding="utf-8")


def measure(
    system: str,
    benchmarks: Sequence[str] = BENCHMARKS,
    trials: int = TRIALS,
    seeds: Sequence[int] = SEEDS,
    storage: Path = STORAGE,
) -> list[dict[str, Any]]:
    """Search, train and test with one system.

    Returns:
        A row for each benchmark. "one for all" and "one for each" are lists of test accuracies by seed, percent.
        "left out" is what the trial that the other benchmarks chose loses here against the best trial, points of
        validation accuracy; None if it cannot be said.
    """
    together = _searched(",".join(benchmarks), system, trials, storage)
    rows = []
    for place, benchmark in enumerate(benchmarks):
        alone = _searched(benchmark, system, trials, storage)
        one, each = (_tested(found, benchmark, seeds, storage) for found in (together, alone))
        left_out = together.left_out[place].lost if together.left_out else None
        rows.append({"benchmark": benchmark, "one for all": one, "one for each": each, "left out": left_out})
    return rows


def write_page(kept: Path = KEPT, page: Path = PAGE) -> None:
    """Write the table of docs/how-to/several-benchmarks.md from the kept files."""
    rows = list(_rows(kept))
    lost = [fmean(row["one for each"]) - fmean(row["one for all"]) for _, row in rows]
    left_out = [row["left out"] for _, row in rows if row["left out"] is not None]
    mean = ("mean", "", "", "", f"{fmean(lost):+.2f}", f"{fmean(left_out):.2f}" if left_out else "")
    table = as_table(HEADER, [*(_cells(system, row) for system, row in rows), mean])
    page.write_text(replaced(page.read_text(encoding="utf-8"), "travel", table), encoding="utf-8")


def _rows(kept: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for system in SYSTEMS:
        file = kept / f"{system}.json"
        for row in json.loads(file.read_text(encoding="utf-8")) if file.exists() else ():
            yield system, row


def _cells(system: str, row: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a table; what is lost is paired by seed."""
    one, each = row["one for all"], row["one for each"]
    lost = Score.of([b - a for a, b in zip(one, each, strict=True)]).text("+")
    left_out = "" if row["left out"] is None else f"{row['left out']:.2f}"
    return f"`{system}`", f"`{row['benchmark']}`", Score.of(one).text(), Score.of(each).text(), lost, left_out


def _searched(benchmark: str, system: str, trials: int, storage: Path) -> SearchResult:
    how: dict[str, Any] = {"trials": trials, "resume_if_exists": True, "storage": storage}
    return tausearch.search(benchmark, system, name=f"{_plain(benchmark)}-{system}", tracking="none", **how)


def _tested(found: SearchResult, benchmark: str, seeds: Sequence[int], storage: Path) -> list[float]:
    """Return the test accuracies on a benchmark of what a search chose, one for each seed, percent."""
    assert found.best is not None, f"{found.name} chose nothing"
    how: dict[str, Any] = {"seeds": seeds, "name": f"{found.name}-on-{_plain(benchmark)}", "resume_if_exists": True}
    result: FinalResult = tausearch.train(found.best, benchmark=benchmark, storage=storage, tracking="none", **how)
    return [trial.metrics[TEST.final_accuracy] for trial in result.trials]


def _plain(benchmark: str) -> str:
    """Return a part of a run's name."""
    return benchmark.replace(",", "-").replace("?", "-").replace("=", "-")
