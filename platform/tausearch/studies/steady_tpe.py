"""Optuna's TPE for thousands of trials: a proposal costs little more than among a thousand."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial

SHOWN = 1_000  # trials that are not among the best

_spaces: WeakKeyDictionary[Study, IntersectionSearchSpace] = WeakKeyDictionary()


class SteadyTPE(TPESampler):
    """`TPESampler` that compares the best trials with the latest `SHOWN` others and not with all of them.

    Optuna's own weights make older ones of these count less. The best are 25 at most, however old. What all trials have
    searched is kept with the study, as a sampler may propose one point alone.
    """

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return what all trials of a study have searched; see `BaseSampler`."""
        if self._group or not self._multivariate:
            return super().infer_relative_search_space(study, trial)
        space = _spaces.setdefault(study, IntersectionSearchSpace(include_pruned=True)).calculate(study)
        return {name: each for name, each in space.items() if not each.single()}

    def _build_parzen_estimator(
        self, study: Study, search_space: dict[str, BaseDistribution], trials: list[FrozenTrial], handle_below: bool
    ) -> Any:
        shown = trials if handle_below else trials[-SHOWN:]
        return super()._build_parzen_estimator(study, search_space, shown, handle_below)
