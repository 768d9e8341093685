"""The search algorithms: what proposes the points of each, and what each learns from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler

from checked_input.ranges import NumberRange
from search_spaces import Scalar
from tausearch.runs import ALGORITHMS, RunSpec, SearchSpec
from tausearch.studies.named_classes import OPTUNA, made, named_class
from tausearch.studies.steady_tpe import SteadyTPE
from trainables.errors import InputError
from trainables.user_code import OURSELVES, require_sole

STARTUP_TRIALS = 6  # random trials before the model; Optuna's 10 would be most of a short search
_MOST_STARTUP_TRIALS = 1000
# Of Optuna's samplers: those whose points do not depend on results, and those that leave stopped trials out.
_LEARN_NOTHING = ("BruteForceSampler", "GridSampler", "QMCSampler", "RandomSampler")
_NEED_COMPLETE_TRIALS = ("CmaEsSampler", "GPSampler", "NSGAIIISampler", "NSGAIISampler")


@dataclass(frozen=True, kw_only=True)
class SearchAlgorithm:
    """What there is to know of a search algorithm."""

    sampler: Callable[..., BaseSampler]  # returns Optuna's sampler for a seed and its other options
    learns: bool  # whether the results of trials decide the next trials
    needs_complete_trials: bool = False  # whether it learns nothing from trials that were stopped early
    keeps_state: bool = False  # whether one sampler object proposes all points, because it may keep a state of its own


SEARCH_ALGORITHMS: Mapping[str, SearchAlgorithm] = {
    "tpe": SearchAlgorithm(
        sampler=partial(SteadyTPE, multivariate=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS), learns=True
    ),
    "gp": SearchAlgorithm(
        sampler=partial(GPSampler, n_startup_trials=STARTUP_TRIALS), learns=True, needs_complete_trials=True
    ),
    "random": SearchAlgorithm(sampler=RandomSampler, learns=False),
    "grid": SearchAlgorithm(sampler=RandomSampler, learns=False),  # unused: all points of a grid are enqueued
}


def algorithm_named(name: str, options: Mapping[str, Scalar] | None = None) -> SearchAlgorithm:
    """Return a search algorithm with options of its sampler, which are checked when the sampler is made.

    `name` is one of ours, `optuna:CLASS`, `MODULE:NAME`, or the name of a sampler of an installed package.
    """
    if name in ALGORITHMS:
        require_sole("sampler", name, OURSELVES)
        ours = SEARCH_ALGORITHMS[name]
        return replace(ours, sampler=partial(_made, name, ours.sampler, options or {}))
    found = named_class("sampler", name, ALGORITHMS, BaseSampler, optuna.samplers)
    of_optuna = name.removeprefix(OPTUNA) if name.startswith(OPTUNA) else ""
    return SearchAlgorithm(
        sampler=partial(_made, name, found, options or {}),
        learns=of_optuna not in _LEARN_NOTHING,
        needs_complete_trials=of_optuna in _NEED_COMPLETE_TRIALS,
        keeps_state=True,
    )


def _made(name: str, make: Callable[..., BaseSampler], options: Mapping[str, Scalar], seed: int) -> BaseSampler:
    """Return a new sampler; its seed, which users cannot give, is an argument where its constructor has one."""
    if "seed" in options:
        raise InputError(f"sampler {name!r}: draws by the --seed of the search; it takes no option 'seed'")
    seeded = {"seed": seed} if "seed" in inspect.signature(make).parameters else {}
    return made("sampler", name, make, {**seeded, **options})


def startup_trials(spec: SearchSpec) -> int:
    """Return how many trials, at most 1000, must have ended until one of our algorithms learns from them."""
    number = spec.sampler_options.get("n_startup_trials", STARTUP_TRIALS)
    if fault := NumberRange(0, _MOST_STARTUP_TRIALS).fault(number):
        raise InputError(f"sampler {spec.algorithm!r}: n_startup_trials {fault}")
    return int(number)


def learns(spec: RunSpec) -> bool:
    """Whether the results of a run's trials decide its next trials."""
    return isinstance(spec, SearchSpec) and algorithm_named(spec.algorithm).learns
