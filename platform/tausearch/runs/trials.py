"""Summaries of trials, and the driver's table of them."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from search_spaces import Scalar
from trainables.metrics import PRECONSOLIDATION, TEST, VALIDATION, MetricNames, is_metric, is_seconds, seconds

Status = Literal["complete", "pruned", "diverged", "failed", "running", "pending"]  # in the order of tables
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass
class TrialSummary:
    """One trial of a run.

    Attributes:
        number: Number in the run, from 0.
        hyperparameters: Searched and fixed ones.
        rows: The metrics row of each finished task, in order.
        value: Final accuracy in percent; None unless the last task was finished.
        error: Why the trial diverged or failed.
    """

    number: int
    seed: int
    status: Status
    hyperparameters: dict[str, Scalar]
    rows: list[dict[str, float]] = field(default_factory=list)
    value: float | None = None
    error: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the trial is over, with or without a value."""
        return self.status not in ("running", "pending")

    @property
    def tasks_done(self) -> int:
        """Number of tasks that the trial has finished."""
        return len(self.rows)

    @property
    def seconds(self) -> float:
        """Time spent in all stages of all finished tasks."""
        return sum(v for row in self.rows for name, v in row.items() if is_seconds(name))

    @property
    def own_seconds(self) -> float:
        """`seconds` without pre-consolidation, which the first trial computes and later trials take from the cache."""
        return self.seconds - sum(row.get(seconds(PRECONSOLIDATION), 0.0) for row in self.rows)

    @property
    def final(self) -> dict[str, float]:
        """The metrics row of the last finished task."""
        return self.rows[-1] if self.rows else {}

    @property
    def forgetting(self) -> float:
        """Final forgetting in percentage points; 0 before the last task."""
        return self.final.get(VALIDATION.forgetting, self.final.get(TEST.forgetting, 0.0))

    @property
    def measured_rows(self) -> Sequence[Mapping[str, float]]:
        """The metrics rows by which bounds are judged."""
        return self.rows

    def judged(self, metric_names: MetricNames) -> list[dict[str, float]]:
        """Return the metrics rows with the average accuracy by which unfinished trials are compared."""
        return self.rows

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last finished task, without the task's number."""
        return {name: value for name, value in self.final.items() if name != "task"}

    @property
    def facts(self) -> dict[str, str | int | float | None]:
        """Columns that every table of trials has: name to value."""
        return {
            "trial": self.number,
            "seed": self.seed,
            "status": self.status,
            "value": self.value,
            "tasks": self.tasks_done,
            "seconds": self.seconds,
        }


class TrialTable:
    """The driver's table of all trials that have started.

    A summary is replaced and never changed in place, so another thread may read the table at any time. The history
    holds the trials of earlier drivers.
    """

    def __init__(self, history: Iterable[TrialSummary] = ()) -> None:
        self._by_number: dict[int, TrialSummary] = {}
        self._running: dict[int, TrialSummary] = {}
        self._ranked: list[TrialSummary] = []
        self.counts: Counter[Status] = Counter()
        self.tasks_done = 0  # by all of them
        for trial in history:
            self.put(trial)

    def put(self, trial: TrialSummary) -> None:
        """Store the newest summary of a trial, and update the counts."""
        if (before := self._by_number.get(trial.number)) is not None:
            self.counts[before.status] -= 1
            self.tasks_done -= before.tasks_done
            self._running.pop(trial.number, None)
            if _is_finished(before):
                self._ranked = [each for each in self._ranked if each is not before]
        self.counts[trial.status] += 1
        self.tasks_done += trial.tasks_done
        self._by_number[trial.number] = trial
        if trial.status == "running":
            self._running[trial.number] = trial
        elif _is_finished(trial):
            self._ranked = list(self._ranked)
            insort(self._ranked, trial, key=_rank)

    def get(self, number: int) -> TrialSummary | None:
        """Return a trial; None if it has not started."""
        return self._by_number.get(number)

    def __iter__(self) -> Iterator[TrialSummary]:
        return iter(list(self._by_number.values()))

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def running(self) -> list[TrialSummary]:
        """The trials that run."""
        return list(self._running.values())

    @property
    def ranked(self) -> Sequence[TrialSummary]:
        """See `ranked`; a list that is replaced and never changed."""
        return self._ranked

    @property
    def n_ended(self) -> int:
        """Number of trials that have ended, with or without a value."""
        return len(self) - self.counts["running"]


def metrics_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics row in a Tune result, without Tune's own entries."""
    chosen = {k: float(v) for k, v in result.items() if is_metric(k)}
    return {"task": float(result["task"]), **chosen}


def final_value(row: Mapping[str, float]) -> float | None:
    """Return the final accuracy, on validation or test images, of a metrics row; None before the last task."""
    return row.get(VALIDATION.final_accuracy, row.get(TEST.final_accuracy))


def at_rest(trials: Iterable[TrialSummary]) -> list[TrialSummary]:
    """Return the trials of a run without a driver: running ones become pending."""
    return [replace(trial, status="pending") if trial.status == "running" else trial for trial in trials]


def ranked(trials: Iterable[TrialSummary]) -> Sequence[TrialSummary]:
    """Return the trials that finished the last task, by final accuracy, then less forgetting, then number."""
    if isinstance(trials, TrialTable):  # which keeps them in order
        return trials.ranked
    return sorted(filter(_is_finished, trials), key=_rank)


def _is_finished(trial: TrialSummary) -> bool:
    return trial.status == "complete" and trial.value is not None


def _rank(trial: TrialSummary) -> tuple[float, float, int]:
    return -(trial.value or 0.0), trial.forgetting, trial.number
