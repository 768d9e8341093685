"""A sampler that keeps state, so that it can be rebuilt from the record after a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Scalar
from trainables.errors import InputError

_ROUNDING = 1e-9  # of a range: what a proposal may lie outside, because of logarithms


class RebuiltSampler(BaseSampler):
    """Hand every question to a sampler, and answer with a point of the record while there is one.

    The sampler is asked for recorded trials, too, so its state comes to be what it was. A value that it may not propose
    is an `InputError` that names the sampler.
    """

    def __init__(self, sampler: BaseSampler, space: Mapping[str, BaseDistribution], name: str = "sampler") -> None:
        self.sampler = sampler
        self.space = space
        self.name = name
        self.recorded: Mapping[str, Scalar] | None = None  # the point of the next trial; None for a new trial
        self.agrees = True  # whether the sampler has proposed what the record has, so far

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
        if name not in self.space:  # Optuna asks for no other, and no record has it
            return proposed
        proposed = self._allowed(name, proposed)
        if self.recorded is None:
            return proposed
        self.agrees = self.agrees and proposed == self.recorded[name]
        return self.recorded[name]

    def _allowed(self, name: str, proposed: Any) -> Any:
        """Return a proposal as the record can hold it: no type of numpy, no excess by rounding; or refuse it."""
        allowed = self.space[name]
        if isinstance(allowed, CategoricalDistribution):
            if proposed not in allowed.choices:
                self._refuse(name, proposed, f"one of {', '.join(map(repr, allowed.choices))}")
            return allowed.choices[allowed.choices.index(proposed)]
        assert isinstance(allowed, FloatDistribution | IntDistribution)
        low, high, whole = allowed.low, allowed.high, isinstance(allowed, IntDistribution)
        is_number = isinstance(proposed, Real) and not isinstance(proposed, bool)
        nearest = min(max(proposed, low), high) if is_number else low
        if not is_number or not abs(proposed - nearest) <= _ROUNDING * (high - low) or (whole and nearest % 1):
            self._refuse(name, proposed, f"a {'whole ' * whole}number from {low:g} to {high:g}")
        return int(nearest) if whole else min(max(float(nearest), low), high)  # a float32 may be beyond an end

    def _refuse(self, name: str, proposed: Any, allowed: str) -> None:
        raise InputError(f"{self.name}: proposed {repr(proposed)[:100]} for {name!r}, which must be {allowed}")
