"""Write the tables of docs/explanation/scale.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.performance import kept
from benchmarks.performance.kept import Kept, Measured
from benchmarks.planning.simulator import Machine, Outcome, Work, lower_bound, simulate
from benchmarks.planning.table import BEFORE, DATASETS, task_seconds, whole_table
from benchmarks.results.page import as_table, of_columns, write
from tausearch.presentation import clock

MEASURED, HELD, ESTIMATES = Path(__file__).parent / "measured", "planning", "estimates"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "scale.md"
GPUS = (8, 64, 512)
TRIALS, SEEDS = 24, 3
START = 5.0  # seconds from a free slot to the first task: a process that reads ViT-B/16
FAILURES = (0.01, 0.1)  # of a GPU, per hour


def write_page() -> None:
    """Simulate, and write all tables."""
    write({"work": work(), "makespan": as_table(_HEADER, _rows())} | held() | estimates(), PAGE)


def driver_seconds() -> float:
    """Return the driver's CPU time for a task, as kept last: `scale` may just have measured it anew."""
    return max(row["mean"] for row in Measured.of("scale", kept.MEASURED).rows) / 1000


def held(folder: Path = MEASURED) -> dict[str, str]:
    """Return the table of the campaign that the simulation was held against."""
    found = Measured.of(HELD, folder)
    rows = ({**row, "took": f"{row['took']:.0f} s", "predicted": f"{row['predicted']:.0f} s"} for row in found.rows)
    table = of_columns(rows, ("trials", "slots", "took", "predicted", "ratio"))
    return {HELD: f"{table}\n\n{found.when}"}


def estimates(folder: Path = MEASURED) -> dict[str, str]:
    """Return the table of what estimates said and what the runs took."""
    found = Kept.of(ESTIMATES, folder)
    rows = ({**row, **{name: f"{row[name]:.0f} s" for name in ("said", "took")}} for row in found.rows)
    machine = f"{found.machine.processor}, {found.machine.cores} cores"
    when = f"Figures of {found.day}, commit {found.commit}: {machine}."
    return {ESTIMATES: f"{of_columns(rows, ('what', 'said', 'took', 'ratio'))}\n\n{when}"}


def work() -> str:
    """Return the table of what the paper's whole table costs."""
    return as_table(("", "float32", "bf16"), _work())


def _work() -> Iterator[tuple[str, ...]]:
    """Yield the price of the whole table, and of a search of `ita-lora` on each dataset."""
    both = [whole_table(TRIALS, SEEDS, bf16=bf16) for bf16 in (False, True)]
    whole = [sum(each.seconds for each in cells) for cells in both]
    reports = [sum((each.trials + each.seeds) * len(each.tasks) for each in cells) for cells in both]
    yield "whole table, GPU hours", *(f"{_hours(each):.0f}" for each in whole)
    driver = driver_seconds()
    full = (seconds / (driver * count) for seconds, count in zip(whole, reports, strict=True))
    yield "busy cards that keep one driver busy all the time", *(f"{each:.0f}" for each in full)
    for dataset in DATASETS:
        seconds = [TRIALS * sum(task_seconds("ita-lora", dataset, bf16=bf16)) for bf16 in (False, True)]
        shared = BEFORE * 0.9 * DATASETS[dataset][2]
        yield f"search of `ita-lora` on `{dataset}`, GPU hours", *(f"{_hours(each + shared):.1f}" for each in seconds)


_HEADER = ("GPUs", "campaign", "bound", "makespan", "utilisation", "tail", "lost", "driver busy")


def _rows() -> Iterator[tuple[str, ...]]:
    driver = driver_seconds()
    for gpus in GPUS:
        for name, cells, failures in _campaigns():
            found = simulate(cells, Machine(gpus, START, driver, failures))
            bound = "" if any(each.stops for each in cells) else clock(lower_bound(cells, gpus))
            yield str(gpus), name, bound, *_numbers(found)


def _campaigns() -> Iterator[tuple[str, list[Work], float]]:
    """Yield name, cells and failures of the campaigns that are compared."""
    whole = whole_table(TRIALS, SEEDS)
    yield "as the file has it", whole, 0.0
    yield "the longest cells first", longest_first(whole), 0.0
    yield "and `asha`", longest_first(whole_table(TRIALS, SEEDS, early_stopping=True)), 0.0
    yield "and `random`, no limit at a time", longest_first(whole_table(TRIALS, SEEDS, at_once=TRIALS)), 0.0
    yield "and bf16", longest_first(whole_table(TRIALS, SEEDS, at_once=TRIALS, bf16=True)), 0.0
    for failures in FAILURES:
        yield f"longest first, {failures:g} failures per GPU and hour", longest_first(whole), failures


def longest_first(cells: Sequence[Work]) -> list[Work]:
    """Return the cells in the order of their longest chains."""
    return sorted(cells, key=lambda each: -each.chain)


def _numbers(found: Outcome) -> tuple[str, ...]:
    shares = f"{100 * found.utilisation:.0f} %", clock(found.tail), f"{_hours(found.lost):.1f} GPU h"
    return clock(found.seconds), *shares, f"{100 * found.driver:.1f} %"


def _hours(seconds: float) -> float:
    return seconds / 3600
