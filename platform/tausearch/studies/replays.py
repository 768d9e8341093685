"""Replay a search: the algorithm proposes points, the record has the results, and tasks are counted."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

import optuna

from search_spaces import Scalar
from tausearch.runs import SearchSpec, Status, TrialSummary, best_trial
from tausearch.studies.recorded_trials import RecordedTrials
from tausearch.studies.searchers import points_ahead
from tausearch.studies.study import SearchStudy


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        seed: The seed of the algorithm.
        tried: Numbers of the recorded trials that it tries, in their order.
        ends: How each of them ends in it, and after how many tasks.
        chosen: The recorded trial that it chooses; None if none reaches the last task.
        distance: Median distance from what the algorithm asked for to what was recorded, as a share of the ranges.
    """

    seed: int
    tried: tuple[int, ...]
    ends: tuple[tuple[Status, int], ...]
    chosen: TrialSummary | None
    distance: float

    @property
    def stopped(self) -> int:
        """Number of trials that the replay or the recorded search stopped early."""
        return sum(status == "pruned" for status, _ in self.ends)

    @property
    def tasks(self) -> int:
        """Number of tasks that all trials would train."""
        return sum(tasks for _, tasks in self.ends)


def replay(spec: SearchSpec, recorded: RecordedTrials) -> Replay:
    """Run a search on the record, one trial at a time.

    A point that the algorithm asks for becomes the nearest recorded configuration that has not been tried, and the
    algorithm is told that it was that one. A trial that the recorded search stopped, or that diverged, ends where it
    did there.

    Args:
        spec: The search to replay: its space and start, and the algorithm, scheduler, seed and number of trials.
        recorded: The record; at least as many trials as are asked for.

    Returns:
        What it would have found.
    """
    study, tried, ends, distances = SearchStudy(spec), [], [], []
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a replay has no log for Optuna's warnings
    used: set[int] = set()
    for number, point in _asked(study, spec):
        trial, far = recorded.nearest(point, used)
        study.exchange(number, recorded.point(trial))
        used.add(trial.number)
        tried.append(trial)
        distances.append(far)
        ends.append(_play(study, number, trial, spec))
    finished = [trial for trial, (status, _) in zip(tried, ends, strict=True) if status == "complete"]
    return Replay(
        seed=spec.seed,
        tried=tuple(trial.number for trial in tried),
        ends=tuple(ends),
        chosen=best_trial(finished, spec.constraints),
        distance=statistics.median(distances),
    )


def _asked(study: SearchStudy, spec: SearchSpec) -> Iterator[tuple[int, dict[str, Scalar]]]:
    """Yield the points of a search, each as a running trial: first the points ahead, then those of the sampler."""
    ahead = iter(points_ahead(spec))
    for number in range(spec.trials):
        if (point := next(ahead, None)) is not None:
            study.enqueue(point)
        yield number, dict(study.ask(number))


def _play(study: SearchStudy, number: int, trial: TrialSummary, spec: SearchSpec) -> tuple[Status, int]:
    """Report the tasks of a recorded trial one by one; returns its end and the number of tasks trained."""
    status, value, tasks = trial.status, trial.value, 0
    for task, accuracy in study.reports(trial).items():
        tasks = task
        if study.report(number, task, accuracy) and task <= trial.tasks_done and task < spec.steps:
            status, value = "pruned", None  # schedulers do not see the last task, nor a trial that diverged
            break
    study.tell(number, status, value, replace(trial, rows=trial.rows[:tasks]))
    return status, tasks
