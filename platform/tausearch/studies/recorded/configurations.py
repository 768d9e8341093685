"""A table of configurations of a method on a benchmark: each validated on several splits, trained whole, and tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import optuna

from checked_input.fields import require_argument
from checked_input.text_files import shown
from search_spaces import Dimension, Range, Scalar
from tausearch.runs import SearchSpec, TrialSummary
from tausearch.studies.recorded.trials import RecordedTrials
from trainables.config import Purpose
from trainables.errors import InputError


@dataclass(frozen=True)
class ConfigurationTable:
    """Configurations and all runs of each.

    Attributes:
        spec: The search whose trials the configurations are, in order: the start, what the paper chose, random ones.
        runs: Purpose and seed to the runs by the number of their configuration; all have the same numbers.
    """

    spec: SearchSpec
    runs: dict[tuple[Purpose, int], dict[int, TrialSummary]]

    def __repr__(self) -> str:
        splits = ", ".join(map(str, self.splits))
        what = f"{self.spec.method} on {self.spec.benchmark}"
        return f"<table of {len(self.test)} configurations of {what}, splits {splits}>"

    @cached_property
    def splits(self) -> list[int]:
        """Seeds of the validation splits."""
        return sorted(seed for purpose, seed in self.runs if purpose == "search")

    @cached_property
    def test(self) -> dict[int, float]:
        """Configuration to its test accuracy, percent, the mean over its final runs; 0 where one diverged."""
        finals = [runs for (purpose, _), runs in self.runs.items() if purpose == "final"]
        return {number: sum(runs[number].value or 0.0 for runs in finals) / len(finals) for number in finals[0]}

    def validated(self, split: int, numbers: Iterable[int]) -> list[TrialSummary]:
        """Return the runs of some configurations on a validation split; raises an `InputError` as `point`."""
        return [self._run(split, number) for number in sorted(numbers)]

    def validation(self, configuration: int, split: int) -> float:
        """Return the validation accuracy of a configuration on a split, percent; 0 if it diverged.

        Raises:
            InputError: If the table has no such split or configuration.
        """
        return self._run(split, configuration).value or 0.0

    def point(self, configuration: int) -> dict[str, Scalar]:
        """Return the searched hyperparameters of a configuration.

        Raises:
            InputError: If the table has no such configuration.
        """
        return self._recorded.point(self._run(self.splits[0], configuration))

    def nearest(self, point: Mapping[str, Scalar], leaving_out: Iterable[int] = ()) -> int:
        """Return the configuration that is nearest to a point: root mean square over the ranges, on their scales.

        Args:
            point: A value of each searched hyperparameter.
            leaving_out: Configurations that cannot be the answer, such as those tried before.

        Raises:
            InputError: If the point lacks a hyperparameter, a value lies outside its range, or all configurations are
                left out.
        """
        if lacking := sorted(self.spec.space.keys() - point.keys()):
            raise InputError(f"the point lacks {', '.join(lacking)}")
        for name, dimension in self.spec.space.items():
            require_argument(point[name] in dimension, f"{name} of the point", dimension.allowed, point[name])
        left_out = set(leaving_out)
        if left_out >= set(self.test):
            raise InputError(f"all {len(self.test)} configurations are left out")
        return self._recorded.nearest(point, left_out)[0].number

    def objective(self, split: int = 0) -> Callable[[optuna.Trial], float]:
        """Return an objective for `study.optimize`: the validation accuracy of the nearest configuration, percent.

        It reports the average accuracy over the tasks seen after each task, so pruners work. The user attribute
        `configuration` of a trial is the configuration that answered. The same configuration may answer twice.
        `split` is the seed of the validation split.

        Raises:
            InputError: If the table has no such split.
        """
        runs = self._runs_on_split(split)

        def answer(trial: optuna.Trial) -> float:
            point = {name: _suggested(trial, name, dimension) for name, dimension in self.spec.space.items()}
            configuration = self.nearest(point)
            trial.set_user_attr("configuration", configuration)
            for row in runs[configuration].rows:
                trial.report(row["val/average_accuracy"], int(row["task"]))
                if trial.should_prune():
                    raise optuna.TrialPruned
            return self.validation(configuration, split)

        return answer

    def _run(self, split: int, configuration: int) -> TrialSummary:
        runs = self._runs_on_split(split)
        if configuration not in runs:
            numbers = f"{min(runs)} to {max(runs)}"
            raise InputError(f"configuration must be a whole number, {numbers}, got {shown(configuration)}")
        return runs[configuration]

    def _runs_on_split(self, split: int) -> dict[int, TrialSummary]:
        if split not in self.splits:
            raise InputError(f"split must be one of {', '.join(map(str, self.splits))}, got {split}")
        return self.runs["search", split]

    @cached_property
    def _recorded(self) -> RecordedTrials:
        """The configurations; which split they are from does not matter to a distance."""
        return RecordedTrials(list(self.runs["search", self.splits[0]].values()), self.spec.space)


def _suggested(trial: optuna.Trial, name: str, dimension: Dimension) -> Scalar:
    if not isinstance(dimension, Range):
        chosen: Scalar = trial.suggest_categorical(name, dimension.choices)
        return chosen
    if dimension.integer:
        return int(trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log))
    return float(trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log))
