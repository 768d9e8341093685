"""Accuracy after every task, all methods of a benchmark in one plot."""

from __future__ import annotations

from tausearch.presentation import LINES, accuracy_plot, draw_figure
from tausearch.reports.html.plots import draw_plot as draw_on_page
from tausearch.runs import TrialSummary


def seed(*averages: float, status: str = "complete") -> TrialSummary:
    rows = [{"task": float(k), "test/average_accuracy": value} for k, value in enumerate(averages, start=1)]
    return TrialSummary(0, 0, status, {}, rows, averages[-1])  # type: ignore[arg-type]


def test_lines_are_means_over_finished_seeds() -> None:
    methods = {
        "ita-lora": [seed(90.0, 80.0), seed(92.0, 70.0), seed(10.0, status="failed")],
        "joint (epochs 1 instead of 5)": [seed(95.0)],
        "ewc": [seed(5.0, status="failed")],
    }
    plot = accuracy_plot("digits", methods)
    assert plot is not None and plot.title.startswith("digits: ") and plot.legend
    first, second = plot.facets[0].series
    assert (list(first.x), list(first.y), first.name) == ([1, 2], [91.0, 75.0], "ita-lora")
    assert (list(second.x), list(second.y), second.name) == ([1, 2], [95, 95], "joint (epochs 1 instead of 5)")
    assert second.hover[0] == "joint (epochs 1 instead of 5), all tasks at once: 95.00 % (1 seed)"
    assert "Level lines: all tasks, learned at once." in plot.caption
    assert first.hover[1] == "ita-lora, after task 2: 75.00 % (2 seeds)" and "ita-lora 75.00 %" in plot.numbers
    assert accuracy_plot("digits", {"ewc": methods["ewc"]}) is None
    assert plot.y.ends is not None and plot.y.ends[0] == 74  # a point below the lowest, though it lies far off
    wide = accuracy_plot("digits", {"ewc": [seed(100.0, 40.0)]})
    assert wide is not None and wide.y.ends is not None and wide.y.ends[0] < 38  # so that the mark is not cut
    assert wide.facets[0].series[0].hover[1].endswith("40.00 % (1 seed)")


def test_seventeen_methods_can_be_told_apart_in_both_renderings() -> None:
    plot = accuracy_plot("digits", {f"method {n}": [seed(90.0 - n, 80.0 - n)] for n in range(17)})
    assert plot is not None and len(LINES) < 17
    looks = {(line.colour, line.mark) for line in plot.facets[0].series}
    assert len(looks) == 17
    assert {line.mark for line in plot.facets[0].series[: len(LINES)]} == {"circle"}  # colours are told apart first
    figure = draw_figure(plot, "a campaign")
    (legend,) = figure.legends
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert len(legend.get_texts()) == 17
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1 - 1  # above the lines, not over them
    assert '"symbol":"triangle-down"' in draw_on_page(plot).figure


def test_a_method_has_one_colour_on_all_benchmarks() -> None:
    plots = [accuracy_plot("digits", {"ewc": seeds, "tmc": [seed(50.0)]}) for seeds in ([], [seed(60.0)])]
    first, second = (plot.facets[0].series[-1] for plot in plots if plot is not None)
    assert first.name == "tmc" and first.colour == second.colour == LINES[1]


def test_of_one_task_no_method_learns_all_tasks_at_once() -> None:
    plot = accuracy_plot("digits", {"ewc": [seed(90.0)], "joint": [seed(95.0)]})
    assert plot is not None and "Level lines" not in plot.caption
    assert [line.x for line in plot.facets[0].series] == [[1.0], [1.0]]
