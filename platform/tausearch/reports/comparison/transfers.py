"""Transfer: the loss of hyperparameters on a benchmark on which they were not tuned.

A method that is tuned and judged on one benchmark is flattered by it (Cha and Cho, "Hyperparameters in Continual
Learning: A Reality Check", https://arxiv.org/abs/2403.09066).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from search_spaces import Scalar
from tausearch.reports.comparison.runs import FinalRunResults, latest_per_key


@dataclass(frozen=True)
class TransferCell:
    """Hyperparameters tuned on one benchmark and judged on another, or on the same one."""

    tuned_on: str
    judged_on: str
    run: FinalRunResults
    own: FinalRunResults | None  # the final run that was tuned on `judged_on` itself, under the same protocol

    @property
    def loss(self) -> float | None:
        """Final accuracy after tuning on the target itself minus this one, points; negative if this one is better."""
        return None if self.own is None else self.own.accuracy.mean - self.run.accuracy.mean

    @property
    def two_sd(self) -> float | None:
        """Two standard deviations of this difference; None on the diagonal and for runs with one seed."""
        if self.own is None or self.own is self.run:
            return None
        stds = (self.own.accuracy.std, self.run.accuracy.std)
        return None if stds[0] is None or stds[1] is None else 2 * math.hypot(stds[0], stds[1])


@dataclass(frozen=True)
class TransferMatrix:
    """A method on one backbone in one precision; all runs of a column were judged under one protocol."""

    method: str
    settings: dict[str, Scalar]  # see `FinalRunResults.marks`; empty for the method as it is
    backbone: str
    precision: str
    cells: dict[tuple[str, str], TransferCell]  # the cells, by (tuned on, judged on)
    left_out: tuple[str, ...]  # runs judged under another protocol or on other images than most of their column

    @property
    def tuned_on(self) -> tuple[str, ...]:
        """The benchmarks of its rows, in alphabetical order."""
        return tuple(sorted({tuned_on for tuned_on, _ in self.cells}))

    @property
    def judged_on(self) -> tuple[str, ...]:
        """The benchmarks of its columns, in alphabetical order."""
        return tuple(sorted({judged_on for _, judged_on in self.cells}))


def transfer(runs: Sequence[FinalRunResults], benchmarks: Collection[str] = ()) -> list[TransferMatrix]:
    """Return the matrix of every method with a run on a benchmark on which it was not tuned.

    Runs come oldest first. Runs whose hyperparameters were changed by hand, and runs without a search, are left out.
    """
    tuned = [run for run in runs if run.tuned_on is not None and not _changed(run)]
    groups: dict[str, list[FinalRunResults]] = {}
    for run in tuned:
        groups.setdefault(repr(_group(run)), []).append(run)
    matrices = [_matrix(group, benchmarks) for group in groups.values()]
    return sorted(
        (m for m in matrices if m.cells), key=lambda m: (m.method, len(m.settings), repr(m.settings), m.backbone)
    )


def changed_by_hand(runs: Sequence[FinalRunResults], benchmarks: Collection[str] = ()) -> list[str]:
    """Return the names of the runs tuned elsewhere that no matrix has because `--set` changed their values."""
    moved = [run for run in runs if run.tuned_on not in (None, run.spec.benchmark) and _changed(run)]
    return [run.spec.name for run in moved if not benchmarks or run.spec.benchmark in benchmarks]


def _changed(run: FinalRunResults) -> bool:
    return run.settings != run.marks


def _group(run: FinalRunResults) -> tuple[object, ...]:
    return (run.spec.method, run.marks, run.spec.protocol.weights_digest, run.spec.protocol.precision)


def _matrix(runs: Sequence[FinalRunResults], benchmarks: Collection[str]) -> TransferMatrix:
    partners = {name for r in runs if r.tuned_on != r.spec.benchmark for name in (r.tuned_on, r.spec.benchmark)}
    names = sorted(name for name in partners if name and (not benchmarks or name in benchmarks))
    taking_part = [run for run in runs if run.spec.benchmark in names]
    columns = {name: _column([run for run in taking_part if run.spec.benchmark == name]) for name in names}
    cells = {}
    for judged_on, column in columns.items():
        for tuned_on, run in sorted(column.items()):
            cells[tuned_on, judged_on] = TransferCell(tuned_on, judged_on, run, column.get(judged_on))
    kept = {judged_on: [run.conditions for run in column.values()] for judged_on, column in columns.items()}
    left_out = tuple(run.spec.name for run in taking_part if run.conditions not in kept[run.spec.benchmark])
    first = runs[0].spec
    backbone, precision = first.protocol.backbone, first.protocol.precision
    return TransferMatrix(first.method, runs[0].marks, backbone, precision, cells, left_out)


def _column(runs: Sequence[FinalRunResults]) -> dict[str, FinalRunResults]:
    """Return the runs of the protocol with the most tuning benchmarks, by these; of equals the newest usual one."""
    by_protocol: dict[str, list[FinalRunResults]] = {}
    for run in runs:
        group = by_protocol.pop(repr(run.conditions), [])  # so that the protocol of the newest run is the last one
        by_protocol[repr(run.conditions)] = [*group, run]

    def rank(group: Sequence[FinalRunResults]) -> tuple[int, bool]:
        return len({run.tuned_on for run in group}), group[0].spec.protocol.class_orders is None

    best = max(reversed(list(by_protocol.values())), key=rank, default=[])
    return {str(run.tuned_on): run for run in latest_per_key(best, lambda each: each.tuned_on)}
