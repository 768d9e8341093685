"""A proposal of `tpe` among thousands of trials: what it is compared with, and what is looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, create_trial

from tausearch.studies import steady_tpe
from tausearch.studies.steady_tpe import SteadyTPE

SPACE: dict[str, BaseDistribution] = {"a": FloatDistribution(0.01, 1, log=True), "b": FloatDistribution(0, 1)}
LATEST = 300


@pytest.fixture(autouse=True)
def few_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_tpe, "LATEST", LATEST)


def study_of(trials: int) -> optuna.Study:
    """Return a study of random trials. The value falls with the number, so the first trials are the best."""
    study = optuna.create_study(direction="maximize")
    add(study, trials)
    return study


def add(study: optuna.Study, trials: int) -> None:
    for number in range(len(study.trials), len(study.trials) + trials):
        rng = numpy.random.default_rng(number)
        params = {"a": float(rng.uniform(0.01, 1)), "b": float(rng.uniform())}
        second = [number + float(rng.uniform(0, 5))] if len(study.directions) > 1 else []
        study.add_trial(create_trial(params=params, distributions=SPACE, values=[-float(number), *second]))


def proposal(study: optuna.Study, make: Callable[..., TPESampler], seed: int, **options: bool) -> dict[str, float]:
    plain = {"multivariate": True, "constant_liar": True, "n_startup_trials": 6}
    study.sampler = make(seed=seed, **{**plain, **options})
    trial = study.ask(SPACE)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)  # no sampler learns from it
    return dict(trial.params)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("options", [{}, {"group": True}, {"multivariate": False}])
def test_among_few_trials_it_proposes_what_optuna_proposes(options: dict[str, bool]) -> None:
    study = study_of(LATEST)
    for seed in range(5):
        assert proposal(study, SteadyTPE, seed, **options) == proposal(study, TPESampler, seed, **options)


def test_the_best_are_compared_with_the_latest_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    built = TPESampler._build_parzen_estimator

    def build(self: TPESampler, study: Any, space: Any, trials: list[FrozenTrial], handle_below: bool) -> Any:
        seen.append([trial.number for trial in trials])
        return built(self, study, space, trials, handle_below)

    monkeypatch.setattr(TPESampler, "_build_parzen_estimator", build)
    proposal(study_of(400), SteadyTPE, 0)
    assert seen == [list(range(25)), list(range(101, 400))]  # the new trial is one of the latest


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_was_kept_of_a_front_is_what_a_new_driver_finds() -> None:
    study, again = (optuna.create_study(directions=["maximize"] * 2) for _ in range(2))
    for trials in (360, 1, 1, 30):
        add(study, trials)
        proposal(study, SteadyTPE, 0)
    again.add_trials(study.trials)
    assert [proposal(study, SteadyTPE, seed) for seed in range(3)] == [proposal(again, SteadyTPE, n) for n in range(3)]


def test_what_was_kept_of_older_trials_is_what_a_new_driver_finds() -> None:
    study = study_of(310)
    kept = study.ask(SPACE)  # the 311th; runs while 400 others end
    for _ in range(4):
        add(study, 100)
        proposal(study, SteadyTPE, 0)
    study.tell(kept, 1.0)  # the best of all
    again = optuna.create_study(direction="maximize")
    again.add_trials(study.trials)
    for seed in range(3):
        assert proposal(study, SteadyTPE, seed) == proposal(again, SteadyTPE, seed)
    assert 310 in [trial.number for trial in steady_tpe._known[study].best]


def test_a_proposal_looks_at_the_new_trials_alone_for_their_space() -> None:
    study, looked = study_of(50), list[int]()

    class Watched(dict[str, BaseDistribution]):
        def __init__(self, number: int) -> None:
            super().__init__(SPACE)
            self.number = number

        def get(self, *key: Any) -> Any:
            looked.append(self.number)
            return super().get(*key)

    for trial in study._get_trials(deepcopy=False, use_cache=False):
        trial._distributions = Watched(trial.number)
    proposal(study, SteadyTPE, 0)
    assert set(looked) == set(range(49))  # compared with the last
    looked.clear()
    proposal(study, SteadyTPE, 1)
    assert set(looked) <= {49}
