"""Replays of a recorded search: the algorithm proposes points, the record has the results, and nothing is trained."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import optuna

from checked_input.names import counted
from checked_input.ranges import different_fault
from search_spaces import Scalar
from tausearch.runs import (
    ALGORITHMS,
    MIN_FINISHED_TRIALS,
    SCHEDULERS,
    Record,
    Score,
    SearchSpec,
    Status,
    Storage,
    TrialSummary,
    best_trial,
    eligible,
    no_feasible_trial_reason,
    read_spec,
    recorded_trials,
)
from tausearch.studies.algorithm_options import one_of, require_alone, scheduler_fault
from tausearch.studies.grid import grid_size
from tausearch.studies.recorded.trials import RecordedTrials
from tausearch.studies.schedulers import first_stop, first_stop_with
from tausearch.studies.searchers import points_to_evaluate
from tausearch.studies.study import SearchStudy
from trainables.errors import InputError

DEFAULT_SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    seed: int  # of the algorithm
    tried: tuple[int, ...]  # numbers of the recorded trials, in the order in which they are tried
    ends: tuple[tuple[Status, int], ...]  # the status and the number of tasks with which each of them ends
    chosen: TrialSummary | None  # None if no trial reaches the last task
    distance: float  # median distance from a proposed point to the recorded one, as a share of the ranges

    @property
    def stopped(self) -> int:
        """Number of trials that the replay or the recorded search stopped early."""
        return sum(status == "pruned" for status, _ in self.ends)

    @property
    def tasks(self) -> int:
        """Number of tasks that all trials would train."""
        return sum(tasks for _, tasks in self.ends)

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form of the replay."""
        return {
            "seed": self.seed,
            "chosen": None if self.chosen is None else self.chosen.number,
            "value": None if self.chosen is None else self.chosen.value,
            "tried": list(self.tried),
            "stopped": self.stopped,
            "tasks": self.tasks,
            "distance": self.distance,
        }


@dataclass(frozen=True)
class ReplayedSetting:
    """The replays of one algorithm and scheduler, one per seed."""

    algorithm: str
    scheduler: str
    replays: tuple[Replay, ...]
    value: Callable[[TrialSummary], float | None] = lambda trial: trial.value  # see `RecordedTrials.value`

    @property
    def accuracy(self) -> Score | None:
        """Final accuracy of the chosen trials, percent, over the seeds; None if a seed finished no trial.

        With other objectives it is what trials are chosen by.
        """
        chosen = [each.chosen for each in self.replays]
        values = [value for trial in chosen if trial is not None and (value := self.value(trial)) is not None]
        return Score.of(values) if len(values) == len(self.replays) else None

    @property
    def tasks(self) -> Score:
        """Tasks trained, over the seeds."""
        return Score.of([float(each.tasks) for each in self.replays])

    def found(self, best: TrialSummary) -> int:
        """Return the number of seeds that choose a trial."""
        return sum(each.chosen is not None and each.chosen.number == best.number for each in self.replays)

    def as_dict(self, recorded: RecordedTrials) -> dict[str, Any]:
        """Return the plain form of the replays, with the regret to the best recorded trial."""
        accuracy, best = self.accuracy, recorded.best
        return {
            "algorithm": self.algorithm,
            "scheduler": self.scheduler,
            "accuracy": None if accuracy is None else vars(accuracy),
            "regret": None if accuracy is None else recorded.regret(accuracy.mean),
            "found_best": self.found(best),
            "tasks": vars(self.tasks),
            "replays": [each.as_dict() for each in self.replays],
        }


