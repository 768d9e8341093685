"""Plots on the page: the numbers of their descriptions, what the pointer shows, and texts that stay texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from search_spaces import Choices, Range
from tausearch.presentation import SCALE, Axis, Facet, Plot, SearchPlots, Series
from tausearch.reports.html.plots import PagePlot, draw_plot, script_json, ticks
from tausearch.reports.html.run_plots import hover_text, search_plots, slice_plots, time_plot
from tausearch.runs import Constraint, Objective, SearchSpec, TrialSummary, rank_correlations
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.reports.html.runs import FINISHED, finished, make_trials
from trainables.metrics import VALIDATION
from trainables.task_names import NamedTask

pytestmark = pytest.mark.usefixtures("few_resamples")
CONTOUR, EARLY = "The two that matter most", SearchPlots.early_accuracy


def described(spec: SearchSpec, trials: list[TrialSummary]) -> SearchPlots:
    return SearchPlots(spec, trials, correlations=rank_correlations(trials, 3, VALIDATION))


def page_plots(plots: SearchPlots) -> dict[str, PagePlot]:
    slices = plots.slices()
    assert slices is not None
    return {plot.title: plot for plot in (*search_plots(plots), *slice_plots(slices))}


def figure(plot: PagePlot) -> Any:
    return json.loads(plot.figure)


@pytest.fixture
def plots(spec: SearchSpec) -> dict[str, PagePlot]:
    return page_plots(described(spec, make_trials()))


@pytest.mark.parametrize("describe", [SearchPlots.history, SearchPlots.task_by_task, SearchPlots.front, EARLY])
def test_the_page_has_the_points_and_intervals_of_the_plot(
    spec: SearchSpec, plots: dict[str, PagePlot], describe: Callable[[SearchPlots], Plot | None]
) -> None:
    plot = describe(described(spec, make_trials()))
    assert plot is not None
    drawn = plots[plot.title]
    every = [series for facet in plot.facets for series in facet.series]
    for trace, series in zip(figure(drawn)["data"], every, strict=True):
        assert (trace["x"], trace["y"]) == (pytest.approx(series.x, rel=1e-5), pytest.approx(series.y, rel=1e-5))
        assert trace.get("hovertext", []) == list(map(str, series.trials or series.hover))
        ends = trace.get("error_y", {"array": [], "arrayminus": []})
        assert [y + up for y, up in zip(trace["y"], ends["array"], strict=False)] == pytest.approx(
            series.high, abs=1e-5
        )
        assert [y - down for y, down in zip(trace["y"], ends["arrayminus"], strict=False)] == pytest.approx(
            series.low, abs=1e-5
        )
    assert figure(drawn)["layout"]["yaxis"]["range"] == pytest.approx(plot.y.ends, rel=1e-5)
    assert drawn.text.startswith(plot.caption) and drawn.text.endswith(plot.numbers)


def test_looks_follow_the_description() -> None:
    marks = [Series([1], [2], mark, mark=mark) for mark in ("circle", "ring", "triangle", "cross")]
    lines = [Series([1, 2], [3, 4], kind="line", thin=True), Series([1, 2], [3, 4], kind="steps")]
    plain = figure(draw_plot(Plot("t", "c", Axis("y"), [Facet(Axis("x"), [*marks, *lines])])))["data"]
    symbols = ["circle", "circle-open", "triangle-down", "x-thin-open"]
    assert [trace["marker"]["symbol"] for trace in plain[:4]] == symbols
    assert [trace["showlegend"] for trace in plain] == [True] * 4 + [False] * 2
    assert plain[4]["opacity"] < 1 and plain[5]["line"]["shape"] == "hv" and plain[5]["hoverinfo"] == "skip"
    facet = Facet(Axis("x"), [Series([1, 2], [3, 4], "trial", colour=[0, 5])])
    (trace,) = figure(draw_plot(Plot("t", "c", Axis("y"), [facet], scale=("trial", 0, 9))))["data"]
    marker = trace["marker"]
    assert (marker["color"], marker["cmin"], marker["cmax"], trace["showlegend"]) == ([0, 5], 0, 9, False)
    assert [place for place, _ in marker["colorscale"]] == [0, 0.5, 1]
    assert [colour for _, colour in marker["colorscale"]] == list(SCALE)


def test_facets_share_the_vertical_axis_and_the_legend() -> None:
    first = [Series([1, 2], [3, 4], "one", kind="line"), Series([1, 41], [3, 4], "other", kind="line")]
    second = [Series([1, 1000], [3, 4], "one", kind="line"), Series([1, 2], [3, 4], kind="line")]
    facets = [Facet(Axis("tasks", integer_ticks=True), first), Facet(Axis("rate", log=True), second)]
    drawn = figure(draw_plot(Plot("t", "c", Axis("share", ends=(0, 9), zero=True), facets)))
    assert [trace["showlegend"] for trace in drawn["data"]] == [True, True, False, False], "each name once"
    left, right = drawn["layout"]["yaxis"], drawn["layout"]["yaxis2"]
    assert (left["title"]["text"], right["title"].get("text"), right["matches"]) == ("share", "", "y")
    assert left["zeroline"] and left["range"] == [0, 9]
    tasks, rate = drawn["layout"]["xaxis"], drawn["layout"]["xaxis2"]
    assert (tasks["title"]["text"], tasks["dtick"], tasks["zeroline"]) == ("tasks", 5, False), "of all its series"
    assert (rate["type"], "type" in tasks) == ("log", False)


def test_a_ring_goes_around_the_point_that_it_marks_and_several_at_one_place_are_counted() -> None:
    marks = [Series([1, 1, 2], [5, 5, 5], "trials"), Series([1], [5], "chosen", mark="ring")]
    points, ring = figure(draw_plot(Plot("t", "c", Axis("y"), [Facet(Axis("x"), marks)])))["data"]
    assert ring["marker"]["size"] > points["marker"]["size"] and ring["mode"] == "markers"
    assert points["mode"] == "markers+text" and [text.strip() for text in points["text"]] == ["×2", "", ""]


def test_an_interval_may_begin_at_nought() -> None:
    lines = [Series([1], [3], low=[0.0], high=[5.0], kind="line"), Series([1], [3], kind="line", thin=True)]
    wide, thin = figure(draw_plot(Plot("t", "c", Axis("y"), [Facet(Axis("x"), lines)])))["data"]
    assert (wide["error_y"]["array"], wide["error_y"]["arrayminus"], "error_y" in thin) == ([2.0], [3.0], False)
    assert wide["line"]["width"] > thin["line"]["width"]


def test_lying_bars_have_intervals_along_their_length() -> None:
    bars = Series([0.3, 0.7], ["alpha", "lr"], kind="bars", low=[0.1, 0.2], high=[0.8, 0.9])
    drawn = figure(draw_plot(Plot("t", "c", Axis("", words=("alpha", "lr")), [Facet(Axis("share"), [bars])])))
    (trace,) = drawn["data"]
    assert (trace["orientation"], trace["y"], trace["x"]) == ("h", ["alpha", "lr"], [0.3, 0.7])
    ends = trace["error_x"]
    assert ends["array"] == pytest.approx([0.5, 0.2]) and ends["arrayminus"] == pytest.approx([0.2, 0.5])
    assert drawn["layout"]["yaxis"]["categoryarray"] == ["alpha", "lr"]


def test_times_of_a_final_run_are_means_over_seeds(spec: SearchSpec) -> None:
    first, second = finished(0), finished(1)
    for row in second.rows:
        row["seconds/training"] = 4.0
        del row["seconds/preconsolidation"]  # as if taken from the cache
    plot = time_plot([first, second], final_spec(spec))
    assert plot is not None and plot.text.startswith("Of a seed, mean over seeds: preconsolidation 0:02, training 0:09")
    means = {"preconsolidation": [0.5] * 3, "training": [3] * 3, "evaluation": [0.5] * 3}
    assert {trace["name"]: trace["y"] for trace in figure(plot)["data"]} == means
    named = spec.model_copy(update={"tasks": tuple(NamedTask(("a",), name=f"R&D <{n}>") for n in range(3))})
    odd = time_plot([first], named)
    assert odd is not None and "task 1: R&amp;D &lt;0&gt;, preconsolidation" in json.dumps(figure(odd))
    assert "cache" not in plot.text
    for row in first.rows:
        row |= {"seconds/training": 3600.0, "cache/hit": float(row["task"] == 2)}
    assert (long := time_plot([first], spec)) is not None and "3:00:00" in long.text and "[hours:]min" in long.text
    assert "What the cache had of preconsolidation took no time" in long.text
    for row in first.rows:
        row |= {"seconds/training": 0, "seconds/preconsolidation": 0, "seconds/evaluation": 0}
    assert time_plot([first], spec) is None


def test_a_stage_that_a_task_did_not_have_is_drawn_and_each_stage_has_its_colour(spec: SearchSpec) -> None:
    trial = finished(0)
    trial.rows[1]["seconds/preconsolidation"] = 0.0
    plot = time_plot([trial], final_spec(spec))
    assert plot is not None and plot.text.startswith("Of the seed: preconsolidation 0:02, ")
    bars = figure(plot)["data"]
    assert [bar["name"] for bar in bars] == ["preconsolidation", "training", "evaluation"]
    assert bars[0]["y"] == [1, 0, 1] and len({bar["marker"]["color"] for bar in bars}) == 3


def test_a_search_with_bounds_or_objectives_has_the_contour_of_all_its_trials(
    spec: SearchSpec, plots: dict[str, PagePlot]
) -> None:
    bounds = (Constraint(metric=VALIDATION.final_accuracy, relation=">=", bound=89.0),)
    aims = tuple(Objective(metric=metric, direction="maximize") for metric in ("val/final_accuracy", "train/loss"))
    for changes in ({"constraints": bounds}, {"objectives": aims}):
        found = page_plots(described(spec.model_copy(update=changes), make_trials()))
        assert found[CONTOUR].figure == plots[CONTOUR].figure
        assert found["Importances"].text == plots["Importances"].text


def test_the_contour_looks_like_the_other_plots(plots: dict[str, PagePlot]) -> None:
    drawn = figure(plots[CONTOUR])
    assert {drawn["layout"][side]["tickformat"] for side in ("xaxis", "yaxis")} == {"~g"}
    surface = drawn["data"][0]
    assert not surface["reversescale"] and [colour for _, colour in surface["colorscale"]] == list(SCALE)


def test_the_contour_says_what_its_colours_are(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchSpec, "value_labels", replace(spec.value_labels, unit="rank %", caption="Score"))
    plot = page_plots(described(spec, make_trials()))[CONTOUR]
    assert figure(plot)["data"][0]["colorbar"]["title"]["text"] == "rank %" and plot.text.startswith("Score over ")


def test_the_pointer_shows_trial_and_hyperparameters(spec: SearchSpec, plots: dict[str, PagePlot]) -> None:
    trials = make_trials()
    assert hover_text(spec, trials[5]) == "<b>trial 5</b>: 89.20 %, 0:10<br>alpha = 5.2<br>lr = 0.006"
    assert hover_text(spec, make_trial(7, value=0.0)).startswith("<b>trial 7</b>: 0.00 %, ")
    failed = "<b>trial 11</b>: failed at task 1, 0:04<br>alpha = 0.3<br>lr = 0.05<br>out of memory"
    assert hover_text(spec, trials[11]) == failed
    for title in ("History", "alpha", "lr", CONTOUR):
        (points, *_) = [trace for trace in figure(plots[title])["data"] if trace.get("meta") == "trials"]
        assert points["hovertext"] == list(map(str, range(FINISHED))), title


def test_a_choice_of_words_is_an_axis_of_its_own(spec: SearchSpec) -> None:
    space = {"alpha": Range(low=0.1, high=10, grid=(1,)), "way": Choices(choices=("plain", "winding"))}
    trials = make_trials()
    for trial in trials:
        trial.hyperparameters["way"] = ("plain", "winding")[trial.number % 2]
    plots = page_plots(described(spec.model_copy(update={"space": space}), trials))
    assert (
        set(figure(plots["way"])["data"][0]["x"]) == {"plain", "winding"}
        and plots["way"].text == "Tried: plain, winding."
    )
    assert figure(plots[CONTOUR])["layout"]["yaxis"]["type"] == "category"


def test_a_hyperparameter_that_was_never_varied_has_no_contour(spec: SearchSpec) -> None:
    trials = make_trials()
    for trial in trials:
        trial.hyperparameters["lr"] = 0.01
    assert CONTOUR not in page_plots(described(spec, trials))


def test_the_contour_is_of_the_two_that_matter_most_of_three(spec: SearchSpec) -> None:
    space, trials = {"idle": Range(low=0, high=1, grid=(1,)), **spec.space}, make_trials()
    for trial in trials:
        trial.hyperparameters["idle"] = trial.number * 5 % 8 / 8
    plots = page_plots(described(spec.model_copy(update={"space": space}), trials))
    shares = plots["Importances"].text.partition("Shares: ")[2].split("; ")
    first, second, _ = (share.split()[0] for share in shares)
    layout = figure(plots[CONTOUR])["layout"]
    assert {layout[side]["title"]["text"] for side in ("xaxis", "yaxis")} == {first, second}


def test_many_trials_make_no_large_page(spec: SearchSpec) -> None:
    trials = [finished(number) for number in range(300)]
    for trial in trials:
        trial.hyperparameters |= {"alpha": 0.1 + 0.033 * trial.number, "lr": 0.001 + 0.0003 * trial.number}
    plots = page_plots(described(spec, trials))
    assert sum(len(plot.figure) for plot in plots.values()) < 600_000
    assert "of the best 100 finished trials" in plots[CONTOUR].text
    best = sorted(sorted(trials, key=lambda trial: -(trial.value or 0.0))[:100], key=lambda trial: trial.number)
    surface, points = figure(plots[CONTOUR])["data"][:2]
    assert points["hovertext"] == [str(trial.number) for trial in best]
    assert surface["zmin"] == pytest.approx(min(trial.value or 0.0 for trial in best), rel=1e-5)
    assert surface["zmax"] == pytest.approx(max(trial.value or 0.0 for trial in best), rel=1e-5)


def test_the_scale_of_a_contour_starts_above_an_outlier(plots: dict[str, PagePlot], spec: SearchSpec) -> None:
    surface = figure(plots[CONTOUR])["data"][0]
    floor = described(spec, make_trials()).accuracies.floor
    assert surface["zmin"] == pytest.approx(floor, rel=1e-5) and floor > 20
    assert "the points of all finished trials" in plots[CONTOUR].text


def test_plots_stand_in_the_order_of_the_page(plots: dict[str, PagePlot]) -> None:
    first = ["History", "Task by task", "What accuracy costs", "Importances", CONTOUR]
    assert list(plots) == [*first, "Early stopping's trust", "alpha", "lr"]
    assert plots["Importances"].height == 90 + 34 * 2


def test_no_text_of_a_figure_ends_the_script_that_it_stands_in_or_is_markup() -> None:
    plot = draw_plot(Plot("a < b", "c & d", Axis("y"), [Facet(Axis("x"), [Series([1], [1], "</script><b>")])]))
    assert "<" not in plot.figure and figure(plot)["data"][0]["name"] == "&lt;/script&gt;&lt;b&gt;"
    assert (plot.title, plot.text) == ("a < b", "c & d")
    assert "<" not in script_json(["</script>"]) and json.loads(script_json(["</script>"])) == ["</script>"]


def test_ticks_have_room() -> None:
    log, integers = Axis("", log=True), Axis("", integer_ticks=True)
    assert ticks(log, [1e-5, 1e2])["dtick"] == 2 and ticks(log, [0.001, 0.1])["dtick"] == 1
    assert "dtick" not in ticks(log, [0.0031, 0.0045])
    assert ticks(log, [0.002, 0.01])["dtick"] == "D2" and "dtick" not in ticks(Axis(""), [0, 5])
    assert ticks(log, [1.0, 10**1.5])["dtick"] == "D2" and ticks(integers, [10, 0])["dtick"] == 1
    assert ticks(integers, [3, 0])["dtick"] == 1 and ticks(integers, [41, 0])["dtick"] == 5
