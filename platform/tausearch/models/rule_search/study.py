"""The Optuna study over the parameters of a merging rule."""

from __future__ import annotations

from collections.abc import Mapping

import optuna

from tausearch.studies import algorithm_named
from trainables.composition import Parameter
from trainables.randomness import derive_seed

_DIGITS = 4  # significant ones of a proposed value, so that what is shown can be typed again


class ParameterStudy:
    """Proposes values of parameters; the first time their defaults. Proposals depend on the seed and what was told."""

    def __init__(self, space: Mapping[str, Parameter], seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.seed, self.algorithm = seed, algorithm_named("tpe")
        self.space = {
            name: optuna.distributions.FloatDistribution(min(each.lowest, each.default), each.high, log=each.log)
            for name, each in space.items()
        }
        self.study = optuna.create_study(direction="maximize", sampler=self.algorithm.sampler(seed))
        self.study.enqueue_trial({name: each.default for name, each in space.items()})

    def ask(self, number: int) -> tuple[optuna.Trial, dict[str, float]]:
        """Return a trial, from 0, and its values."""
        # As in `SearchStudy`, a sampler of its own for each trial: a search that was killed proposes the same again.
        self.study.sampler = self.algorithm.sampler(derive_seed(self.seed, "trial", number) % 2**32)
        trial = self.study.ask(self.space)
        return trial, {name: self._rounded(name, value) if number else value for name, value in trial.params.items()}

    def tell(self, trial: optuna.Trial, accuracy: float) -> None:
        """Note the accuracy of a trial, percent."""
        self.study.tell(trial, accuracy)

    def _rounded(self, name: str, value: float) -> float:
        allowed = self.space[name]
        return min(max(float(f"{value:.{_DIGITS}g}"), allowed.low), allowed.high)
