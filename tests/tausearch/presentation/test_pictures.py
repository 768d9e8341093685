"""What pictures of compositions, panels, predictions and searches choose to draw, and in which order."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tausearch.presentation import (
    Axis,
    Facet,
    Line,
    Panel,
    Plot,
    SearchPlots,
    Series,
    draw_panels,
    draw_predictions,
    save,
)
from tausearch.presentation.figures import composition, fonts, predictions, search, style
from tausearch.presentation.figures.confusion import confusion_figure
from tausearch.presentation.figures.search import draw_figure, draw_search
from tausearch.runs import SearchSpec
from tests.support.runs.trials import make_trial
from tests.tausearch.several.made import several_spec


def texts(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


class TestComposition:
    def test_risks_are_means_over_seeds_with_their_deviation(self) -> None:
        known = [{"run": "b", "composed": 0.0, "individuals": 2.0, "pretrained": None}]
        known += [{"run": "b", "composed": 4.0, "individuals": 4.0, "pretrained": 9.0}]
        rows = [*known, {"run": "a", "composed": 5.0, "individuals": None, "pretrained": None}]
        rows += [{"run": "c", "composed": None, "individuals": 6.0, "pretrained": None}]
        (axes,) = composition.risk_figure(rows).axes
        drawn = {str(each.get_label()): each for each in axes.containers}
        points = {name: list(zip(*each[0].get_data(), strict=True)) for name, each in drawn.items()}  # type: ignore[index]
        assert points["composed model"] == [(2.0, -0.22), (5.0, 0.78)]
        assert points["mean of individual models"] == [(3.0, 0.0), (6.0, 2.0)]  # where its run is, though one has none
        assert points["theta_0 with h0"] == [(9.0, 0.22)]
        (bar,) = drawn["composed model"][2]  # type: ignore[index]
        assert [segment[:, 0].tolist() for segment in bar.get_segments()] == [
            pytest.approx([2 - 8**0.5, 2 + 8**0.5]),
            [5.0, 5.0],
        ]
        assert texts(axes.get_yticklabels()) == ["b", "a", "c"] and axes.yaxis_inverted()

    @pytest.mark.parametrize("largest", [0.6116, 9.0])
    def test_risks_that_lie_close_together_have_the_whole_axis_and_room_for_their_marks(self, largest: float) -> None:
        rows = [{"run": "a", "composed": 0.582, "individuals": 0.587, "pretrained": largest}]
        (axes,) = composition.risk_figure(rows).axes
        low, high = axes.get_xlim()
        assert min(0.582 - low, high - largest) > 0.03 * (high - low) and largest - 0.582 > 0.8 * (high - low)

    def test_times_of_preconsolidation_and_training_are_stacked_means(self) -> None:
        rows = [
            {"run": run, "benchmark": "x", "stage": stage, "seconds": seconds, "cache": None}
            for run, stage, seconds in (
                *(("b", "preconsolidation", 1.0), ("b", "preconsolidation", 3.0), ("b", "training", 5.0)),
                *(("a", "training", 7.0), ("a", "training", 8.0), ("a", "evaluation", 99.0)),
            )
        ]
        (axes,) = composition.time_figure(rows).axes
        bars = [[(bar.get_x(), bar.get_width()) for bar in container] for container in axes.containers]  # type: ignore[attr-defined]
        assert bars == [[(0.0, 2.0), (0.0, 0.0)], [(2.0, 5.0), (0.0, 7.5)]]
        assert [str(each.get_label()) for each in axes.containers] == ["preconsolidation", "training"]
        assert texts(axes.get_yticklabels()) == ["b", "a"] and axes.yaxis_inverted()

    def test_times_are_of_each_benchmark_and_without_what_the_cache_had(self) -> None:
        rows = [
            {"run": "b", "benchmark": benchmark, "stage": "preconsolidation", "seconds": seconds, "cache": cache}
            for benchmark, seconds, cache in (("x", 6.0, 0.0), ("x", 0.1, 1.0), ("y", 0.2, 1.0))
        ]
        (axes,) = composition.time_figure(rows).axes
        assert [bar.get_width() for bar in axes.containers[0]] == [6.0, 0.0]  # type: ignore[attr-defined]
        assert texts(axes.get_yticklabels()) == ["b on x", "b on y\npreconsolidation from the cache"]

    def test_the_composed_vectors_are_a_dashed_line_beside_the_points_of_tasks(self) -> None:
        cosines = {(0, 2): 0.5, (0, 1): 0.25, (0, 0): 0.75, (1, 2): 0.7, (1, 1): 0.35, (1, 0): 0.85}
        rows = [{"run": "a", "other": "b", "seed": s, "task": t, "cosine": c} for (s, t), c in cosines.items()]
        rows += [{**row, "other": "c", "cosine": -row["cosine"]} for row in rows]
        (axes,) = composition.alignment_figure(rows).axes
        points, composed, others, opposed = axes.lines
        assert list(others.get_ydata()) == pytest.approx([-0.3, -0.6]) and opposed.get_ydata()[0] == -0.8  # type: ignore[index]
        assert list(zip(*points.get_data(), strict=True)) == [(1, pytest.approx(0.3)), (2, pytest.approx(0.6))]
        assert composed.get_linestyle() == "--" and list(composed.get_ydata()) == pytest.approx([0.8, 0.8])
        assert texts(axes.figure.legends[0].get_texts()) == ["a and b", "a and c"]

    def test_a_dotted_line_marks_the_size_of_the_vectors_as_each_run_learned_them(self) -> None:
        rows = [
            {"run": run, "scale": scale, "size": scale * size, "composed": 1.0, "second_order": 0.8, "gap": -0.2}
            for run, size in (("b", 2.0), ("a", 3.0))
            for scale in (0.5, 1, 2)
        ]
        risks, gaps = composition.theorem_figure(rows).axes
        assert [list(line.get_xdata()) for line in risks.lines[::2]] == [[1.0, 2.0, 4.0], [1.5, 3.0, 6.0]]
        assert [line.get_xdata()[0] for line in gaps.lines if line.get_linestyle() == ":"] == [2.0, 3.0]  # type: ignore[index]
        assert texts(risks.get_legend().get_texts()) == ["b", "a"]  # type: ignore[union-attr]
        assert [list(line.get_ydata()) for line in risks.lines] == [[1.0] * 3, [0.8] * 3] * 2
        assert list(gaps.lines[0].get_ydata()) == [0.2] * 3  # a gap has no sign on a logarithmic axis
        assert list(gaps.lines[1].get_ydata()) == [0.2] * 3 and gaps.lines[1].get_markerfacecolor() == "white"
        above = composition.theorem_figure([{**row, "gap": 0.2} for row in rows]).axes[1]
        assert list(above.lines[1].get_ydata()) == []

    def test_cosines_are_averaged_over_seeds_and_named_by_tasks(self) -> None:
        pairs = [(s, t) for s in (1, 2) for t in (1, 2)]
        rows = [
            {"seed": seed, "task": s, "other": t, "cosine": 1.0 if s == t else 0.2 + 0.2 * seed - 0.1 * (s > t)}
            for seed in (0, 1)
            for s, t in pairs
        ]
        figure = composition.cosine_figure(rows, ["birds", "owls"])
        axes = figure.axes[0]
        assert min(figure.get_size_inches()) > 3, "two tasks need room for the label of the colour bar"
        drawn = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
        assert (
            drawn[1, 0] == ("0.30", "black") and drawn[0, 1] == ("0.20", "black") and drawn[0, 0] == ("1.00", "white")
        )
        assert [text.split(": ")[-1] for text in texts(axes.get_xticklabels())] == ["birds", "owls"]
        opposed = [{**row, "cosine": -row["cosine"]} for row in rows]
        inks = {text.get_position(): text.get_color() for text in composition.cosine_figure(opposed).axes[0].texts}
        assert (inks[0, 0], inks[1, 0]) == ("white", "black")  # both ends of the scale are dark

    @pytest.mark.parametrize(
        ("least", "most", "scale"),
        [(1.0, 1.0, "linear"), (50.0, 50.0, "linear"), (0.01, 5.0, "linear"), (1.0, 5000.0, "symlog")],
    )
    def test_risks_far_above_others_do_not_flatten_them(self, least: float, most: float, scale: str) -> None:
        rows = [
            {"run": "a", "scale": at, "size": at, "composed": risk, "second_order": risk, "gap": 0.2}
            for at, risk in ((1, least), (2, most))
        ]
        assert composition.theorem_figure(rows).axes[0].get_yscale() == scale


class TestPanels:
    def drawn(self, *lines: Line) -> Axes:
        return draw_panels([Panel("x", lines, group=0)]).axes[0]

    def test_values_that_lie_close_leave_room_and_no_accuracy_lies_beyond(self) -> None:
        assert self.drawn(Line("a", (50.0, 0.1), None)).get_xlim() == (47, 53)
        assert self.drawn(Line("a", (50.0, 1.5), None)).get_xlim() == (47, 53)
        assert self.drawn(Line("a", (99.5, 0.2), (99.0, 0.1))).get_xlim()[1] == 101
        assert self.drawn(Line("a", (1.0, 0.5), (40.0, 0.0))).get_xlim()[0] == -1
        low, high = self.drawn(Line("a", (20.0, 0.0), (80.0, 0.0))).get_xlim()
        assert 15 < low < 20 and 80 < high < 85

    def test_ours_lies_below_the_papers_and_the_first_line_on_top(self) -> None:
        axes = self.drawn(Line("a", (70.0, 1.0), (80.0, 1.0)), Line("b", (60.0, 1.0), None))
        heights = {line.get_xdata()[0]: line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 1}  # type: ignore[index]
        assert heights[70.0] > heights[80.0] and heights[60.0] == 1.0  # the axis points down
        spreads = [segment[:, 0].tolist() for bars in axes.collections for segment in bars.get_segments()]  # type: ignore[attr-defined]
        assert spreads == [[79.0, 81.0], [69.0, 71.0], [59.0, 61.0]]
        assert axes.get_ylim()[0] > axes.get_ylim()[1] and texts(axes.get_yticklabels()) == ["a", "b"]

    def test_names_are_no_formulas(self) -> None:
        figure = draw_panels([Panel("a$b_{$c" * 12, (Line("d$e_{$", (50.0, 1.0), None),), group=0)])
        figure.draw_without_rendering()
        (axes,) = figure.axes
        assert texts(axes.get_yticklabels()) == [r"d\$e_{\$"] and axes.get_title().count("\n") == 1

    def test_groups_stand_together_three_abreast(self) -> None:
        line = (Line("a", (70.0, 1.0), None),)
        panels = [Panel(f"{group}{n}", line, group) for n, group in enumerate((1, 0, 0, 1, 0, 0))]
        figure = draw_panels(panels, "left out: 1 run")
        places = {}
        for axes in figure.axes:
            spec = axes.get_subplotspec()
            assert spec is not None
            places[axes.get_title()] = (spec.rowspan.start, spec.colspan.start)
        assert places == {"01": (0, 0), "02": (0, 1), "04": (0, 2), "05": (1, 0), "10": (2, 0), "13": (2, 1)}
        assert figure.get_supxlabel() == "left out: 1 run"

    def test_methods_are_as_far_apart_in_all_panels_of_a_row(self) -> None:
        lines = [Line(name, (70.0, 1.0), None) for name in "abc"]
        figure = draw_panels([Panel("few", tuple(lines[:1]), group=0), Panel("many", tuple(lines), group=0)])
        assert len({axes.get_ylim() for axes in figure.axes}) == 1


@pytest.mark.parametrize(
    ("count", "surest", "least"),
    [
        (1, [0], []),
        (2, [0], [1]),
        (3, [0, 1], [2]),
        (12, range(6), range(11, 5, -1)),
        (20, range(6), range(19, 13, -1)),
    ],
)
def test_the_surest_and_the_least_sure_are_drawn_and_none_twice(
    count: int, surest: Any, least: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(predictions, "_draw", lambda _, name, *rest: drawn.append(name))
    image = partial(torch.zeros, (1, 8, 8), dtype=torch.uint8)
    shown = [(str(n), "a", 1 - n / 100, image, None) for n in range(count)]
    draw_predictions(shown[::-1], tmp_path / "sure.png")
    assert drawn == [*map(str, surest), *map(str, least)]


def test_a_long_name_under_an_image_is_cut() -> None:
    assert predictions._short("a" * 20) == "a" * 20 and predictions._short("a" * 21) == "a" * 19 + "…"
    assert predictions._ending(Path("photos/dune/10.jpg")) == "dune/10.jpg"  # every class may have a 10.jpg
    assert predictions._ending(Path("10.jpg")) == "10.jpg"
    assert predictions._ending(Path("a" * 30) / "10.jpg") == "…" + "a" * 16 + "/10.jpg"


def test_a_confusion_matrix_names_few_classes_and_counts_in_white_on_dark() -> None:
    axes = confusion_figure(["a", "b"], [[3, 7], [5, 5]], "t").axes[0]
    assert {text.get_text(): text.get_color() for text in axes.texts} == {"3": "black", "7": "white", "5": "black"}
    for classes, shown, numbers in ((20, 20, True), (21, 21, False), (120, 120, False), (121, 61, False)):
        axes = confusion_figure([str(n) for n in range(classes)], [[1] * classes] * classes, "t").axes[0]
        assert len(axes.get_xticks()) == shown and bool(axes.texts) is numbers
    assert texts(axes.get_yticklabels())[:3] == ["0", "2", "4"]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_pdf_lies_beside_a_png_alone(tmp_path: Path, ending: str) -> None:
    assert save(Figure(), tmp_path / f"x.{ending}") == tmp_path / f"x.{ending}"
    assert (tmp_path / "x.pdf").exists() is (ending == "png")
    if ending == "png":  # the same figure is the same file, whenever it is drawn
        assert b"CreationDate" not in (tmp_path / "x.pdf").read_bytes()


def test_a_picture_that_is_cut_short_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_short(figure: Figure, path: Path, **_: object) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Figure, "savefig", cut_short)
    picture = tmp_path / "x.pdf"
    picture.write_text("whole")
    with pytest.raises(OSError, match=r"no space left: '.*/x\.pdf'"):
        save(Figure(), picture)
    assert picture.read_text() == "whole" and list(tmp_path.iterdir()) == [picture]


def test_fonts_for_screens_are_looked_at_first_and_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["/f/b/Z.ttf", "/f/a/Serif.ttf", "/f/z/NotoX.ttf", "/f/y/OpenSans.ttf"]
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: found)
    monkeypatch.setattr(fonts, "_MOST_FONTS", 3)
    fonts._font_files.cache_clear()
    assert fonts._font_files() == ("/f/y/OpenSans.ttf", "/f/z/NotoX.ttf", "/f/a/Serif.ttf")
    fonts._font_files.cache_clear()


class TestSearch:
    def test_facets_stand_four_in_a_row_with_the_height_named_once_a_row(self) -> None:
        facets = [Facet(Axis(f"x{n}"), [Series([1, 2], [3, 4], "trial")]) for n in range(5)]
        axes = draw_figure(Plot("t", "c", Axis("accuracy"), facets), "s").axes
        assert [each.get_ylabel() for each in axes if each.get_visible()] == ["accuracy", "", "", "", "accuracy"]
        assert [each.get_xlabel() for each in axes if each.get_visible()] == [f"x{n}" for n in range(5)]
        assert len(axes) == 8 and axes[0].get_subplotspec().get_gridspec().ncols == 4  # type: ignore[union-attr]

    def test_an_interval_reaches_from_its_lower_to_its_upper_end(self) -> None:
        bars = Series([0.3], ["lr"], kind="bars", low=[0.1], high=[0.8])
        (axes,) = draw_figure(Plot("t", "c", Axis("", words=("lr",)), [Facet(Axis("share"), [bars])]), "s").axes
        ends = [segment[:, 0].tolist() for each in axes.collections for segment in each.get_segments()]  # type: ignore[attr-defined]
        assert ends == [pytest.approx([0.1, 0.8])] and texts(axes.texts) == ["0.30"]

    @pytest.mark.parametrize(("letters", "columns"), [(5, 4), (40, 1), (100, 1)])
    def test_the_legend_has_as_many_names_in_a_line_as_fit(self, letters: int, columns: int) -> None:
        series = [Series([1], [1], f"{n}$_{{$".ljust(letters, "x"), kind="line", colour="red") for n in range(4)]
        figure = draw_figure(Plot("t", "c", Axis("y"), [Facet(Axis("x"), series)]), "s")
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert legend._ncols == columns and box.x0 >= 0 and box.x1 <= figure.bbox.x1

    def test_choices_that_do_not_fit_along_an_axis_stand_slanted(self) -> None:
        words = ("diagonal", "kronecker", "a_module:Own", "another_module_of_mine:OtherCurvature")
        facets = [Facet(Axis("x", words=some), [Series([some[0]], [1.0], "a")]) for some in (words, words[:2])]
        slanted, flat = draw_figure(Plot("t", "c", Axis("y"), facets), "s").axes
        assert [[each.get_rotation() for each in axes.get_xticklabels()][0] for axes in (slanted, flat)] == [30, 0]
        assert texts(slanted.get_xticklabels())[3].endswith("e:OtherCurvature")
        assert max(map(len, texts(slanted.get_xticklabels()))) <= 26

    def test_axes_are_as_they_are_described(self) -> None:
        series = [Series([0.01, 10.0], [0, 1], "a"), Series([0.01, 10.0], [0, 1], kind="steps")]
        plot = Plot("t", "c", Axis("y", (-1, 2), zero=True), [Facet(Axis("x", log=True), series)])
        (axes,) = draw_figure(plot, "s").axes
        assert axes.get_xscale() == "log" and axes.get_yscale() == "linear" and axes.get_ylim() == (-1, 2)
        assert [list(line.get_ydata()) for line in axes.lines][-1] == [0, 0]
        assert axes.lines[0].get_drawstyle() == "steps-post"  # a step goes up at the trial that brought it
        assert texts(axes.figure.legends[0].get_texts()) == ["a"]

    def test_figures_that_its_trials_suffice_for_are_saved(
        self, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        titles = []
        monkeypatch.setattr(style, "save", lambda figure, path: titles.append(figure.get_suptitle()) or path)
        files = draw_search(spec, [make_trial(0, value=70.0)], {}, {}, tmp_path / "new")
        assert [file.name for file in files] == ["history.png", "slices.png"] and (tmp_path / "new").is_dir()
        assert titles[0].startswith("History: ita-lora on digits, digits-ita-lora-1 (val split)")
        assert titles[1].startswith("Slices: ")
        marked: list[int | None] = []
        monkeypatch.setattr(search.SearchPlots, "history", lambda plots: marked.append(plots.chosen))
        draw_search(spec, [make_trial(0, value=70.0)], {}, {}, tmp_path / "new", 0)
        assert marked == [0]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_title_of_an_axis_is_no_longer_than_the_axis(count: int, spec: SearchSpec) -> None:
    space = {f"h{n}": spec.space["lr"] for n in range(count)}
    several = several_spec(across="mean").model_copy(update={"space": space})
    trials = [make_trial(n, value=60.0 + n, hyperparameters=dict.fromkeys(space, 0.01)) for n in range(3)]
    plot = SearchPlots(several, trials).slices()
    assert plot is not None
    figure = draw_figure(plot, "a search")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    titled = [axes for axes in figure.axes if axes.get_ylabel().startswith("score over")]
    assert len(titled) == -(-count // 4)
    for axes in titled:
        title = axes.yaxis.label.get_window_extent(canvas.get_renderer())
        assert title.height < axes.get_window_extent().height
