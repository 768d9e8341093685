"""The plots of a search as data: what they show of which trial, and axes that one outlier does not spoil."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from search_spaces import Choices
from tausearch.presentation import BEST, FAINT, Plot, SearchPlots, Series
from tausearch.presentation.figures.search import draw_figure
from tausearch.presentation.figures.style import entitle, make_logarithmic, new_figure, one_pair_of_axes
from tausearch.presentation.plots import AccuracyAxis
from tausearch.reports.html.plots import draw_plot as draw_page_plot
from tausearch.runs import Constraint, Importance, Objective, SearchSpec, correlation_interval, rank_correlations
from tests.support.runs.trials import make_trial
from tests.tausearch.reports.html.runs import FINISHED, finished, make_trials
from trainables.metrics import VALIDATION


@pytest.fixture
def plots(spec: SearchSpec) -> SearchPlots:
    """Trial 3 is an outlier; trials 8 to 11 were stopped, diverged or failed; trial 12 runs."""
    trials = [*make_trials(), make_trial(12, tasks=1)]
    return SearchPlots(spec, trials, correlations=rank_correlations(trials, 3, VALIDATION))


def series(plot: Plot | None, facet: int = 0) -> dict[str, Series]:
    assert plot is not None
    return {each.name: each for each in plot.facets[facet].series}


def test_an_outlier_does_not_spoil_the_axis() -> None:
    usual = [80.0, 81, 82, 83, 84]
    spared = AccuracyAxis.of([*usual, 20])
    assert 78 < spared.low < 80 and 84 < spared.high < 86
    assert spared.place(20) == spared.edge > spared.low and spared.place(80) == 80
    assert AccuracyAxis(low=75, high=90, floor=76).place(75.9) == 75.3  # an outlier beside the lowest that is none
    assert AccuracyAxis.of(usual).low > 78 and AccuracyAxis.of([*usual, 76.5]).low < 76.5  # not far enough to be one
    assert AccuracyAxis.of([*usual, 99]).high > 99  # a value far above is what the search is for
    assert AccuracyAxis.of([10, 50, 90]).low < 10  # wide is not outlying
    equal = AccuracyAxis.of([80.0, 80, 80, 79.5])
    assert equal.low < 79.5 and equal.low < equal.edge < equal.high  # spreads below a point are noise
    assert AccuracyAxis.of([70.0]).labelled("").ends == (69.75, 70.25)
    assert AccuracyAxis.of([]) == AccuracyAxis.of([math.nan]) == AccuracyAxis(0, 100, 0)


def test_points_at_one_place_are_counted_and_rings_around_them_are_not() -> None:
    places = {"x": [1, 2, 1], "y": [3, 3, 3]}
    for mark in ("circle", "triangle", "cross"):
        assert Series(**places, mark=mark).counts == ["×2", "", ""]
    assert not any(Series(**places, mark="ring").counts)


def test_a_trial_that_failed_after_its_last_task_has_not_finished(spec: SearchSpec) -> None:
    failed = replace(make_trial(1, value=90.0), status="failed", error="no space left")
    plots = SearchPlots(spec, [make_trial(0, value=80.0), failed])
    history = plots.history()
    assert [each.number for each in plots.finished] == [0] and series(history)["trial"].x == [0]
    assert series(history)["stopped, diverged or failed"].x == [1]
    assert history is not None and "of 1 finished trials" in history.caption


def test_the_history_has_every_trial_under_its_number(plots: SearchPlots) -> None:
    first, second, third, *rest = plots.all_trials
    plots = replace(plots, all_trials=[replace(first, status="failed", value=None), second, *rest])
    history = plots.history()
    drawn = series(history)
    assert drawn["trial"].x == drawn["trial"].trials == [1, 3, 4, 5, 6, 7]
    assert drawn["trial"].y == [finished(number).value for number in (1, 3, 4, 5, 6, 7)]
    best = drawn["best so far"]
    assert best.x == [1, *range(3, 12)] and best.y[:2] == [finished(1).value] * 2 and best.y[-1] == finished(5).value
    below, without = drawn["far below"], drawn["stopped, diverged or failed"]
    assert (below.x, below.mark, below.y) == ([3], "triangle", [plots.accuracies.edge])
    assert (without.x, without.mark, without.colour) == ([0, 8, 9, 10, 11], "cross", FAINT)
    assert history is not None and history.y.ends == (plots.accuracies.low, plots.accuracies.high)
    assert plots.accuracies.low > 75
    assert "6 finished trials, from 20.00 to 89.20 %; trial 5 is the best." in history.caption
    assert "Triangles at the lower edge: 1 far below the others, at 20.0 %. Crosses" in history.caption


def test_the_history_rings_the_chosen_trial_and_names_it_where_another_is_the_best(plots: SearchPlots) -> None:
    found = {number: replace(plots, chosen=number).history() for number in (2, 5)}
    for number, history in found.items():
        ring = series(history)["chosen"]
        assert (ring.x, ring.y, ring.mark) == ([number], [finished(number).value], "ring")
    low = series(replace(plots, chosen=3).history())["chosen"]
    assert low.y == [plots.accuracies.edge]  # where its triangle is
    assert found[2] is not None and "; trial 5 is the best, trial 2 is chosen." in found[2].caption
    assert found[5] is not None and "; trial 5 is the best." in found[5].caption
    assert "chosen" not in series(replace(plots, chosen=9).history())  # it has no accuracy


def test_the_history_of_a_search_for_a_knee_names_the_most_accurate_trial(plots: SearchPlots) -> None:
    aims = (("val/forgetting", "minimize"), ("val/final_accuracy", "maximize"))
    objectives = tuple(Objective.model_validate({"metric": name, "direction": way}) for name, way in aims)
    history = replace(plots, spec=plots.spec.model_copy(update={"objectives": objectives})).history()
    assert history is not None and "; trial 5 is the most accurate." in history.caption


@pytest.mark.parametrize(("direction", "best"), [("minimize", [3.0, 1.0, 1.0]), ("maximize", [3.0, 3.0, 4.0])])
def test_the_best_so_far_is_the_better_by_the_objective(
    spec: SearchSpec, direction: Literal["minimize", "maximize"], best: list[float]
) -> None:
    trials = [make_trial(number, value=80.0) for number in range(3)]
    for trial, value in zip(trials, (3.0, 1.0, 4.0), strict=True):
        trial.rows[-1]["val/forgetting"] = value
    aim = (Objective(metric="val/forgetting", direction=direction),)
    drawn = series(SearchPlots(spec.model_copy(update={"objectives": aim}), trials, chosen=1).history())
    assert drawn["best so far"].y == best and drawn["trial"].y == [3.0, 1.0, 4.0]
    assert (drawn["chosen"].x, drawn["chosen"].y) == ([1], [1.0])
    bound = (Constraint(metric="val/forgetting", relation=">=", bound=2),)  # trial 1 breaks it
    kept = SearchPlots(spec.model_copy(update={"objectives": aim, "constraints": bound}), trials).history()
    assert series(kept)["best so far"].x == [0, 2]


def test_a_caption_explains_only_marks_that_are_drawn(plots: SearchPlots) -> None:
    trials = [trial for trial in plots.trials if trial.number != 3]
    usual = replace(plots, all_trials=trials).history()
    alone = replace(plots, all_trials=trials[:5]).history()
    assert usual is not None and "Triangles" not in usual.caption and "Crosses at the lower edge" in usual.caption
    assert alone is not None and "Crosses" not in alone.caption
    second = replace(finished(12), value=30.0)
    two = replace(plots, all_trials=[*plots.trials, second]).history()
    assert two is not None and "2 far below the others, down to 20.0 %" in two.caption


def test_the_best_keeps_the_constraints(plots: SearchPlots) -> None:
    kept = Constraint(metric="val/final_accuracy", relation="<=", bound=89)  # trial 5 breaks it
    bound = replace(plots, spec=plots.spec.model_copy(update={"constraints": (kept,)}))
    history, lines = bound.history(), bound.task_by_task()
    assert history is not None and "trial 2 is the best" in history.caption and lines is not None
    assert [line.trials for line in lines.facets[0].series if line.colour == BEST and not line.thin] == [[2]]
    assert max(series(history)["best so far"].y) == finished(2).value < finished(5).value
    none = Constraint(metric="val/final_accuracy", relation="<=", bound=1)
    without = replace(plots, spec=plots.spec.model_copy(update={"constraints": (none,)})).history()
    assert without is not None and "none keeps the constraints" in without.caption
    assert "best so far" not in series(without)


def test_lines_end_where_trials_ended(plots: SearchPlots) -> None:
    plot = plots.task_by_task()
    assert plot is not None
    lines = plot.facets[0].series
    assert [len(line.x) for line in lines] == [3] * FINISHED + [1] * 3  # a failed one is not drawn
    assert [line.trials for line in lines] == [[number] for number in range(FINISHED + 3)]
    assert [line.trials for line in lines if not line.thin] == [[5]] and "3 that did not reach" in plot.caption
    assert [line.colour for line in lines].count(FAINT) == 3
    assert "Lines that leave the plot below: 4." in plot.caption
    steady = [replace(each, rows=[{**row, "val/average_accuracy": 80.0} for row in each.rows]) for each in plots.trials]
    steady[6].rows[0]["val/average_accuracy"] = 20.0  # after its first task alone
    plot = replace(plots, all_trials=steady).task_by_task()
    assert plot is not None and "Lines that leave the plot below: 1." in plot.caption


def test_slices_have_every_trial(plots: SearchPlots) -> None:
    space = {**plots.spec.space, "way": Choices(choices=("winding", "never", "plain")), "rank": Choices(choices=(2, 8))}
    for trial in plots.all_trials:
        trial.hyperparameters |= {"way": ("plain", "winding")[trial.number % 2], "rank": (8, 2)[trial.number % 2]}
    slices = replace(plots, spec=plots.spec.model_copy(update={"space": space})).slices()
    assert slices is not None and slices.scale == ("trial", 0, 7)
    alpha, lr, way, rank = slices.facets
    drawn = series(slices)
    assert dict(zip(drawn["trial"].x, drawn["trial"].y, strict=True))[5.2] == finished(5).value
    assert drawn["trial"].colour == drawn["trial"].trials == list(range(FINISHED))
    assert (drawn["far below"].x, drawn["far below"].colour) == ([3.2], [3])
    assert (drawn["stopped, diverged or failed"].x, drawn["stopped, diverged or failed"].colour) == ([0.3] * 4, FAINT)
    assert (alpha.x.log, alpha.caption, lr.caption) == (True, "Tried from 0.2 to 7.2.", "Tried from 0.002 to 0.006.")
    assert way.x.words == ("winding", "plain") and way.caption == "Tried: plain, winding."
    assert rank.caption == "Tried from 2 to 8."
    assert series(slices, 2)["trial"].x == ["plain", "winding"] * 4
    assert "chosen" not in drawn


def test_slices_ring_the_chosen_trial_in_each_facet(plots: SearchPlots) -> None:
    slices = replace(plots, chosen=5).slices()
    assert slices is not None
    for place, value in enumerate((5.2, finished(5).hyperparameters["lr"])):
        ring = series(slices, place)["chosen"]
        assert (ring.x, ring.y, ring.mark) == ([value], [finished(5).value], "ring")


@pytest.mark.parametrize(("low", "high"), [(7.2e-5, 3.3e-4), (2.1e-4, 3.4e-4), (1e-3, 9e-3)])
def test_the_numbers_below_a_logarithmic_facet_lie_apart(low: float, high: float) -> None:
    figure, axes = one_pair_of_axes((3.0, 3.0))
    axes.plot([low, high], [0, 1])
    make_logarithmic(axes, "x")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    left, right = axes.get_xlim()
    labels = [each for each in axes.get_xticklabels() if left <= each.get_position()[0] <= right and each.get_text()]
    boxes = [each.get_window_extent(renderer) for each in labels]
    assert len(boxes) >= 2
    assert all(first.x1 < second.x0 for first, second in zip(boxes, boxes[1:], strict=False))


def test_the_colours_of_slices_reach_to_the_last_finished_trial_whichever_have_failed(plots: SearchPlots) -> None:
    failed = [
        replace(each, status="failed", value=None) if each.number in (1, 2) else each for each in plots.all_trials
    ]
    slices = replace(plots, all_trials=failed).slices()
    assert slices is not None and slices.scale == ("trial", 0, 7)  # as the points, which have the numbers of trials


def test_the_front_is_ringed_over_both_costs(plots: SearchPlots) -> None:
    steady, dear, quick = finished(3), finished(5), finished(4)
    steady.rows[-1]["val/forgetting"], dear.rows[-1]["val/forgetting"] = 0.5, 8.0
    quick.rows[-1]["seconds/training"] = 0.1
    front = replace(plots, all_trials=[*plots.trials[:3], steady, quick, dear, *plots.trials[6:]]).front()
    assert front is not None and "the most accurate first: 5, 2, 3. Time does not count" in front.caption
    forgetting, seconds = series(front), series(front, 1)
    assert forgetting["Pareto front"].x == [8.0, 2.0, 0.5] and seconds["Pareto front"].x == [7.5, 7.5, 7.5]
    assert (forgetting["far below"].x, seconds["far below"].x) == ([0.5], [7.5])
    assert (
        forgetting["Pareto front"].y
        == seconds["Pareto front"].y
        == [dear.value, finished(2).value, plots.accuracies.edge]
    )
    assert len(forgetting["trial"].x) == FINISHED and "stopped, diverged or failed" not in forgetting
    assert replace(plots, all_trials=plots.trials[:1]).front() is None


def test_a_trial_that_lacks_an_objective_is_not_in_the_plot_of_them(spec: SearchSpec) -> None:
    trials = [make_trial(number, value=80.0 + number) for number in range(3)]
    del trials[1].rows[-1]["val/forgetting"]
    aims = (Objective(metric=name, direction="maximize") for name in ("val/final_accuracy", "val/forgetting"))
    front = SearchPlots(spec.model_copy(update={"objectives": tuple(aims)}), trials).front()
    assert front is not None and series(front)["trial"].trials == [0, 2] and "of 2 finished trials" in front.caption


def test_trials_at_one_place_are_counted(plots: SearchPlots) -> None:
    same = [replace(finished(1), number=number) for number in (20, 21)]
    front = replace(plots, all_trials=[*plots.trials, *same]).front()
    assert front is not None and front.caption.endswith("×2: two trials at one place.")
    drawn = series(front)
    assert drawn["trial"].counts == ["", "×3", *[""] * (FINISHED + 2 - 2)]
    assert not any(drawn["Pareto front"].counts)
    beside = draw_figure(front, "").axes[0].texts
    assert beside[0].get_clip_box() is None  # a text at the edge is not cut off
    assert '"cliponaxis":false' in draw_page_plot(front).figure
    texts = [text.get_text() for text in beside]
    assert texts == ["×3"] == [text.strip() for text in _page_texts(front) if text][:1]
    alone = plots.front()
    assert alone is not None and "×2" not in alone.caption and set(_page_texts(alone)) == set()


def _page_texts(plot: Plot) -> list[str]:
    return [text for trace in json.loads(draw_page_plot(plot).figure)["data"] for text in trace.get("text") or ()]


def test_importances_and_correlations_have_their_intervals(plots: SearchPlots) -> None:
    shares = {"lr": Importance(0.7, 0.2, 0.9), "alpha": Importance(0.3, 0.1, 0.8)}
    plot = replace(plots, importances=shares).bars()
    (bars,) = series(plot).values()
    assert plot is not None and bars.y == plot.y.words == ("alpha", "lr")  # the largest on top
    assert (bars.low, bars.x, bars.high) == ([0.1, 0.2], [0.3, 0.7], [0.8, 0.9])
    assert plot.numbers == "Shares: lr 0.70 (0.20 to 0.90); alpha 0.30 (0.10 to 0.80)."
    assert "So few trials say little" in plot.caption and f"best of {FINISHED} finished" in plot.caption
    many = replace(plots, importances=shares, all_trials=[finished(number) for number in range(30)]).bars()
    assert many is not None and "So few" not in many.caption
    fewer = [*(finished(number) for number in range(29)), make_trial(29, tasks=1, status="pruned")]
    few = replace(plots, importances=shares, all_trials=fewer).bars()
    assert few is not None and "So few" in few.caption  # trials that were stopped rank nothing
    early = plots.early_accuracy()
    (line,) = series(early).values()
    assert line.x == list(plots.correlations) == [1, 2] and line.y == list(plots.correlations.values())
    assert list(zip(line.low, line.high, strict=True)) == [
        correlation_interval(v, FINISHED) for v in plots.correlations.values()
    ]
    assert early is not None and f"over {FINISHED} finished trials" in early.caption


@pytest.mark.parametrize("name", ["history", "slices", "front", "bars", "early_accuracy", "task_by_task"])
def test_a_search_that_has_just_begun_has_no_plots(spec: SearchSpec, name: str) -> None:
    assert getattr(SearchPlots(spec, [make_trial(0, tasks=1)]), name)() is None


def test_a_figure_has_the_points_of_the_plot(plots: SearchPlots) -> None:
    """Outliers keep their places below the axis."""
    history, slices = plots.history(), plots.slices()
    assert history is not None and slices is not None
    figure = draw_figure(history, "a $search")
    (axes,) = figure.axes
    for drawn, described in zip(axes.collections, history.facets[0].series[1:], strict=True):
        assert np.asarray(drawn.get_offsets()).tolist() == np.column_stack([described.x, described.y]).tolist()
    assert axes.get_ylim() == history.y.ends and axes.lines[0].get_xdata()[-1] == 11
    assert figure.get_suptitle().startswith(r"History: a \$search") and "1 far below" in figure.get_supxlabel()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(series(history))
    alpha, lr, bar = draw_figure(slices, "").axes
    assert alpha.get_xlim()[0] < 0.2 and alpha.get_xlim()[1] > 7.2 and bar.get_ylabel() == "trial"
    assert lr.get_xlim()[1] > 0.05  # where stopped trials are


def test_each_line_of_a_long_title_fits_into_the_figure(plots: SearchPlots) -> None:
    """Else matplotlib breaks it, and the new line lies on the legend."""
    history = plots.history()
    assert history is not None
    of = "ita-lora on folder:shapes?epochs=40&task=round=circle,ring&task=corner=square,triangle, shapes-1 (val split)"
    figure = draw_figure(history, of)
    renderer = FigureCanvasAgg(figure).get_renderer()
    bare = new_figure((5.0, 2.0))
    entitle(bare, f"time per task: {of}")
    for drawn in (figure, bare):
        lines = [line for line in drawn.get_suptitle().splitlines() if line]
        widths = [drawn.text(0, 0, line, fontsize=9).get_window_extent(renderer).width for line in lines]
        assert len(lines) > 1 and max(widths) < drawn.bbox.width
        assert " ".join(lines).endswith("(val split)")


def test_a_figure_has_the_intervals_of_the_plot(plots: SearchPlots) -> None:
    bars = replace(plots, importances={"lr": Importance(0.7, 0.2, 0.9), "alpha": Importance(0.3, 0.1, 0.8)}).bars()
    assert bars is not None
    (axes,) = draw_figure(bars, "").axes
    assert [text.get_text() for text in axes.texts] == ["0.30", "0.70"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alpha", "lr"]
    ends = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    assert ends == [pytest.approx([0.1, 0.8]), pytest.approx([0.2, 0.9])]
    assert [segment[0, 1] for segment in axes.collections[0].get_segments()] == [0, 1]  # beside their names


@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.parametrize(
    ("low", "high"), [(0.0003, 0.007), (2.0, 6.0), (2.1, 4.9), (0.12, 0.99), (0.01, 0.01), (1e-6, 1.0)]
)
def test_a_logarithmic_axis_has_a_few_labels_that_do_not_touch(
    low: float, high: float, which: Literal["x", "y"]
) -> None:
    figure = Figure(figsize=(3.2, 3.2))
    axes = figure.subplots()
    axes.scatter([low, high], [low, high])
    make_logarithmic(axes, which)
    FigureCanvasAgg(figure).draw()
    axis, side = (axes.xaxis, 0) if which == "x" else (axes.yaxis, 1)
    first, last = axis.get_view_interval()
    labels = [label for label in axis.get_ticklabels(which="both") if first <= label.get_position()[side] <= last]
    ends = [label.get_window_extent().get_points()[:, side] for label in labels if label.get_text()]
    ends.sort(key=lambda end: end[0])
    assert min(2, 1 + (high > low)) <= len(ends) <= 8
    assert all(one[1] <= next_one[0] for one, next_one in itertools.pairwise(ends))
