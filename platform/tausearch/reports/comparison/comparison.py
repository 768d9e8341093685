"""Final runs beside the paper's results: comparability, differences, and whether these lie within two deviations.

The measure of a difference is the standard deviation of a difference of two single runs, sqrt(ours^2 + paper's^2); a
run of one seed has none of its own, and then the paper's stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search_spaces import Scalar
from tausearch.reports.comparison.paper import PaperCell, PaperResults
from tausearch.reports.comparison.runs import FinalRunResults, describe, latest_per_key
from tausearch.runs import ExperimentProtocol

_COMPARED = ("tasks", "epochs", "batch_size", "backbone")
# A final run has no validation split; the paper does not state the others.
_NOT_COMPARED = ("split_seed", "backbone_weights", "weights_digest", "initial_head_digest", "precision")


@dataclass(frozen=True)
class ComparisonRow:
    """Results of a method on a benchmark: ours, the paper's, or both."""

    benchmark: str
    method: str
    settings: dict[str, Scalar]  # see `FinalRunResults.settings`; empty for the method as it is
    ours: FinalRunResults | None
    others: int  # number of further runs with the same identity as `ours`
    paper: PaperCell | None  # None if the paper has no result, or `ours` cannot be compared with it
    not_comparable: tuple[str, ...] = ()  # why `ours` cannot be compared with the paper's; empty if it can

    @property
    def difference(self) -> float | None:
        """Final accuracy of ours less the paper's, points."""
        return None if self.ours is None or self.paper is None else self.ours.accuracy.mean - self.paper.accuracy

    @property
    def two_sd(self) -> float | None:
        """Two standard deviations of a difference; None if the paper has none (ablations)."""
        if self.ours is None or self.paper is None or self.paper.std is None:
            return None
        return 2 * math.hypot(self.ours.accuracy.std or 0.0, self.paper.std)

    @property
    def within(self) -> bool | None:
        """Whether the difference lies within two standard deviations; None if these are unknown."""
        if self.difference is None or self.two_sd is None:
            return None
        return abs(self.difference) <= self.two_sd + 1e-9


@dataclass(frozen=True)
class Comparison:
    """The comparison on one benchmark."""

    benchmark: str
    in_paper: bool  # whether the paper has the benchmark
    rows: tuple[ComparisonRow, ...]  # the paper's methods, with ours where there is a run that can be compared
    not_compared: tuple[ComparisonRow, ...]  # runs that cannot be compared with the paper


@dataclass(frozen=True)
class MatrixOrder:
    """The methods and benchmarks of a comparison, in order; empty for the paper's order, then alphabetical."""

    methods: Sequence[str] = ()
    benchmarks: Sequence[str] = ()


_PAPERS_ORDER = MatrixOrder()


def compare(
    runs: Sequence[FinalRunResults],
    paper: PaperResults,
    benchmarks: Sequence[str] = (),
    order: MatrixOrder = _PAPERS_ORDER,
) -> list[Comparison]:
    """Compare final runs, oldest first, with the paper's results; by default on all benchmarks that have a run."""
    ran = dict.fromkeys(run.spec.benchmark for run in runs)
    first = dict.fromkeys(order.benchmarks)
    shown = benchmarks or [name for name in {**first, **paper.benchmarks, **ran} if name in ran]
    methods = [*dict.fromkeys([*order.methods, *paper.methods])]
    return [_compare([run for run in runs if run.spec.benchmark == name], paper, name, methods) for name in shown]


def _compare(
    runs: Sequence[FinalRunResults], paper: PaperResults, benchmark: str, methods: Sequence[str]
) -> Comparison:
    found = [_row(run, runs, paper) for run in latest_per_key(runs, identity)]
    not_compared = [row for row in found if row.not_comparable]
    rows = [row for row in found if not row.not_comparable]
    if benchmark in paper.benchmarks:
        plain = {row.method for row in rows if not row.settings}
        missing = (method for method in paper.methods if method not in plain)
        rows += [ComparisonRow(benchmark, method, {}, None, 0, paper.cell(benchmark, method)) for method in missing]
    return Comparison(benchmark, benchmark in paper.benchmarks, _sorted(rows, methods), _sorted(not_compared, methods))


def not_comparable(run: FinalRunResults, paper: PaperResults) -> tuple[str, ...]:
    """Return every difference of a run's protocol from the paper's; empty if the two can be compared."""
    benchmark, method = run.spec.benchmark, run.spec.method
    found = list(protocol_differences(run, paper)) or [f"the paper has no {benchmark}"] * (
        benchmark not in paper.benchmarks
    )
    if run.tuned_on not in (None, benchmark):
        found.append(f"tuned on {run.tuned_on}")
    if method not in paper.methods:
        found.append(f"the paper has no {method}")
    elif variant(run, paper) == "all" and (beyond := {k: v for k, v in run.marks.items() if k in paper.beyond}):
        found.append(f"the paper has no {method} with {describe(beyond)}")
    elif not found and paper.cell(benchmark, method, variant(run, paper)) is None:
        found.append(f"the paper has no {method} with {paper.ablated}={variant(run, paper)}")
    return tuple(found)


def protocol_differences(run: FinalRunResults, paper: PaperResults) -> tuple[str, ...]:
    """Return the differences of a run's protocol from the paper's on a benchmark that the paper has."""
    protocol, theirs = run.spec.protocol, paper.benchmarks.get(run.spec.benchmark)
    if theirs is None:
        return ()
    wanted = dict(zip(_COMPARED, (theirs.tasks, theirs.epochs, paper.batch_size, paper.backbone), strict=True))
    found = [
        f"{name.replace('_', ' ')} {getattr(protocol, name)}, the paper's {value}"
        for name, value in wanted.items()
        if getattr(protocol, name) != value
    ]
    for name, field in ExperimentProtocol.model_fields.items():  # other options, such as the class order
        if name not in (*_COMPARED, *_NOT_COMPARED) and getattr(protocol, name) != field.get_default():
            found.append(f"{name.replace('_', ' ')} {getattr(protocol, name)}")
    return tuple(found)


def _row(run: FinalRunResults, runs: Sequence[FinalRunResults], paper: PaperResults) -> ComparisonRow:
    reasons = not_comparable(run, paper)
    cell = None if reasons else paper.cell(run.spec.benchmark, run.spec.method, variant(run, paper))
    others = sum(identity(other) == identity(run) for other in runs) - 1
    return ComparisonRow(run.spec.benchmark, run.spec.method, run.settings, run, others, cell, reasons)


def identity(run: FinalRunResults) -> tuple[object, ...]:
    """Return the values that must be equal for a newer run to replace an older one."""
    return (run.spec.method, sorted(run.settings.items()), run.tuned_on, run.conditions)


def variant(run: FinalRunResults, paper: PaperResults) -> str:
    """Return the row of the paper's ablations that a run belongs to."""
    return str(run.marks.get(paper.ablated, "all"))


def _sorted(rows: Sequence[ComparisonRow], methods: Sequence[str]) -> tuple[ComparisonRow, ...]:
    """Return rows in the order of the methods; other methods come last."""
    place = {method: number for number, method in enumerate(methods)}
    return tuple(sorted(rows, key=lambda row: (place.get(row.method, len(place)), row.method, len(row.settings))))
