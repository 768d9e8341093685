"""What a search teaches: importances, trust in early accuracies, and the figures of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tausearch.presentation import draw_search
from tausearch.runs import (
    Importance,
    SearchSpec,
    TrialSummary,
    importances,
    rank_correlations,
    search_analysis,
    waiting_share,
)
from tausearch.runs.search_analysis import pareto_front
from tausearch.studies.study import SearchStudy
from tests.support.runs.trials import make_trial
from trainables.metrics import VALIDATION, WAITING

AVERAGE = "val/average_accuracy"


def search_of(early: list[float], late: list[float]) -> list[TrialSummary]:
    """Trials with those accuracies after task 1 and after the last; 80 after task 2. Only alpha matters."""
    trials = []
    for number, (first, last) in enumerate(zip(early, late, strict=True)):
        trial = make_trial(number, value=last)
        trial.hyperparameters |= {"alpha": last / 10, "lr": 0.01 * (1 + number % 2)}
        trial.rows[0][AVERAGE], trial.rows[-1][AVERAGE] = first, last
        trials.append(trial)
    return trials


def test_rank_correlation_is_spearmans_over_finished_trials() -> None:
    trials = search_of([99, 80, 70, 60, 50], [10, 20, 30, 50, 40])
    stopped = make_trial(5, tasks=2, status="pruned")
    # Ranks 5 4 3 2 1 against 1 2 3 5 4: differences 4 2 0 -3 -3, so 1 - 6 * 38 / (5 * 24) = -0.9
    assert rank_correlations([*trials, stopped], 3, VALIDATION) == {
        1: pytest.approx(-0.9)
    }  # after task 2 all are equal
    failed = make_trial(6, value=99.0, status="failed")  # after the last task
    failed.rows[0][AVERAGE] = 99.0
    assert rank_correlations([*trials, failed], 3, VALIDATION) == {1: pytest.approx(-0.9)}
    assert rank_correlations(trials[:3], 3, VALIDATION) == {}
    assert rank_correlations(search_of([90, 80, 70, 60], [10, 20, 30, 30]), 3, VALIDATION) == {}  # three values
    assert rank_correlations(search_of([90, 80, 70, 60], [10, 20, 30, 40]), 3, VALIDATION) == {1: pytest.approx(-1)}


def test_the_share_of_waiting_is_of_the_training_of_all_tasks() -> None:
    trial = make_trial(0, tasks=2)  # 1.5 s of training in each
    trial.rows[0] |= {WAITING: 1.5, "seconds/evaluation": 9.0}
    assert waiting_share([trial, make_trial(1, tasks=0)]) == 0.5 and waiting_share([]) == 0.0


@pytest.mark.usefixtures("few_resamples")
def test_importance_finds_what_mattered(spec: SearchSpec) -> None:
    trials = search_of([90.0] * 12, [10.0 + 5 * n for n in range(12)])
    found = importances(SearchStudy(spec, trials).optuna)
    assert sum(each.share for each in found.values()) == pytest.approx(1) and found["alpha"].share > 0.9
    assert found == importances(SearchStudy(spec, trials).optuna)
    assert importances(SearchStudy(spec, trials[:3]).optuna) == {}
    assert importances(SearchStudy(spec, search_of([90.0] * 6, [70.0] * 6)).optuna) == {}  # all equally good
    stopped = [make_trial(12 + number, tasks=1, status="pruned") for number in range(6)]
    for trial in stopped:
        trial.hyperparameters["alpha"] = 0.2
    assert importances(SearchStudy(spec, [*trials, *stopped]).optuna) == found  # what did not end has no say


def test_without_a_resample_that_tells_them_apart_an_importance_may_be_anything(
    spec: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.runs.search_analysis._RESAMPLES", 0)
    found = importances(SearchStudy(spec, search_of([90.0] * 12, [10.0 + 5 * n for n in range(12)])).optuna)
    assert {(each.low, each.high) for each in found.values()} == {(0.0, 1.0)}


def random_study(trials: int, seed: int) -> optuna.Study:
    """Uniform points on the unit cube; the value is 3 strong + weak + noise, and has nothing of idle."""
    draw = np.random.default_rng(seed)
    distributions = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("idle", "strong", "weak")}
    study = optuna.create_study(direction="maximize")
    for _ in range(trials):
        point = {name: float(draw.uniform()) for name in distributions}
        value = 3 * point["strong"] + point["weak"] + 0.3 * float(draw.normal())
        study.add_trial(optuna.trial.create_trial(params=point, distributions=distributions, value=value))
    return study


def test_importances_order_what_is_known_and_say_how_sure_they_are() -> None:
    many, few = importances(random_study(200, seed=0)), importances(random_study(12, seed=0))
    assert list(many) == ["strong", "weak", "idle"]
    assert many["strong"].share > 0.6 and many["idle"].share < 0.05
    assert many["strong"].low > many["weak"].high  # 200 trials tell them apart, 12 do not
    assert few["strong"].low < max(few["weak"].high, few["idle"].high)
    for found in (many, few):
        assert all(0 <= each.low <= each.share <= each.high <= 1 for each in found.values())


@pytest.mark.parametrize(("trials", "share"), [(4, 0.5), (20, 0.25), (100, 0.1)])
def test_at_least_five_trials_and_a_tenth_of_all_but_at_most_half_are_good(
    trials: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []
    make = optuna.importance.PedAnovaImportanceEvaluator
    monkeypatch.setattr(
        optuna.importance,
        "PedAnovaImportanceEvaluator",
        lambda target_quantile: (shares.append(target_quantile), make(target_quantile=target_quantile))[1],
    )
    monkeypatch.setattr(search_analysis, "_RESAMPLES", 1)
    importances(random_study(trials, seed=0))
    assert shares == [share] * 2


@pytest.mark.parametrize(("measured", "ends"), [(0.5, (0.05, 0.95)), (0.01, (0.01, 0.95)), (0.99, (0.05, 0.99))])
def test_the_interval_holds_the_share_and_nine_tenths_of_the_resamples(
    measured: float, ends: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([measured, *(n / 100 for n in range(101))])
    monkeypatch.setattr(search_analysis, "_RESAMPLES", 101)
    monkeypatch.setattr(search_analysis, "_shares", lambda *_: {"x": next(shares)})
    assert importances(random_study(4, seed=0)) == {
        "x": Importance(measured, pytest.approx(ends[0]), pytest.approx(ends[1]))
    }


@pytest.mark.usefixtures("few_resamples")
def test_a_minimised_study_has_its_best_trials_at_the_other_end() -> None:
    upwards = random_study(60, seed=1)
    downwards = optuna.create_study(direction="minimize")
    for trial in upwards.trials:
        trial.value = -trial.value
        downwards.add_trial(trial)
    assert importances(downwards) == importances(upwards)


@pytest.mark.usefixtures("few_resamples")
def test_figures_are_drawn_for_what_there_is(spec: SearchSpec, tmp_path: Path) -> None:
    trials = search_of([90, 80, 70, 60, 50], [10, 20, 30, 50, 40])
    mattered = importances(SearchStudy(spec, trials).optuna)
    stopped = make_trial(5, tasks=2, status="pruned")  # is marked at the edge
    files = draw_search(spec, [*trials, stopped], mattered, rank_correlations(trials, 3, VALIDATION), tmp_path)
    names = ["history", "slices", "pareto_front", "importances", "early_accuracy"]
    assert [file.name for file in files] == [f"{name}.png" for name in names]
    for file in files:
        with Image.open(file) as image:
            assert image.width > 500 and len(image.convert("L").getcolors() or []) > 5
    assert [file.name for file in draw_search(spec, trials[:1], {}, {}, tmp_path)] == ["history.png", "slices.png"]
    assert draw_search(spec, [], {}, {}, tmp_path) == []


def test_the_chosen_trial_has_its_accuracy_matrix(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Figure] = {}
    monkeypatch.setattr(
        "tausearch.presentation.figures.style.save", lambda figure, path: drawn.update({path.name: figure})
    )
    draw_search(spec, search_of([90, 80, 70], [10, 20, 30]), {}, {}, tmp_path, chosen=1)
    (title,) = drawn["accuracy_matrix.png"].texts
    assert title.get_text().replace("\n", " ").endswith("(val split): trial 1")


def test_a_less_accurate_trial_that_forgets_as_much_is_not_on_the_front() -> None:
    trials = search_of([90.0] * 3, [60.0, 70.0, 70.0])  # all of them forget 1
    assert [trial.number for trial in pareto_front(trials)] == [1, 2]


def test_seconds_do_not_change_the_front() -> None:
    trials = search_of([90.0] * 4, [70.0, 70.0, 60.0, 65.0])
    for trial, seconds, forgetting in zip(trials, (9.0, 1.0, 0.5, 0.1), (3.0, 3.0, 2.0, 4.0), strict=True):
        trial.rows[-1] |= {"seconds/training": seconds, "val/forgetting": forgetting}
    assert [trial.number for trial in pareto_front(trials)] == [0, 1, 2]
