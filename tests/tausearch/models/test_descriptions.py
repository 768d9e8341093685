"""Descriptions of models: their cards, their limits, and which of several a folder stands for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tausearch.models import read_about
from tausearch.models.cards import card
from tausearch.models.descriptions import About
from tausearch.models.loading import _with_model
from tausearch.runs import SearchSpec
from trainables.errors import InputError


@pytest.fixture
def about(spec: SearchSpec) -> About:
    """A composition that leaves out task 2 and unlearns task 3, measured on two seeds."""
    return About(
        benchmark="digits",
        protocol=spec.protocol,
        runs=("r",),
        methods=("ita-lora",),
        class_names=("a", "b", "c", "d"),
        tasks=(2, 1, 1),
        weights=(1.0, 0.0, -0.5),
        accuracies={0: (90.0, 60.0, 10.0), 4: (80.0, 70.0, 30.0)},
    )


def test_a_card_names_each_excluded_task_and_the_accuracy_of_each_task(about: About) -> None:
    lines = card(about).splitlines()
    assert [line for line in lines if line.startswith("Task ")] == [
        "Task 2 (c) was left out; its classes can still be answered.",
        "Task 3 (d) was taken out (unlearned); its classes can still be answered.",
    ]
    assert [line.split(" ±")[0] for line in lines if re.match(r"\| (\d|mean)", line)] == [
        "| 1 | a, b | 85.00",
        "| 2 | c | 65.00",
        "| 3 | d | 20.00",
        "| mean | 4 classes | 56.67",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"rule": "ties", "density": 0.5}, None),
        ({"rule": "ties"}, "density must be"),
        ({"density": 0.5}, "density must be"),
        ({"rule": "ties", "density": 1.5}, "density must be"),
        ({"accuracies": {0: (90.0, 60.0, 100.5)}}, "accuracies must be"),
        ({"accuracies": {0: (90.0, 60.0, 10.0), 1: (90.0, 60.0)}}, "accuracies must be"),
        ({"class_names": ("a", "b", "c", "a")}, "class_names must be different"),
    ],
)
def test_the_limits_of_a_description(about: About, tmp_path: Path, changes: dict[str, Any], words: str | None) -> None:
    changed = about.model_copy(update=changes)
    changed.save(tmp_path)
    if words is None:
        assert read_about(tmp_path) == changed
    else:
        with pytest.raises(InputError, match=words):
            read_about(tmp_path)


def test_an_export_of_several_forms_and_seeds(about: About, tmp_path: Path) -> None:
    for name in ("adapter/seed_1", "timm/seed_1", "timm/seed_2", "vectors"):
        (tmp_path / name).mkdir(parents=True)
        about.save(tmp_path / name)
    assert _with_model(tmp_path, 2) == tmp_path / "vectors"  # vectors can be composed anew
    assert _with_model(tmp_path / "timm", None) == tmp_path / "timm" / "seed_1"
    assert _with_model(tmp_path / "timm", 2) == tmp_path / "timm" / "seed_2"
    (tmp_path / "vectors" / "model.json").unlink()
    (tmp_path / "vectors").rmdir()
    assert _with_model(tmp_path, None) == tmp_path / "timm" / "seed_1"
