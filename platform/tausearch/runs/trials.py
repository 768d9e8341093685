"""Trials of a run as the driver knows them: what each has reached, and all of them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from search_spaces import Scalar
from trainables.metrics import TEST, VALIDATION, is_metric, is_seconds, seconds

Status = Literal["running", "complete", "pruned", "diverged", "failed", "pending"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass
class TrialSummary:
    """One trial as the record knows it.

    Attributes:
        number: The trial's number in the run, counted from 0.
        seed: The seed of the trial.
        status: Where the trial stands, one of `STATUSES`.
        hyperparameters: All its hyperparameters, searched and fixed.
        rows: The metrics row of each finished task, in order.
        value: Final accuracy in percent; None unless the last task was finished.
        error: Why the trial diverged or failed; None if it did not.
    """

    number: int
    seed: int
    status: Status
    hyperparameters: dict[str, Scalar]
    rows: list[dict[str, float]] = field(default_factory=list)
    value: float | None = None
    error: str | None = None

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
        """Time in stages of its own: without pre-consolidation, which the first computes and others find."""
        return self.seconds - sum(row.get(seconds("preconsolidation"), 0.0) for row in self.rows)

    @property
    def final(self) -> dict[str, float]:
        """The metrics row of the last finished task."""
        return self.rows[-1] if self.rows else {}

    @property
    def forgetting(self) -> float:
        """Final forgetting in percentage points; 0 before the last task."""
        return self.final.get(VALIDATION.forgetting, self.final.get(TEST.forgetting, 0.0))

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last finished task, without the task's number."""
        return {name: value for name, value in self.final.items() if name != "task"}

    @property
    def facts(self) -> dict[str, str | int | float | None]:
        """What every table of trials has of it, by the columns' names."""
        return {
            "trial": self.number,
            "seed": self.seed,
            "status": self.status,
            "value": self.value,
            "tasks": self.tasks_done,
            "seconds": self.seconds,
        }


class TrialTable:
    """All trials of a run that have started, as the driver knows them just now; the one place where that is kept.

    A summary in it is never changed, only exchanged for a newer one, so another thread may read it at any time.

    Args:
        history: Trials that are known already, when a run is continued.
    """

    def __init__(self, history: Iterable[TrialSummary] = ()) -> None:
        self._by_number = {trial.number: trial for trial in history}

    def put(self, trial: TrialSummary) -> None:
        """Take note of what has become of a trial."""
        self._by_number[trial.number] = trial

    def get(self, number: int) -> TrialSummary | None:
        """Return a trial; None if it has not started."""
        return self._by_number.get(number)

    def __iter__(self) -> Iterator[TrialSummary]:
        return iter(list(self._by_number.values()))

    @property
    def ended(self) -> int:
        """Number of trials that ended, in whichever way."""
        return sum(trial.status != "running" for trial in self)


def metrics_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Pick the metrics of our contract out of a Tune result."""
    chosen = {k: float(v) for k, v in result.items() if is_metric(k)}
    return {"task": float(result["task"]), **chosen}


def final_value(row: Mapping[str, float]) -> float | None:
    """Return the final accuracy in a metrics row, whichever part it was measured on; None before the last task."""
    return row.get(VALIDATION.final_accuracy, row.get(TEST.final_accuracy))


def at_rest(trials: Iterable[TrialSummary]) -> list[TrialSummary]:
    """Return trials as they are while no process drives the run: those that were running wait to be continued."""
    return [replace(trial, status="pending") if trial.status == "running" else trial for trial in trials]


def all_ended(trials: Collection[TrialSummary], count: int) -> bool:
    """Whether a run of so many trials is over: each has started, and none runs any more."""
    return len(trials) == count and all(trial.status != "running" for trial in trials)


def ranked(trials: Iterable[TrialSummary]) -> list[TrialSummary]:
    """Return the trials that finished the last task, by final accuracy, the best first.

    Of equal ones the one comes first that forgets less, then the earlier.
    """
    finished = [trial for trial in trials if trial.status == "complete" and trial.value is not None]
    return sorted(finished, key=lambda trial: (-(trial.value or 0.0), trial.forgetting, trial.number))
