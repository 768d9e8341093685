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
SHOWN = 40


@pytest.fixture(autouse=True)
def few_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_tpe, "SHOWN", SHOWN)


def study_of(trials: int) -> optuna.Study:
    """Return a study with random trials, the first of which are the best."""
    study, rng = optuna.create_study(direction="maximize"), numpy.random.default_rng(0)
    for number in range(trials):
        params = {"a": float(rng.uniform(0.01, 1)), "b": float(rng.uniform())}
        study.add_trial(create_trial(params=params, distributions=SPACE, value=-float(number)))
    return study


def proposal(study: optuna.Study, make: Callable[..., TPESampler], seed: int, **options: bool) -> dict[str, float]:
    plain = {"multivariate": True, "constant_liar": True, "n_startup_trials": 6}
    study.sampler = make(seed=seed, **{**plain, **options})
    trial = study.ask(SPACE)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)  # no sampler learns from it
    return dict(trial.params)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("options", [{}, {"group": True}, {"multivariate": False}])
def test_among_few_trials_it_proposes_what_optuna_proposes(options: dict[str, bool]) -> None:
    study = study_of(SHOWN)
    for seed in range(5):
        assert proposal(study, SteadyTPE, seed, **options) == proposal(study, TPESampler, seed, **options)


def test_the_best_are_compared_with_the_latest_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    built = TPESampler._build_parzen_estimator

    def build(self: TPESampler, study: Any, space: Any, trials: list[FrozenTrial], handle_below: bool) -> Any:
        seen.append([trial.number for trial in trials])
        return built(self, study, space, trials, handle_below)

    monkeypatch.setattr(TPESampler, "_build_parzen_estimator", build)
    proposal(study_of(100), SteadyTPE, 0)
    assert seen == [list(range(10)), list(range(60, 100))]  # a tenth of the trials is the best


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
