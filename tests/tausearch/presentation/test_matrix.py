"""The accuracy matrix as a picture: one cell per task seen, none for tasks to come."""

from __future__ import annotations

import io

import numpy as np
import pytest

from tausearch.presentation.figures.matrix import accuracy_matrix_figure
from trainables.metrics import VALIDATION


def rows(tasks: int) -> list[dict[str, float]]:
    return [
        {"task": float(t), **{f"val/accuracy/task_{k}": 100.0 - 10 * (t - k) for k in range(1, t + 1)}}
        for t in range(1, tasks + 1)
    ]


def test_the_cells_are_the_accuracies() -> None:
    axes = accuracy_matrix_figure(rows(3), VALIDATION, "t").axes[0]
    shown = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_equal(shown, [[100, np.nan, np.nan], [90, 100, np.nan], [80, 90, 100]])
    assert axes.images[0].get_clim() == (0, 100)  # the same colours in every picture
    assert [text.get_text() for text in axes.texts] == ["100", "90", "100", "80", "90", "100"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]


@pytest.mark.parametrize("tasks", [1, 5, 40])
def test_any_number_of_tasks_can_be_drawn(tasks: int) -> None:
    drawn = io.BytesIO()
    figure = accuracy_matrix_figure(rows(tasks), VALIDATION, "a long title " * 5)
    figure.savefig(drawn, format="png")
    assert len(drawn.getvalue()) > 1000
    with_bar = len(figure.axes) == 2
    assert with_bar == (not figure.axes[0].texts)  # percent can be read off numbers or off colours


def test_no_line_of_the_title_breaks_a_name() -> None:
    title = "ita-lora on folder:photos?task=first=apple,blue jay,chestnut&task=second=dune,eggplant: photos-final"
    (text,) = accuracy_matrix_figure(rows(2), VALIDATION, title).texts
    shown = text.get_text()
    assert "".join(shown.split()) == "".join(title.split()) and "\n" in shown
    assert all(word in shown for word in ("ita-lora", "jay,", "chestnut&", "eggplant:", "photos-final"))
    assert all(f"{sign} " not in shown for sign in ",?&")  # the name has no blank there


def test_a_joint_method_has_one_row() -> None:
    (row,) = rows(4)[3:]
    axes = accuracy_matrix_figure([row], VALIDATION, "t", step="benchmark").axes[0]
    assert axes.images[0].get_array().shape == (1, 4)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("val accuracy (%) on benchmark", "after benchmark")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["4"]


@pytest.mark.parametrize(
    ("tasks", "numbered", "named", "every"),
    [(12, True, True, 1), (13, False, False, 1), (20, False, False, 1), (21, False, False, 2)],
)
def test_few_tasks_have_numbers_and_names_and_many_a_tick_now_and_then(
    tasks: int, numbered: bool, named: bool, every: int
) -> None:
    labels = [f"name {k}" for k in range(1, tasks + 1)]
    axes = accuracy_matrix_figure(rows(tasks), VALIDATION, "t", labels).axes[0]
    shown = range(1, tasks + 1, every)
    assert bool(axes.texts) is numbered
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        f"{k}: name {k}" if named else str(k) for k in shown
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(k) for k in shown]


def test_numbers_are_white_on_the_dark_half() -> None:
    row = {"task": 3.0, "val/accuracy/task_1": 60.0, "val/accuracy/task_2": 61.0, "val/accuracy/task_3": 0.0}
    axes = accuracy_matrix_figure([row], VALIDATION, "t").axes[0]
    assert [text.get_color() for text in axes.texts] == ["white", "black", "white"]
