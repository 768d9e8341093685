"""Replays over several seeds: the choice and the cost of each algorithm and scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tausearch.runs import Algorithm, Scheduler, Score, SearchSpec, TrialSummary
from tausearch.studies.recorded_trials import RecordedTrials
from tausearch.studies.replays import Replay


@dataclass(frozen=True)
class Outcome:
    """The replays of one algorithm and scheduler.

    Attributes:
        algorithm: The search algorithm.
        scheduler: The rule for stopping early.
        replays: One replay per seed.
    """

    algorithm: Algorithm
    scheduler: Scheduler
    replays: tuple[Replay, ...]

    @property
    def accuracy(self) -> Score | None:
        """Final accuracy of the chosen trials, percent, over the seeds; None if a seed finished no trial."""
        chosen = [each.chosen for each in self.replays]
        values = [trial.value for trial in chosen if trial is not None and trial.value is not None]
        return Score.of(values) if len(values) == len(self.replays) else None

    @property
    def tasks(self) -> Score:
        """Tasks trained, over the seeds."""
        return Score.of([float(each.tasks) for each in self.replays])

    def found(self, best: TrialSummary) -> int:
        """Return the number of seeds that choose a trial."""
        return sum(each.chosen is not None and each.chosen.number == best.number for each in self.replays)

    def as_dict(self, best: TrialSummary) -> dict[str, Any]:
        """Return the plain form of the outcome, with the regret to the best that was recorded."""
        accuracy = self.accuracy
        return {
            "algorithm": self.algorithm,
            "scheduler": self.scheduler,
            "accuracy": None if accuracy is None else vars(accuracy),
            "regret": None if accuracy is None else (best.value or 0.0) - accuracy.mean,
            "found_best": self.found(best),
            "tasks": vars(self.tasks),
            "replays": [_plain(each) for each in self.replays],
        }


@dataclass(frozen=True)
class Comparison:
    """Replays of a recorded search.

    Attributes:
        spec: The recorded search.
        recorded: Its trials.
        trials: Number of trials of every replay.
        outcomes: What each setting would have found.
    """

    spec: SearchSpec
    recorded: RecordedTrials
    trials: int
    outcomes: Sequence[Outcome]

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch replay --json` prints."""
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
            "outcomes": [outcome.as_dict(best) for outcome in self.outcomes],
        }


def _plain(replay: Replay) -> dict[str, Any]:
    chosen = replay.chosen
    return {
        "seed": replay.seed,
        "chosen": None if chosen is None else chosen.number,
        "value": None if chosen is None else chosen.value,
        "tried": list(replay.tried),
        "stopped": replay.stopped,
        "tasks": replay.tasks,
        "distance": replay.distance,
    }
