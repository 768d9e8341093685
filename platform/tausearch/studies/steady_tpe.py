"""Optuna's TPE for thousands of trials: a proposal costs as much as among five hundred."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.samplers._tpe.sampler import _split_trials
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

LATEST = 500
BEST = 25  # the most that Optuna takes for the good ones

_known: WeakKeyDictionary[Study, _Known] = WeakKeyDictionary()


class SteadyTPE(TPESampler):
    """`TPESampler` that sees the latest `LATEST` trials of a study, and the `BEST` ones before them.

    With one objective it takes the same trials for the good ones as Optuna's does. It compares them with the latest
    others; Optuna's own weights make older ones of these count less.
    """

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return what all trials of a study have searched; see `BaseSampler`."""
        if self._group or not self._multivariate or _is_view(study):
            return super().infer_relative_search_space(study, trial)
        space = _known_of(study).space.calculate(study)
        return {name: each for name, each in space.items() if not each.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of a trial; see `BaseSampler`."""
        return super().sample_relative(_shown(study), trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value of a trial; see `BaseSampler`."""
        return super().sample_independent(_shown(study), trial, param_name, param_distribution)


@dataclass
class _Known:
    """What need not be looked for again among all trials of a study, whose samplers propose one point each."""

    space: IntersectionSearchSpace = field(default_factory=lambda: IntersectionSearchSpace(include_pruned=True))
    older: int = 0  # number of trials before the latest
    best: list[FrozenTrial] = field(default_factory=list)  # of those

    def shown(self, study: Study) -> list[FrozenTrial]:
        """Return the trials that a sampler sees, in order."""
        trials = study._get_trials(deepcopy=False)
        older = trials[self.older : max(self.older, len(trials) - LATEST)]
        running = (place for place, trial in enumerate(older) if not trial.state.is_finished())
        older = older[: next(running, len(older))]  # later it may be one of the best
        self.older += len(older)
        ended = [trial for trial in older if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
        # The best of several objectives depend on how many trials are added at once, so a new driver adds one by one.
        at_once = 1 if len(study.directions) > 1 else max(1, len(ended))
        for first in range(0, len(ended), at_once):
            self.best = _split_trials(study, self.best + ended[first : first + at_once], BEST)[0]
        return self.best + trials[self.older :]


def _known_of(study: Study) -> _Known:
    return _known.setdefault(study, _Known())


def _is_view(study: Study) -> bool:
    """Whether it is the part of a study that a pruner shows, anew for each trial: `HyperbandPruner` does."""
    return type(study) is not Study


def _shown(study: Study) -> Study:
    return study if _is_view(study) else _Shown(study)


class _Shown(Study):
    """A study as the sampler sees it."""

    def __init__(self, study: Study) -> None:
        self.__dict__.update(study.__dict__)
        self._shown = _known_of(study).shown(study)

    def _get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        return [trial for trial in self._shown if states is None or trial.state in states]
