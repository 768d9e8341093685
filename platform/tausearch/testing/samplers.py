"""The contract of samplers: what one proposes, and that it can be rebuilt from the record of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler

from checked_input.fields import require_argument
from tausearch.studies import RebuiltSampler
from trainables.user_code import as_breach

_TRIALS, _KILLED_AFTER = 16, 9
SPACE: Mapping[str, BaseDistribution] = {
    "alpha": FloatDistribution(0.1, 10.0, log=True),
    "lr": FloatDistribution(0.0, 1.0),
}


def check_sampler(make: Callable[[], BaseSampler], space: Mapping[str, BaseDistribution] = SPACE) -> None:
    """Check that a sampler proposes points of a space, and after a kill those that it would have proposed.

    Args:
        make: Makes the sampler, always with the same seed.
        space: The hyperparameters; by default two numbers, one of them on a logarithmic scale.

    Raises:
        AssertionError: If it raises, or proposes points outside the space, one point alone, or other points after the
            kill.
        InputError: If `make` makes no sampler.
    """
    require_argument(callable(make), "make", "a function that makes the sampler", make)
    with as_breach():
        made = make()
    require_argument(isinstance(made, BaseSampler), "what make returns", "a sampler of Optuna", made)
    with as_breach():
        points = _proposed(RebuiltSampler(make(), space), space, [])
        assert len({tuple(point.items()) for point in points}) > 1, "proposes the same point again and again"
        rebuilt = RebuiltSampler(make(), space)
        continued = _proposed(rebuilt, space, points[:_KILLED_AFTER])
    assert rebuilt.agrees, "is asked again for the same trials, and proposes other points; its draws need a seed"
    assert continued == points, "proposes other points after a kill; its state is not a function of what it was told"


def _proposed(
    sampler: RebuiltSampler, space: Mapping[str, BaseDistribution], recorded: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the points of a study of which the first trials are recorded."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.stop = lambda: None  # as in a search
    points = []
    for number in range(_TRIALS):
        sampler.recorded = recorded[number] if number < len(recorded) else None
        trial = study.ask(dict(space))
        points.append(dict(trial.params))
        study.tell(trial, 50.0 - sum(space[name].to_internal_repr(value) for name, value in trial.params.items()))
    return points
