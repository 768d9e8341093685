"""A sampler that draws around the best point so far, nearer and nearer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState


class Annealing(BaseSampler):
    """Each hyperparameter by itself; its state, the width, is in the object alone."""

    def __init__(self, seed: int | None = None, cooling: float = 0.9) -> None:
        self.random = random.Random(seed)
        self.width, self.cooling = 1.0, cooling

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: no hyperparameter is drawn together with others."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing; see `infer_relative_search_space`."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a number around that of the best trial, or a choice at random."""
        if isinstance(param_distribution, CategoricalDistribution):
            return self.random.choice(param_distribution.choices)
        low, high = param_distribution.low, param_distribution.high  # type: ignore[attr-defined]
        finished = [each for each in study.get_trials(deepcopy=False) if each.value is not None]
        best = max(finished, key=lambda each: each.value or 0.0).params[param_name] if finished else low
        value = min(high, max(low, best + self.random.gauss(0, self.width) * (high - low)))
        return round(value) if isinstance(low, int) else value

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Draw nearer to the best from now on."""
        self.width *= self.cooling
