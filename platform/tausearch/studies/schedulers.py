"""The rules that stop trials early, as pruners of Optuna."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial

from search_spaces import Scalar
from tausearch.runs import SCHEDULERS, MultiSearchSpec, SearchSpec
from tausearch.studies.named_classes import made, named_class
from trainables.user_code import OURSELVES, require_sole

FIRST_STOP = 3  # first task after which a trial may be stopped: earlier accuracies say little about the last one
HALVING = 2  # asha continues the better half at tasks 3, 6, 12, ...
MEDIAN_OF = 4  # other values that the median rule needs


class MedianPruner(BasePruner):
    """Stops a trial whose accuracy after a task is below the median of all others' after the same task.

    Optuna's own median rule compares a trial's best value so far. Average accuracy falls as tasks come, so that is the
    value after the first task, which says nothing, and nothing is ever stopped.

    Args:
        first_stop: The first task after which a trial may be stopped.
    """

    def __init__(self, first_stop: int = FIRST_STOP) -> None:
        self.first_stop = first_stop

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether the trial should stop; called by Optuna, see `BasePruner`."""
        step = trial.last_step
        if step is None or step < self.first_stop:
            return False
        others = [
            other.intermediate_values[step]
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number and step in other.intermediate_values
        ]
        return len(others) >= MEDIAN_OF and trial.intermediate_values[step] < statistics.median(others)


_FIRST = {"asha": "min_resource", "median": "first_stop"}  # the argument that says when trials may first be stopped
_PRUNERS: Mapping[str, Callable[..., BasePruner]] = {
    "asha": partial(optuna.pruners.SuccessiveHalvingPruner, reduction_factor=HALVING),
    "median": MedianPruner,
    "none": optuna.pruners.NopPruner,
}


def first_stop(spec: SearchSpec) -> int:
    """Return the first step after which our rules may stop a trial: a task, or one of several benchmarks."""
    return 1 if isinstance(spec, MultiSearchSpec) else FIRST_STOP


def first_stop_with(name: str, options: Mapping[str, Scalar], usual: int) -> int:
    """Return the first step after which a rule of ours with options may stop a trial."""
    given = options.get(_FIRST.get(name, ""))
    return given if isinstance(given, int) else usual  # `asha` takes "auto", too


def pruner_named(name: str, options: Mapping[str, Scalar] | None = None, first_stop: int = FIRST_STOP) -> BasePruner:
    """Return the pruner of a scheduler; `first_stop` is the first step after which our rules may stop a trial.

    `name` is one of ours, `optuna:CLASS`, `MODULE:NAME`, or the name of a pruner of an installed package.
    """
    first = {_FIRST[name]: first_stop} if name in _FIRST else {}
    return made("pruner", name, pruner_class(name), {**first, **(options or {})})


def pruner_class(name: str) -> Callable[..., BasePruner]:
    """Return what makes the pruner of a scheduler; raises an `InputError` if none or several have the name."""
    if name in SCHEDULERS:
        require_sole("pruner", name, OURSELVES)
        return _PRUNERS[name]
    return named_class("pruner", name, SCHEDULERS, BasePruner, optuna.pruners)
