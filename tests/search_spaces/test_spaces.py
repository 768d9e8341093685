"""Search-space files: every one fits its method, and whatever is wrong with one is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from search_spaces import METHODS_WITH_SPACE, Range, SpaceError, load_space, parse_assignment
from search_spaces.reading import read_space_file
from tausearch.spec import require_space_fits
from trainables.data import BENCHMARKS
from trainables.methods import METHODS, get_method

PAPER = ("imagenet_r", "cifar100", "cub200", "caltech256", "mit67", "resisc45", "cropdisease")
RUNNING = [name for name in METHODS_WITH_SPACE if name in METHODS]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("benchmark", [*BENCHMARKS, *PAPER])
@pytest.mark.parametrize("method", RUNNING)
def test_every_file_fits_its_method(method: str, benchmark: str) -> None:
    space = load_space(method, benchmark)
    require_space_fits(get_method(method), space)
    for name, dimension in space.space.items():
        assert space.start[name] in dimension
        if isinstance(dimension, Range) and dimension.high >= 100 * dimension.low > 0:
            assert dimension.log, f"{method}: {name} spans {dimension.low} to {dimension.high}"


@pytest.mark.parametrize("method", [m for m in RUNNING if m != "joint"])
def test_the_papers_values_come_first_and_leave_room(method: str) -> None:
    for benchmark in PAPER:
        space = load_space(method, benchmark)
        assert space.paper
        for name in space.space:
            assert space.start[name] == space.paper[name]
            dimension = space.space[name]
            assert isinstance(dimension, Range) and dimension.low < float(space.paper[name]) < dimension.high


def test_values_of_the_paper_that_are_not_searched_are_fixed() -> None:
    assert load_space("ita-lora", "cub200").fixed["epochs_pre"] == 8
    assert load_space("ita-lora", "cifar100").fixed["epochs_pre"] == 3
    assert load_space("finetune", "cifar100").fixed["optimizer"] == "sgd"
    assert load_space("finetune", "digits").fixed["optimizer"] == "adamw"


def test_set_fixes_a_value_and_takes_it_out_of_the_search() -> None:
    space = load_space("ita-lora", "digits", overrides={"lr": 0.001})
    assert "lr" not in space.space and space.fixed["lr"] == 0.001 and "alpha" in space.space


def test_a_users_file_goes_over_the_methods_key_by_key(tmp_path: Path) -> None:
    text = (
        "space:\n  lr: {low: 1e-4, high: 1e-3, log: true, grid: [2e-4]}\n"
        "start:\n  default: {lr: 2e-4}\nfixed:\n  digits: {alpha: 1}\n"
    )
    space = load_space("ita-lora", "glyphs", file=write(tmp_path, text.replace("digits", "glyphs")))
    assert space.space["lr"] == Range(low=1e-4, high=1e-3, log=True, grid=(2e-4,))
    assert space.fixed["alpha"] == 1 and "alpha_cls" in space.space


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("space: {lr: {low: 1", "is not valid YAML at line"),
        ("- 1\n", "must be a mapping with the keys space, paper, start, fixed"),
        ("sapce: {}\n", "sapce: Extra inputs are not permitted"),
        ("space: {lr: {low: 1, high: 0.5, grid: [1]}}\n", "space.lr: .*low must be below high, got low=1 and high=0.5"),
        ("space: {lr: {low: 0, high: 1, log: true, grid: [1]}}\n", "space.lr: .*above 0 on a log scale"),
        ("space: {lr: {low: 0.1, high: 1, grid: [2]}}\n", "space.lr: .*between 0.1 and 1, got 2"),
        ("space: {lr: {low: 0.1, high: 1, grid: []}}\n", "space.lr: .*at least one value"),
        ("space: {lr: {low: x, high: 1, grid: [1]}}\n", "space.lr.low: .*got 'x'"),
        ("space: {lr: {low: 0.1, high: 1, grid: [1], step: 1}}\n", "space.lr.step: Extra inputs"),
        (
            "space: {lr: {low: 0.5, high: 1, grid: [1]}}\n",
            "start value of 'lr' must be a number from 0.5 to 1, got 0.01",
        ),
        ("space: {momentum: {low: 0.5, high: 1, grid: [1]}}\n", "must give 'momentum'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match=f"mine.yaml: .*{message}"):
        load_space("ita-lora", "digits", file=write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot be read"):
        read_space_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpaceError, match="not a text file"):
        read_space_file(tmp_path / "binary.yaml")
    with pytest.raises(SpaceError, match="no search space for method 'itta'; allowed: "):
        load_space("itta", "digits")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr=1e-3", ("lr", 0.001)),
        ("epochs_pre=3", ("epochs_pre", 3)),
        ("formulation=official", ("formulation", "official")),
    ],
)
def test_assignments(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected
    assert type(parse_assignment(text)[1]) is type(expected[1])


@pytest.mark.parametrize("text", ["lr", "=1", "lr="])
def test_assignments_without_key_or_value(text: str) -> None:
    with pytest.raises(SpaceError, match="must be KEY=VALUE"):
        parse_assignment(text)


def test_choices_are_searched_as_they_are(tmp_path: Path) -> None:
    text = "space: {optimizer: {choices: [sgd, adamw]}}\nstart: {default: {optimizer: sgd}}\n"
    space = load_space("joint", "digits", file=write(tmp_path, text))
    assert space.grid_size() == 4 * 2 and "optimizer" not in space.fixed
