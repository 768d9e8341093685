"""Figures that go into a paper: the spread of a final run, axes that no outlier spoils, marks that are explained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tausearch.presentation import Line, Panel, draw_final, draw_panels, mean_rows, save
from tausearch.presentation.figures import style
from tausearch.presentation.figures.final import _over_tasks
from tausearch.presentation.figures.style import run_caption
from tausearch.runs import FinalSpec, SearchSpec, correlation_interval
from tests.support.runs.trials import final_spec, make_trial
from trainables.task_names import NamedTask


@pytest.fixture
def final(spec: SearchSpec) -> FinalSpec:
    return final_spec(spec, benchmark="folder:/data/my birds?tasks=3", name="birds-1")


def rows_of(*averages: float) -> list[dict[str, float]]:
    """The rows of a seed: its average accuracy after each task, which is that on every task seen."""
    return [
        {"task": t, "test/average_accuracy": value, **{f"test/accuracy/task_{k}": value for k in range(1, t + 1)}}
        for t, value in enumerate(averages, start=1)
    ]


def test_a_final_run_leaves_accuracy_over_tasks_and_its_matrix(
    final: FinalSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure) or save(figure, path))
    trials = [make_trial(0), make_trial(1), make_trial(2, tasks=1, status="failed")]
    for trial, rows in zip(trials, (rows_of(90, 80, 70), rows_of(94, 84, 60), rows_of(1)), strict=True):
        trial.rows[:] = rows
    for trial in trials[:2]:
        trial.status = "complete"
    files = draw_final(final, trials, tmp_path)
    assert [file.name for file in files] == ["accuracy.png", "accuracy_matrix.png"]
    assert drawn[0].axes[0].get_title().endswith(" (test split), 2 seeds")  # of those that finished
    orders = final.protocol.model_copy(update={"class_orders": (0, 1)})
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    draw_final(final.model_copy(update={"protocol": orders}), trials, tmp_path)
    assert drawn[2].axes[0].get_title().endswith(" (test split), 2 trials")  # a seed in each of two orders
    for file in files:
        assert Image.open(file).width > 300 and file.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert draw_final(final, trials[2:], tmp_path / "none") == [] and not (tmp_path / "none").exists()


def test_figures_that_cannot_be_written_leave_none_but_those_of_others(
    final: FinalSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, trial, write = tmp_path / "run" / "figures", make_trial(0), style.write_picture
    trial.status, trial.rows = "complete", rows_of(90, 80, 70)

    def full(figure: Figure, path: Path, **metadata: None) -> None:
        if path.name == "accuracy_matrix.pdf":
            raise OSError("no space")
        write(figure, path, **metadata)

    for others in ([], ["risk.png"]):
        draw_final(final, [trial], folder)  # of fewer trials
        for name in others:
            (folder / name).touch()  # by the command `figures`
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(style, "write_picture", full)
            draw_final(final, [trial], folder)
        assert folder.exists() == bool(others) and [each.name for each in folder.glob("*")] == others


def test_the_tasks_have_names_where_there_is_room(final: FinalSpec) -> None:
    tasks = tuple(NamedTask((f"{n}", "b"), name=None if n else "birds$") for n in range(13))
    trial = make_trial(0)
    for count, labels in ((12, ["1: birds\\$", "2: 1, b"]), (13, None), (0, None)):
        trial.rows = rows_of(*range(50, 50 + (count or 3)))
        named = final.model_copy(update={"tasks": tasks[:count], "steps": count or 3})
        (axes,) = _over_tasks(named, [trial], "").axes
        shown = [text.get_text() for text in axes.get_xticklabels()]
        assert shown[:2] == labels if labels else not any("b" in text for text in shown)
        assert {text.get_rotation() for text in axes.get_xticklabels()} == {30.0 if labels else 0.0}


def test_the_spread_over_tasks_is_that_of_the_seeds(final: FinalSpec) -> None:
    first, second = make_trial(0), make_trial(1)
    first.rows, second.rows = rows_of(90, 80), rows_of(94, 70)
    figure = _over_tasks(final, [first, second], run_caption(final))
    (axes,) = figure.axes
    mean = axes.lines[-1]
    assert np.asarray(mean.get_ydata()).tolist() == [92, 75] and np.asarray(mean.get_xdata()).tolist() == [1, 2]
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(92 + 8**0.5) and band[:, 1].min() == pytest.approx(75 - 50**0.5)
    assert axes.get_title() == "ita-lora on folder:my birds?tasks=3, birds-1 (test split)"
    (alone,) = _over_tasks(final, [first], "").axes
    assert alone.get_legend() is None and not alone.collections
    first.rows, second.rows = rows_of(100, 1), rows_of(90, 0)
    (ends,) = _over_tasks(final, [first, second], "").axes
    band = ends.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == 100 and band.min() == 0  # no accuracy lies beyond
    assert [text.get_text() for text in ends.get_legend().get_texts()] == [  # type: ignore[union-attr]
        *("± standard deviation over seeds", "each seed", "mean over seeds")
    ]
    orders = final.model_copy(update={"protocol": final.protocol.model_copy(update={"class_orders": (0, 1)})})
    (ordered,) = _over_tasks(orders, [first, second], "").axes  # which may have one seed
    assert ordered.get_legend().get_texts()[0].get_text() == "± standard deviation over trials"  # type: ignore[union-attr]
    first.rows, second.rows = [{"task": 1.0, "a": 2.0}], [{"task": 1.0, "a": 4.0, "b": 1.0}]
    assert mean_rows([first, second]) == mean_rows([second, first]) == [{"task": 1.0, "a": 3.0}]
    assert [set(row) for row in mean_rows([second, first, second])] == [{"task", "a"}]


def test_intervals_of_few_trials_are_wide() -> None:
    """By hand for r = 0.5 of 12 trials: z = 0.5493 ± 1.96 sqrt(1.06 / 9) = 0.6727."""
    low, high = correlation_interval(0.5, 12)
    assert (low, high) == (pytest.approx(np.tanh(0.5493 - 0.6727), abs=1e-3), pytest.approx(np.tanh(1.2220), abs=1e-3))
    (few, _), (many, _) = correlation_interval(0.5, 5), correlation_interval(0.5, 200)
    assert few < low < many < 0.5
    assert correlation_interval(1.0, 5)[1] == 1.0


def test_a_legend_explains_what_is_drawn_and_nothing_else() -> None:
    ours, theirs = Line("a", (70.0, 1.0), None), Line("b", None, (80.0, 1.0))
    for lines, words in (((ours,), ["ours"]), ((theirs,), ["the paper"]), ((ours, theirs), ["ours", "the paper"])):
        (legend,) = draw_panels([Panel("x", lines, group=0)], "").legends
        assert [text.get_text().split(":")[0] for text in legend.get_texts()] == words
    (legend,) = draw_panels([Panel("x", (ours,), group=0)], over="seeds and class orders").legends
    assert legend.get_texts()[0].get_text().endswith("deviation over seeds and class orders")


def test_a_long_label_takes_lines_and_no_width_from_its_panel() -> None:
    lines = [(Line(label, (70.0, 1.0), None), Line("b", (80.0, 1.0), None)) for label in ("a", "letters " * 20)]
    short, long = (draw_panels([Panel("x", each, group=0)]) for each in lines)
    widths = []
    for figure in (short, long):
        figure.draw_without_rendering()
        widths.append(figure.axes[0].get_position().width)
    assert long.get_figheight() > short.get_figheight() and widths[1] > widths[0] / 2
