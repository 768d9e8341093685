"""What a search teaches: importances, trust in early accuracies, and the figures of both."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from search_spaces import Choices, Range
from tausearch.choosing import SearchStudy
from tausearch.figures import draw_search
from tausearch.figures.search import _few_ticks, _slices
from tausearch.runs import RunSpec, TrialSummary, importances, rank_correlations
from tests.support.trials import make_trial
from trainables.metrics import VALIDATION

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
    trials = search_of([90, 80, 70, 60, 50], [10, 20, 30, 50, 40])
    stopped = make_trial(5, tasks=2, status="pruned")
    # Ranks 5 4 3 2 1 against 1 2 3 5 4: differences 4 2 0 -3 -3, so 1 - 6 * 38 / (5 * 24) = -0.9
    assert rank_correlations([*trials, stopped], 3, VALIDATION) == {
        1: pytest.approx(-0.9)
    }  # after task 2 all are equal
    assert rank_correlations(trials[:3], 3, VALIDATION) == {}


def test_importance_finds_what_mattered(spec: RunSpec) -> None:
    trials = search_of([90.0] * 12, [10.0 + 5 * n for n in range(12)])
    found = importances(SearchStudy(spec, trials).optuna)
    assert sum(found.values()) == pytest.approx(1) and found["alpha"] > 0.9
    assert found == importances(SearchStudy(spec, trials).optuna)
    assert importances(SearchStudy(spec, trials[:3]).optuna) == {}


def test_figures_are_drawn_for_what_there_is(spec: RunSpec, tmp_path: Path) -> None:
    trials = search_of([90, 80, 70, 60, 50], [10, 20, 30, 50, 40])
    mattered = importances(SearchStudy(spec, trials).optuna)
    stopped = make_trial(5, tasks=2, status="pruned")  # is marked at the edge
    files = draw_search([*trials, stopped], spec.space, mattered, rank_correlations(trials, 3, VALIDATION), tmp_path)
    assert [file.name for file in files] == ["history.png", "slices.png", "importances.png", "early_accuracy.png"]
    for file in files:
        with Image.open(file) as image:
            assert image.width > 500 and len(image.convert("L").getcolors() or []) > 5
    assert [file.name for file in draw_search(trials[:1], {}, {}, {}, tmp_path)] == ["history.png"]
    assert draw_search([], spec.space, {}, {}, tmp_path) == []


def test_slices_reach_trials_that_were_stopped() -> None:
    space = {
        "lr": Range(low=0.001, high=1, log=True, grid=(0.01,)),
        "optimizer": Choices(choices=("adamw", "sgd")),
    }
    finished, stopped = make_trial(0, value=70.0), make_trial(1, tasks=2, status="pruned")
    finished.hyperparameters |= {"lr": 0.01, "optimizer": "adamw"}
    stopped.hyperparameters |= {"lr": 0.5, "optimizer": "sgd"}
    figure = _slices([finished], [stopped], space)
    lr, optimizer = figure.axes[:2]
    assert lr.get_xlim()[0] < 0.01 and lr.get_xlim()[1] > 0.5
    assert optimizer.get_xlim()[0] < 0 and optimizer.get_xlim()[1] > 1
    assert len(_slices([finished], [], space).axes) == len(figure.axes)


@pytest.mark.parametrize(("low", "high"), [(0.0003, 0.007), (2.0, 6.0), (0.01, 0.01), (1e-6, 1.0)])
def test_a_logarithmic_axis_has_a_few_labels_that_do_not_touch(low: float, high: float) -> None:
    figure = Figure(figsize=(3.2, 3.2))
    axes = figure.subplots()
    axes.scatter([low, high], [1, 2])
    _few_ticks(axes)
    FigureCanvasAgg(figure).draw()
    first, last = axes.get_xlim()
    labels = [label for label in axes.get_xticklabels(which="both") if first <= label.get_position()[0] <= last]
    boxes = sorted((label.get_window_extent() for label in labels if label.get_text()), key=lambda box: box.x0)
    assert 1 <= len(boxes) <= 8
    assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))