@dataclass(frozen=True)
class ReplayComparison:
    """Replays of a recorded search under several algorithms and schedulers."""

    spec: SearchSpec  # of the recorded search
    recorded: RecordedTrials
    trials: int  # of every replay
    outcomes: Sequence[ReplayedSetting]
    left_out: Mapping[str, str] = field(default_factory=dict)  # schedulers that no replay has, and why

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch runs replay --format json` prints."""
        best, spec = self.recorded.best, self.spec
        return {
            "name": spec.name,
            "benchmark": spec.benchmark,
            "method": spec.method,
            "recorded": {
                "algorithm": spec.algorithm,
                "scheduler": spec.scheduler,
                "trials": len(self.recorded.trials),
                "left_out": self.recorded.left_out,
                "tasks": sum(trial.tasks_done for trial in self.recorded.trials),
                "best": {"trial": best.number, "value": best.value, "hyperparameters": best.hyperparameters},
            },
            "trials": self.trials,
            "outcomes": [outcome.as_dict(self.recorded) for outcome in self.outcomes],
            **({"schedulers_left_out": dict(self.left_out)} if self.left_out else {}),
        }


def replays_of(
    storage: Storage,
    name: str,
    *,
    algorithm: str | None = None,
    scheduler: str | None = None,
    trials: int | None = None,
    seeds: Sequence[int] = DEFAULT_SEEDS,
) -> ReplayComparison:
    """Return the replays of a recorded search under other algorithms and schedulers, one per seed of the algorithm.

    None stands for all algorithms but the grid, all schedulers that work with the algorithm, and half of the recorded
    trials, or all points of a smaller grid.

    Raises:
        InputError: If there is no such search, it has too few finished trials, or an option is wrong.
    """
    directory = storage.run(name)
    spec = read_spec(directory)
    if spec.purpose == "final" or not spec.space:
        raise InputError(f"run {spec.name!r}: nothing was searched in it, so there is nothing to replay")
    recorded = RecordedTrials(recorded_trials(spec, Record(directory.record)), spec.space, spec.aim)
    finished, most = sum(trial.status == "complete" for trial in recorded.trials), len(recorded.trials)
    if finished < MIN_FINISHED_TRIALS:
        raise InputError(f"run {name!r}: has {finished} finished trials; a replay needs at least {MIN_FINISHED_TRIALS}")
    if not eligible(recorded.trials, spec.aim):
        why = no_feasible_trial_reason(recorded.trials, spec.constraints, spec.value_labels.unit)
        raise InputError(f"run {name!r}: nothing was chosen in it: {why}")
    pairs, left_out = _pairs(algorithm, scheduler, spec)
    if trials is not None and not 1 <= trials <= most:
        raise InputError(f"--trials must be from 1 to {most}, the number of recorded trials, got {trials}")
    points = grid_size(spec.space, spec.warm_start) if algorithm == "grid" else most
    if trials is not None and trials > points:
        raise InputError(f"--trials {trials}: the grid has {counted(points, 'point')}")
    count = trials or min(math.ceil(most / 2), points)
    if fault := different_fault(seeds):
        raise InputError(f"--seeds {fault}")
    outcomes = []
    for a, s in pairs:
        asked = _asked(spec, a, s, count)
        replays = (replay(asked.model_copy(update={"seed": seed}), recorded) for seed in seeds)
        outcomes.append(ReplayedSetting(a, s, tuple(replays), recorded.value))
    return ReplayComparison(spec, recorded, count, outcomes, left_out)


def _asked(spec: SearchSpec, algorithm: str, scheduler: str, trials: int) -> SearchSpec:
    """Return a search to replay; the options of a sampler and of a pruner are for those alone."""
    changed: dict[str, Any] = {"algorithm": algorithm, "scheduler": scheduler, "trials": trials}
    if algorithm != spec.algorithm:
        changed["sampler_options"] = {}
    if scheduler != spec.scheduler:
        changed["pruner_options"] = {}
    return spec.model_copy(update=changed)


def _pairs(
    algorithm: str | None, scheduler: str | None, spec: SearchSpec
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return the pairs of algorithm and scheduler to replay, by default all, and why schedulers are in none."""
    algorithms = (
        [a for a in ALGORITHMS if a != "grid"] if algorithm is None else [one_of("algorithm", algorithm, ALGORITHMS)]
    )
    schedulers = SCHEDULERS if scheduler is None else [one_of("scheduler", scheduler, SCHEDULERS)]
    left_out = {}
    if spec.objectives and scheduler is None:
        left_out = {each: "compares accuracies alone" for each in schedulers if each != "none"}
        schedulers = ["none"]
    require_alone(spec.objectives, scheduler or "none", None, None)
    own = {spec.scheduler: spec.pruner_options}
    first = {s: first_stop_with(s, own.get(s, {}), first_stop(spec)) for s in schedulers}
    faults = {(a, s): scheduler_fault(s, a, spec.steps, first[s]) for a in algorithms for s in schedulers}
    pairs = [pair for pair, fault in faults.items() if fault is None]
    if not pairs:
        raise InputError(f"--scheduler {scheduler}: {next(iter(faults.values()))}")
    for (_, each), fault in faults.items():
        if fault is not None and each not in {s for _, s in pairs}:
            left_out.setdefault(each, fault.partition(";")[0])
    return pairs, left_out


def replay(spec: SearchSpec, recorded: RecordedTrials) -> Replay:
    """Return the result of a search that runs on the record, which has at least as many trials, one at a time.

    A point that the algorithm proposes becomes the nearest recorded configuration that has not been tried, and the
    algorithm is told of that one. A trial that the recorded search stopped, or that diverged, ends where it did there.
    """
    study, tried, ends, distances = SearchStudy(spec), [], [], []
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # a replay has no log for Optuna's warnings
    used: set[int] = set()
    for number, point in _proposed(study, spec):
        trial, far = recorded.nearest(point, used)
        study.replace_point(number, recorded.point(trial))
        used.add(trial.number)
        tried.append(trial)
        distances.append(far)
        ends.append(_play(study, number, trial, spec))
    finished = [trial for trial, (status, _) in zip(tried, ends, strict=True) if status == "complete"]
    return Replay(
        seed=spec.seed,
        tried=tuple(trial.number for trial in tried),
        ends=tuple(ends),
        chosen=best_trial(finished, spec.aim),
        distance=statistics.median(distances),
    )


def _proposed(study: SearchStudy, spec: SearchSpec) -> Iterator[tuple[int, dict[str, Scalar]]]:
    """Yield the points of a search, each as a running trial: first `points_to_evaluate`, then those of the sampler."""
    first = iter(points_to_evaluate(spec))
    for number in range(spec.trials):
        if (point := next(first, None)) is not None:
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
