"""The search algorithms: what proposes the points of each, and what each learns from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import optuna

from tausearch.runs import Algorithm, RunSpec, SearchSpec

STARTUP_TRIALS = 6  # random trials before the model; Optuna's 10 would be most of a short search


@dataclass(frozen=True, kw_only=True)
class SearchAlgorithm:
    """What there is to know of a search algorithm.

    Attributes:
        sampler: Returns Optuna's sampler for a seed.
        learns: Whether the results of trials decide the next trials.
        needs_whole_trials: Whether it learns nothing from trials that were stopped early, so that no scheduler goes
            with it.
    """

    sampler: Callable[[int], optuna.samplers.BaseSampler]
    learns: bool
    needs_whole_trials: bool = False


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS)


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS)


def _random(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


SEARCH_ALGORITHMS: Mapping[Algorithm, SearchAlgorithm] = {
    "tpe": SearchAlgorithm(sampler=_tpe, learns=True),
    "gp": SearchAlgorithm(sampler=_gp, learns=True, needs_whole_trials=True),
    "random": SearchAlgorithm(sampler=_random, learns=False),
    "grid": SearchAlgorithm(sampler=_random, learns=False),  # unused: all points of a grid are enqueued
}


def learns(spec: RunSpec) -> bool:
    """Whether the results of a run's trials decide its next trials."""
    return isinstance(spec, SearchSpec) and SEARCH_ALGORITHMS[spec.algorithm].learns
