"""Files of compositions: replaced whole, but for what they alone know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.models import CompositionResult, read_compositions
from tausearch.models.merge_configs import (
    UNLEARNING_MODES,
    central_three,
    dropping,
    forgetting,
    merge_config_of,
    tasks_called,
)
from tausearch.runs import RunDirectory
from trainables.data import Removal
from trainables.errors import InputError
from trainables.task_names import NamedTask


@pytest.fixture
def result() -> CompositionResult:
    return CompositionResult(
        label="keep-1", runs=("r",), benchmark="digits", weights=(1.0, 0.0), seeds=(0,), accuracies=((60.0, 40.0),)
    )


def test_that_it_is_registered_stays_where_it_is_measured_again(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    result.model_copy(update={"registered": ("timm",)}).save(directory)
    again = result.model_copy(update={"accuracies": ((70.0, 30.0),)})
    again.save(directory)
    assert read_compositions(directory) == [again.model_copy(update={"registered": ("timm",)})]
    anew = result.model_copy(update={"registered": ("vectors",)})
    anew.save(directory)  # a newer registration replaces the earlier one
    assert read_compositions(directory) == [anew]


def test_a_damaged_one_is_replaced(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    result.save(directory).write_bytes(b"\xff[")
    result.save(directory)
    assert read_compositions(directory) == [result]


def test_the_name_of_a_long_one_is_short_and_its_own(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    labels = {f"weights-{'0.125,' * 40}{n}" for n in range(2)}
    for label in labels:
        result.model_copy(update={"label": label}).save(directory)
    assert {each.label for each in read_compositions(directory)} == labels
    assert all(len(path.name) < 100 for path in directory.compositions.iterdir())
    assert all(path.name.startswith("weights-0.125,0.125,") for path in directory.compositions.iterdir())


def test_compositions_are_listed_by_name_without_the_papers_protocol(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    for label in ("uniform", "drop-1", "keep-1", "evaluation"):
        result.model_copy(update={"label": label}).save(directory)
    assert [each.label for each in read_compositions(directory)] == ["drop-1", "keep-1", "uniform"]


def test_where_vectors_add_up_one_that_is_subtracted_leaves_the_others_and_a_negated_one_does_not() -> None:
    found = [dropping(2, [1], mode, adds_up=True).weights for mode in UNLEARNING_MODES]
    assert dict(zip(UNLEARNING_MODES, found, strict=True)) == {
        **{"drop": (0.0, 1.0), "negate": (-0.5, 0.5), "subtract": (0.0, 1.0)},
    }


def test_all_tasks_can_be_negated_and_not_left_out_and_their_order_is_none() -> None:
    options = {"keep": None, "drop": [2, 1], "weights": None}
    merge = merge_config_of(2, coefficient="negate", **options)  # type: ignore[arg-type]
    assert (merge.label, merge.weights) == ("drop-1,2-negate", (-0.5, -0.5))
    with pytest.raises(InputError, match="--drop 2,1: leaves no task of 2"):
        merge_config_of(2, coefficient=None, **options)  # type: ignore[arg-type]


def test_a_run_may_be_called_after_seeds(result: CompositionResult) -> None:
    named = result.model_copy(update={"label": "drop-1-of-my-seeds-a:1+b:2", "task_names": ("x", "y")})
    assert named.title == "drop 1 (x), of-my-seeds-a:1+b:2"
    assert (
        named.model_copy(update={"label": f"{named.label}-seeds-0,2", "seeds": (0, 2)}).title
        == f"{named.title}, seeds 0,2"
    )


def test_a_task_that_lost_a_class_has_a_weight_only_where_it_was_trained_again() -> None:
    removal = Removal(((0, 1), (2, 3), (4, 5)), frozenset({1, 2}))
    found = [forgetting(removal, retrained=retrained) for retrained in (False, True)]
    assert [merge.label for merge in found] == ["forget-class-2,3", "forget-class-2,3-retrained"]
    assert [merge.weights for merge in found] == [(0.0, 0.0, 1.0), (1 / 3, 1 / 3, 1 / 3)]


@pytest.mark.parametrize(
    ("given", "numbers", "said"),
    [
        (["sun"], [1], "--keep: sun is a class of task 1, sun, sea, which is taken whole"),
        (["sun", "sea"], [1], ""),
        (["owl"], [2], ""),
        ([1, "owl"], [1, 2], ""),
        ([2, 2], [2, 2], ""),
    ],
)
def test_a_class_that_stands_for_more_than_itself_is_said(
    given: list[int | str], numbers: list[int], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = (NamedTask(("sun", "sea")), NamedTask(("owl", "cat"), name="owl"))
    assert tasks_called("keep", given, tasks) == numbers
    assert said in capsys.readouterr().err if said else capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("tasks", "chosen"), [(1, (1,)), (2, (1, 2)), (4, (1, 2, 4)), (5, (1, 3, 5)), (10, (1, 5, 10))]
)
def test_the_central_task_is_the_earlier_of_two(tasks: int, chosen: tuple[int, ...]) -> None:
    assert central_three(tasks) == chosen
