"""A sampler that keeps state, so that it can be rebuilt from the record after a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Scalar


class RebuiltSampler(BaseSampler):
    """Hand every question to a sampler, and answer with a point of the record while there is one.

    The sampler is asked for recorded trials, too, so its state comes to be what it was.

    Attributes:
        recorded: The point of the record that the next trial has; None for a new trial.
        agrees: Whether the sampler has proposed what the record has, so far.
    """

    def __init__(self, sampler: BaseSampler) -> None:
        self.sampler = sampler
        self.recorded: Mapping[str, Scalar] | None = None
        self.agrees = True

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the sampler's own; see `BaseSampler`."""
        return self.sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the sampler's values, or those of the record; see `BaseSampler`."""
        found = self.sampler.sample_relative(study, trial, search_space)
        return {name: self._known(name, value) for name, value in found.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the sampler's value, or that of the record; see `BaseSampler`."""
        return self._known(param_name, self.sampler.sample_independent(study, trial, param_name, param_distribution))

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Tell the sampler; see `BaseSampler`."""
        self.sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Tell the sampler; see `BaseSampler`."""
        self.sampler.after_trial(study, trial, state, values)

    def _known(self, name: str, proposed: Any) -> Any:
        if self.recorded is None:
            return proposed
        self.agrees = self.agrees and proposed == self.recorded[name]
        return self.recorded[name]
