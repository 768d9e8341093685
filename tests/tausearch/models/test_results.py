"""Files of compositions: replaced whole, but for what they alone know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.models import CompositionResult, read_compositions
from tausearch.models.merge_configs import central_three
from tausearch.runs import RunDirectory


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


@pytest.mark.parametrize(
    ("tasks", "chosen"), [(1, (1,)), (2, (1, 2)), (4, (1, 2, 4)), (5, (1, 3, 5)), (10, (1, 5, 10))]
)
def test_the_central_task_is_the_earlier_of_two(tasks: int, chosen: tuple[int, ...]) -> None:
    assert central_three(tasks) == chosen
