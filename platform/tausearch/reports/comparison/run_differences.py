"""The difference of final accuracy between the user's own final runs, with its standard error over shared seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from checked_input.names import counted, require_once
from tausearch.presentation import Column, Table, command_on, text_columns
from tausearch.reports.comparison.csv_rows import run_as_dict
from tausearch.reports.comparison.paper import paper_results
from tausearch.reports.comparison.printing import SCORES, ComparisonOutput, OutputFormat, print_answer
from tausearch.reports.comparison.runs import FREE_FIELDS, FinalRunResults, describe, read_final_run
from tausearch.reports.comparison.tables import accuracy_text, label
from tausearch.runs import AccuracyOf, Score, Storage, read_accuracies, shown_benchmark
from trainables.data import BENCHMARKS
from trainables.errors import InputError

_DIFFERENCE = "difference ± standard error"
_FEWEST = 2  # pairs that have a deviation


@dataclass(frozen=True)
class RunDifference:
    """The final accuracy of a run less that of the first named run, the baseline."""

    run: FinalRunResults
    points: float | None = None  # over shared seeds, or of the means; None for the baseline and what cannot be compared
    error: float | None = None  # standard error of the difference, points; None after one seed
    shared: int = 0  # number of seeds that both runs have finished, each in the same class order
    paired: bool | None = None  # whether the difference is that of shared seeds; None without a difference
    orders: bool = False  # whether the runs are over several class orders
    not_comparable: tuple[str, ...] = ()  # why the run cannot be compared with the baseline; empty if it can
    may_differ: bool = False  # whether its images may be others than the baseline's

    @property
    def text(self) -> str | None:
        """The difference with its standard error: `+1.20 ± 0.31`; None without a difference."""
        return None if self.points is None else Score(self.points, self.error, self.shared).text("+")

    @property
    def basis(self) -> str:
        """What the difference is over, in words, or why there is none."""
        if self.paired is None:
            return "; ".join(self.not_comparable) or "the baseline"
        shared = counted(self.shared, f"shared {'pair' if self.orders else 'seed'}")
        shared += " of class order and seed" if self.orders else ""
        over = f"paired, {shared}" if self.paired else f"unpaired, {shared}"
        over = over if self.error is not None else f"{over}: no error"
        return f"{over}; images may be others" if self.may_differ else over


def show_differences(storage: Storage, names: Sequence[str], output_format: OutputFormat) -> None:
    """Print the final accuracies of two or more final runs, and how they differ from the first; refuse others."""
    require_once("compare", names)
    runs = [_require_final(storage, name) for name in names]
    if len(names) < 2:
        raise InputError(f"compare {names[0]}: name another final run, too; the differences are from the first one")
    found = differences(runs, [read_accuracies(run.spec, storage.run(run.spec.name)) for run in runs])
    rows = [_as_dict(each) for each in found]
    csv_rows = [{k: v for k, v in row.items() if k not in ("protocol", "hyperparameters")} for row in rows]
    notes = [
        SCORES,
        f"difference: points above {names[0]}, ± standard error; paired: the mean over seeds that both runs have",
    ]
    content = {"baseline": names[0], "rows": rows}
    print_answer(ComparisonOutput(content, csv_rows, [difference_table(found)], notes=notes), output_format)


def names_runs(storage: Storage, names: Iterable[str]) -> bool:
    """Whether one of the names is that of a run, and not of a known benchmark."""
    return any(name not in _benchmarks() and storage.run_exists(name) for name in names)


def differences(runs: Sequence[FinalRunResults], accuracies: Sequence[AccuracyOf]) -> list[RunDifference]:
    """Return the difference of each run from the first one, whose row has none.

    Two runs are paired if they share two seeds, or all that one of them has. Runs over class orders are paired by order
    and seed. The standard error of a paired difference is the sample deviation of the differences by seed over the root
    of their number; that of an unpaired one is sqrt(s^2/n + s'^2/n').
    """
    compared = [_difference(run, own, runs[0], accuracies[0]) for run, own in zip(runs, accuracies, strict=True)]
    return [RunDifference(runs[0]), *compared[1:]]


def difference_table(found: Sequence[RunDifference]) -> Table:
    """Return a table with a row for each run; its title names the benchmark if all runs are on the same one."""
    columns = [
        *(Column("run", wrap=True), Column("method", wrap=True), Column("final accuracy", accuracy_text, right=True)),
        *(Column(_DIFFERENCE, right=True), *text_columns("over")),
    ]
    benchmarks = {each.run.spec.benchmark for each in found}
    of = f"{shown_benchmark(*benchmarks)}: " if len(benchmarks) == 1 else ""
    title = f"{of}final accuracy, percent, and the difference from {found[0].run.spec.name}, points"
    rows = [
        (run.spec.name, label(run.spec.method, describe(run.settings)), run, each.text, each.basis)
        for each in found
        for run in [each.run]
    ]
    return Table(title, columns, rows)


def _require_final(storage: Storage, name: str) -> FinalRunResults:
    if not storage.run_exists(name):
        if name in _benchmarks():
            raise InputError(f"compare {name}: is a benchmark; name benchmarks or final runs, not both")
        raise InputError(f"compare: no run named {name!r} in {storage.root}{storage.hint_for(name)}")
    spec, run = read_final_run(storage.run(name))
    if spec.purpose == "search":
        train = command_on("train", name, storage.root)
        raise InputError(f"compare {name}: is a search; train what it chose with: {train}")
    if run is None:
        raise InputError(f"compare {name}: has no finished seed yet")
    return run


def _benchmarks() -> list[str]:
    return [*paper_results().benchmarks, *BENCHMARKS]


def _difference(run: FinalRunResults, own: AccuracyOf, first: FinalRunResults, firsts: AccuracyOf) -> RunDifference:
    orders = run.spec.protocol.class_orders is not None
    shared = [own[key] - firsts[key] for key in own if key in firsts]
    reasons = tuple(_not_comparable(run, own, first, firsts))
    if reasons:
        return RunDifference(run, shared=len(shared), orders=orders, not_comparable=reasons)
    paired = len(shared) >= min(_FEWEST, len(own), len(firsts))
    points = statistics.fmean(shared) if paired else statistics.fmean(own.values()) - statistics.fmean(firsts.values())
    sides = [shared] if paired else [list(own.values()), list(firsts.values())]
    error = None
    if all(len(side) >= _FEWEST for side in sides):
        error = math.sqrt(sum(statistics.variance(side) / len(side) for side in sides))
    may_differ = run.has_images_of(first) is None
    return RunDifference(run, points, error, len(shared), paired, orders, may_differ=may_differ)


def _not_comparable(run: FinalRunResults, own: AccuracyOf, first: FinalRunResults, firsts: AccuracyOf) -> list[str]:
    """Return why two runs cannot be compared: the benchmark, or a setting of the protocol."""
    if run.spec.benchmark != first.spec.benchmark:
        return [f"on {shown_benchmark(run.spec.benchmark)}"]
    found = []
    for (name, value), (_, base) in zip(run.spec.protocol, first.spec.protocol, strict=True):
        if value == base or name in (*FREE_FIELDS, "class_orders"):
            continue
        about = name.replace("_", " ")
        found.append(f"another {about}" if "digest" in name else f"{about} {value}, the baseline's {base}")
    if not {order for order, _ in own} & {order for order, _ in firsts}:
        found.append("other class orders")
    if not found and run.has_images_of(first) is False:
        found.append("other images")
    return found


def _as_dict(each: RunDifference) -> dict[str, Any]:
    spec = each.run.spec
    return {
        "benchmark": spec.benchmark,
        "method": spec.method,
        "settings": each.run.settings,
        **run_as_dict(each.run),
        "difference": each.points,
        "standard_error": each.error,
        "paired": each.paired,
        "shared_seeds": each.shared,
        "departures": [*each.not_comparable, *["images may be others"] * each.may_differ],
    }
