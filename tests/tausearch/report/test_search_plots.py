"""The plots of a search: what they show of which trial, and axes that one outlier does not spoil."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from search_spaces import Choices, Range
from tausearch.presentation import AccuracyAxis
from tausearch.report.plots import Plot, make_plot, ticks
from tausearch.report.search_plots import search_plots, slice_plots
from tausearch.report.searched import Searched
from tausearch.runs import RunDirectory, RunStatus, Storage, correlation_interval, importances, read_spec, read_status
from tests.tausearch.report.runs import FINISHED, finished, make_search, write

pytestmark = pytest.mark.usefixtures("few_resamples")


def plots_of(directory: RunDirectory) -> dict[str, Plot]:
    return plots_of_search(Searched.of(read_status(directory)))


def plots_of_search(searched: Searched) -> dict[str, Plot]:
    return {plot.title: plot for plot in (*search_plots(searched), *slice_plots(searched))}


def figure(plot: Plot) -> Any:
    return json.loads(plot.figure)


def numbers(values: Sequence[float | str]) -> list[float]:
    return [float(value) for value in values]


@pytest.fixture(scope="module")
def status(tmp_path_factory: pytest.TempPathFactory) -> RunStatus:
    return read_status(make_search(Storage(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(scope="module")
def searched(status: RunStatus) -> Searched:
    return Searched.of(status)


@pytest.fixture(scope="module")
def plots(searched: Searched) -> dict[str, Plot]:
    return plots_of_search(searched)


def test_an_outlier_does_not_spoil_the_axis() -> None:
    usual = [80.0, 81, 82, 83, 84]
    low, high = AccuracyAxis.of([*usual, 20]).range
    assert 78 < low < 80 and 84 < high < 86
    assert AccuracyAxis.of(usual).low > 78 and AccuracyAxis.of([*usual, 76.5]).low < 76.5  # not far enough to be one
    assert AccuracyAxis.of([*usual, 99]).high > 99  # a value far above is what the search is for
    assert AccuracyAxis.of([10, 50, 90]).low < 10  # wide is not outlying
    equal = AccuracyAxis.of([80.0, 80, 80, 79.5])
    assert equal.low < 79.5 and equal.low < equal.edge < equal.high  # spreads below a point are noise
    assert AccuracyAxis.of([70.0]).range == [69.75, 70.25]
    assert AccuracyAxis.of([]).range == AccuracyAxis.of([math.nan]).range == [0, 100]


def test_the_history_has_every_trial_under_its_number(tmp_path: Path) -> None:
    directory = make_search(Storage(tmp_path))
    (directory.record / "trial-00002.parquet").unlink()  # Optuna would count on without it
    plot = plots_of(directory)["History"]
    points, best, below, without = figure(plot)["data"]
    assert numbers(points["x"]) == [0, 1, 3, 4, 5, 6, 7]
    values = {trial.number: trial.value or 0.0 for trial in map(finished, points["x"])}
    assert numbers(points["y"]) == pytest.approx([values[number] for number in points["x"]], abs=1e-3)
    assert numbers(best["x"]) == [0, 1, *range(3, 12)] and numbers(best["y"])[-1] == pytest.approx(
        max(values.values()), abs=1e-3
    )
    assert (below["x"], below["marker"]["symbol"]) == ([3], "triangle-down")
    assert without["x"] == [FINISHED, FINISHED + 1, FINISHED + 2, FINISHED + 3]
    assert figure(plot)["layout"]["yaxis"]["range"][0] > 75
    assert "7 finished trials, from 20.00 to 89.20 %; trial 5 is the best. 1 far below" in plot.text


def test_the_pointer_shows_trial_and_hyperparameters(plots: dict[str, Plot], searched: Searched) -> None:
    assert searched.hover(searched.trials[5]) == "<b>trial 5</b>: 89.20 %, 0:10<br>alpha = 5.2<br>lr = 0.006"
    failed = "<b>trial 11</b>: failed at task 1, 0:03<br>alpha = 0.3<br>lr = 0.05<br>out of memory"
    assert searched.hover(searched.trials[11]) == failed
    for title in ("History", "alpha", "lr", "The two that matter most"):
        (points, *_) = [trace for trace in figure(plots[title])["data"] if trace.get("meta") == "trials"]
        assert numbers(points["hovertext"]) == list(range(FINISHED)), title
    lines = [trace["hovertext"] for trace in figure(plots["Task by task"])["data"]]
    assert numbers(lines) == list(range(FINISHED + 3))  # a failed one is not drawn
    assert numbers(figure(plots["History"])["data"][-1]["hovertext"]) == [8, 9, 10, 11]


def test_slices_have_the_value_of_every_trial_and_mark_the_outlier(plots: dict[str, Plot]) -> None:
    (trace,) = figure(plots["alpha"])["data"]
    points = dict(zip(numbers(trace["x"]), numbers(trace["y"]), strict=True))
    assert points[5.2] == pytest.approx(finished(5).value)
    low, high = figure(plots["alpha"])["layout"]["yaxis"]["range"]
    assert all(low < value < high for value in points.values())
    assert [trace["marker"]["symbol"][place] for place in (2, 3)] == ["circle", "triangle-down"]


def test_lines_end_where_trials_ended(plots: dict[str, Plot]) -> None:
    traces = figure(plots["Task by task"])["data"]
    assert [len(trace["x"]) for trace in traces] == [3] * FINISHED + [1] * 3
    wide = [trace["line"]["width"] for trace in traces]
    assert wide.index(max(wide)) == 5 and wide.count(max(wide)) == 1


def test_importances_are_those_of_the_search_with_their_intervals(tmp_path: Path) -> None:
    directory = make_search(Storage(tmp_path))
    plot = plots_of(directory)["Importances"]
    known = importances(Searched.of(read_status(directory)).study)
    (bars,) = figure(plot)["data"]
    assert bars["y"] == list(known)[::-1]
    for name, share, up, down in zip(
        bars["y"], bars["x"], bars["error_x"]["array"], bars["error_x"]["arrayminus"], strict=True
    ):
        assert (share - down, share, share + up) == pytest.approx(
            (known[name].low, known[name].share, known[name].high), abs=1e-5
        )
        assert f"{name} {known[name].text()}" in plot.text


def test_trust_is_what_status_says(plots: dict[str, Plot], status: RunStatus) -> None:
    (line,) = figure(plots["Early stopping's trust"])["data"]
    known = status.rank_correlations
    assert line["x"] == list(known) and line["y"] == pytest.approx(list(known.values()), abs=1e-5)
    for k, value, up, down in zip(
        line["x"], line["y"], line["error_y"]["array"], line["error_y"]["arrayminus"], strict=True
    ):
        assert (value - down, value + up) == pytest.approx(correlation_interval(known[k], FINISHED), abs=1e-5)


def test_a_choice_of_words_is_an_axis_of_its_own(tmp_path: Path) -> None:
    space = {"alpha": Range(low=0.1, high=10, grid=(1,)), "way": Choices(choices=("plain", "winding"))}
    directory = make_search(Storage(tmp_path))
    trials = read_status(directory).trials
    spec = read_spec(directory).model_copy(update={"space": space, "start": {"alpha": 1, "way": "plain"}})
    spec.save(directory)
    for trial in trials:
        trial.hyperparameters["way"] = ("plain", "winding")[trial.number % 2]
    write(spec, directory, trials)
    plots = plots_of(directory)
    (trace,) = figure(plots["way"])["data"]
    assert set(trace["x"]) == {"'plain'", "'winding'"} and plots["way"].text == "Tried: plain, winding."
    assert figure(plots["The two that matter most"])["layout"]["yaxis"]["type"] == "category"


def test_a_hyperparameter_that_was_never_varied_has_no_contour(tmp_path: Path) -> None:
    directory = make_search(Storage(tmp_path))
    trials = read_status(directory).trials
    for trial in trials:
        trial.hyperparameters["lr"] = 0.01
    write(read_spec(directory), directory, trials)
    assert "The two that matter most" not in plots_of(directory)


def test_many_trials_make_no_large_page(tmp_path: Path) -> None:
    directory = make_search(Storage(tmp_path), trials=300)
    trials = [finished(number) for number in range(300)]
    for trial in trials:
        trial.hyperparameters |= {"alpha": 0.1 + 0.033 * trial.number, "lr": 0.001 + 0.0003 * trial.number}
    write(read_spec(directory), directory, trials)
    plots = plots_of(directory)
    assert sum(len(plot.figure) for plot in plots.values()) < 600_000
    assert "of the best 100 finished trials" in plots["The two that matter most"].text


def test_no_text_of_a_figure_ends_the_script_that_it_stands_in() -> None:
    plot = make_plot(go.Figure(go.Scatter(x=[1], y=[1], name="</script><b>")), "a &lt; b", "c &amp; d")
    assert "<" not in plot.figure and figure(plot)["data"][0]["name"] == "</script><b>"
    assert (plot.title, plot.text) == ("a < b", "c & d")


def test_ticks_of_logarithmic_axes_have_room() -> None:
    assert ticks([1e-5, 1e2], log=True)["dtick"] == 2 and ticks([0.001, 0.1], log=True)["dtick"] == 1
    assert ticks([0.002, 0.01], log=True)["dtick"] == "D2" and "dtick" not in ticks([0, 5], log=False)
