"""The contract of pruners: what one answers, and that it answers the same after a kill."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import optuna
from optuna.distributions import FloatDistribution
from optuna.pruners import BasePruner
from optuna.trial import TrialState

from checked_input.fields import require_argument
from trainables.user_code import as_breach

_FINAL = (60.0, 72.0, 31.0, 55.0, 70.0, 12.0, 66.0, 90.0, 44.0, 71.0, 25.0, 68.0)  # percent, of each trial
_TASKS, _LOSS = 6, 4.0  # average accuracy falls by so many points with each task
_KILLED_AFTER = 7


def check_pruner(make: Callable[[], BasePruner]) -> None:
    """Check that a pruner answers True or False, and after a kill what it would have answered.

    Raises:
        AssertionError: If it raises, or answers something else, or otherwise after the kill.
        InputError: If `make` makes no pruner.
    """
    require_argument(callable(make), "make", "a function that makes the pruner", make)
    with as_breach():
        made = make()
    require_argument(isinstance(made, BasePruner), "what make returns", "a pruner of Optuna", made)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with as_breach():
        _check(make)


def _check(make: Callable[[], BasePruner]) -> None:
    first, answers = _study(make()), []
    for number in range(_KILLED_AFTER):
        answers.append(_trial(first, number))
    continued = _study(make())
    repeated = [_trial(continued, number) for number in range(_KILLED_AFTER)]
    assert repeated == answers, "answers otherwise when it is asked again for the same trials; its draws need a seed"
    for number in range(_KILLED_AFTER, len(_FINAL)):
        message = "answers otherwise after a kill; its state is not a function of what it was told"
        assert _trial(first, number) == _trial(continued, number), message


def _study(pruner: BasePruner) -> optuna.Study:
    sampler = optuna.samplers.RandomSampler(seed=0)
    # A search that is continued has the same name, which Optuna's HyperbandPruner reads.
    return optuna.create_study(direction="maximize", pruner=pruner, sampler=sampler, study_name="checked")


def _trial(study: optuna.Study, number: int) -> list[bool]:
    """Return what the pruner answers after each task of a trial, until it stops the trial."""
    trial, answers = study.ask({"lr": FloatDistribution(0, 1)}), list[bool]()
    for task in range(1, _TASKS + 1):
        trial.report(_FINAL[number] + _LOSS * (_TASKS - task), task)
        found = trial.should_prune()
        assert isinstance(found, bool | numpy.bool_), f"prune must return True or False, got {found!r}"
        answers.append(bool(found))
        if found:
            study.tell(trial, state=TrialState.PRUNED)
            return answers
    study.tell(trial, _FINAL[number])
    return answers
