"""Descriptions of models: their cards, their limits, and which of several a folder stands for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.models import read_about
from tausearch.models.cards import card
from tausearch.models.descriptions import About
from tausearch.models.loading import _with_model
from tausearch.runs import SearchSpec
from trainables.data import TransformSpec
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
        transform=TransformSpec(channels=1, size=32, mean=(0.5,), std=(0.5,), resize=37),
        weights=(1.0, 0.0, -0.5),
        accuracies={0: (90.0, 60.0, 10.0), 4: (80.0, 70.0, 30.0)},
    )


def test_a_card_names_each_excluded_task_and_the_accuracy_of_each_task(about: About) -> None:
    lines = card(about).splitlines()
    assert [line for line in lines if line.startswith("Task ")] == [
        "Task 2 (c) was left out; its classes can still be answered:"
        " 65.00 % of its test images are, chance is 25.00 %.",
        "Task 3 (d) was taken out (unlearned); its classes can still be answered.",
    ]
    assert [line.split(" ±")[0] for line in lines if re.match(r"\| (\d|mean)", line)] == [
        "| 1 | a, b | 85.00",
        "| 2 | c | 65.00",
        "| 3 | d | 20.00",
        "| mean | 4 classes | 56.67",
    ]


@pytest.mark.parametrize(("method", "said"), [("tak", True), ("tmc", True), ("ita-lora", False), ("of:Nobody", False)])
def test_a_card_of_vectors_says_where_they_are_no_weights(about: About, method: str, said: bool) -> None:
    changed = about.model_copy(update={"methods": (method,), "form": "vectors"})
    assert (f"Vectors of {method} move" in card(changed)) == said
    assert "linearised" not in card(changed.model_copy(update={"form": "timm"}))


def test_a_card_says_what_has_not_been_measured_and_the_rule(about: About) -> None:
    changes = {
        "accuracies": {},
        "task_names": ("birds", None, "c|d"),
        "rule": "ties",
        "rule_parameters": {"density": 0.25},
    }
    lines = card(about.model_copy(update=changes)).splitlines()
    assert "Weights of the task vectors: 1, 0, -0.5; rule ties, density 0.25." in lines
    assert "Task 3: c\\|d (d) was taken out (unlearned); its classes can still be answered." in lines
    assert [line for line in lines if line.startswith("| ")][1:] == [
        "| 1: birds | a, b | not measured |",
        "| 2 | c | not measured |",
        "| 3: c\\|d | d | not measured |",
        "| mean | 4 classes | not measured |",
    ]


@pytest.mark.parametrize(
    ("form", "library", "imported"),
    [
        ("adapter", "peft", ["tausearch", "peft", "safetensors.torch"]),
        ("timm", "timm", ["tausearch", "timm"]),
        ("models", "timm", ["safetensors.torch"]),
        ("vectors", "tausearch", ["tausearch"]),
    ],
)
def test_a_card_opens_each_form_with_its_library(about: About, form: str, library: str, imported: list[str]) -> None:
    lines = card(about.model_copy(update={"form": form})).splitlines()
    assert f"library_name: {library}" in lines
    assert [line.removeprefix("import ") for line in lines if line.startswith("import ")] == imported


@pytest.mark.parametrize(
    ("weights", "folder"), [((0.5, 0.0, 0.5), "task_1"), ((0.0, 0.5, 0.5), "task_2"), ((0.0, 0.0, 0.0), "theta_0")]
)
def test_the_code_of_a_card_opens_the_first_model_that_there_is(
    about: About, weights: tuple[float, ...], folder: str
) -> None:
    text = card(about.model_copy(update={"form": "models", "weights": weights}))
    assert re.findall(r'"FOLDER/(.*)/model.safetensors"', text) == [folder]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keep_ratio": True}, "grey, 32 x 32 pixels (resized to 37 pixels (shorter side), "),
        ({"keep_ratio": False}, "grey, 32 x 32 pixels (resized to 37 pixels (both sides), "),
        ({"resize": None, "channels": 3, "mean": (0.5,) * 3, "std": (0.5,) * 3}, "RGB, 32 x 32 pixels (as is),"),
    ],
)
def test_a_card_says_what_the_model_reads(about: About, changes: dict[str, Any], said: str) -> None:
    assert about.transform is not None
    text = card(about.model_copy(update={"transform": replace(about.transform, **changes)}))
    assert f"What it reads: {said}" in text


@pytest.mark.parametrize(
    ("backbone", "weights", "built"),
    [
        ("glyph_vit", None, 'Backbone("glyph_vit").load()'),
        ("glyph_vit", "w.safetensors", 'Backbone("glyph_vit", Path("WEIGHTS")).load()  # the weights named above'),
        ("vit_x", None, 'timm.create_model("vit_x", pretrained=True, num_classes=0).eval()'),
        ("vit_x", "w.safetensors", 'Backbone("vit_x", Path("WEIGHTS")).load()  # the weights named above'),
        ("vit_x?img_size=64", None, 'timm.create_model("vit_x", pretrained=True, num_classes=0, img_size=64).eval()'),
    ],
)
def test_the_card_of_an_adapter_builds_its_backbone(
    about: About, backbone: str, weights: str | None, built: str
) -> None:
    protocol = about.protocol.model_copy(update={"backbone": backbone, "backbone_weights": weights})
    text = card(about.model_copy(update={"form": "adapter", "protocol": protocol}))
    assert f"\nbackbone = {built}\n" in text
    assert "backbone =" not in card(about.model_copy(update={"form": "timm", "protocol": protocol}))


@pytest.mark.parametrize(
    ("form", "channels", "opened"),
    [
        ("timm", 1, '.convert("L")'),
        ("timm", 3, '.convert("RGB")'),
        ("adapter", 1, 'mode="GRAY"'),
        ("adapter", 3, 'mode="RGB"'),
    ],
)
def test_the_code_of_a_card_opens_an_image_in_the_colours_that_the_model_reads(
    about: About, form: str, channels: int, opened: str
) -> None:
    assert about.transform is not None
    values = (0.5,) * channels
    reads = replace(about.transform, channels=channels, mean=values, std=values)
    assert opened in card(about.model_copy(update={"form": form, "transform": reads}))


def test_a_card_says_over_how_many_seeds_its_accuracies_are(about: About) -> None:
    assert "Percent, over the logits of all classes, 2 seeds (± their deviation)." in card(about)
    one = about.model_copy(update={"accuracies": {0: (90.0, 60.0, 10.0)}})
    assert "of all classes, 1 seed (" in card(one)


def test_an_export_by_the_rule_of_a_package_is_read(
    about: About, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.models.descriptions.installed", lambda kind: ("median",) if kind == "rule" else ())
    about.model_copy(update={"rule": "median"}).save(tmp_path)
    assert read_about(tmp_path).rule == "median"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"rule": "ties", "rule_parameters": {"density": 0.5}}, None),
        ({"rule": "zzz"}, "unknown rule 'zzz'"),
        ({"rule": "ties"}, "rule_parameters of ties must be density, not so 'density'"),
        ({"rule": "not.here:Rule", "rule_parameters": {"x": 2.0}}, None),
        ({"rule": "ties", "rule_parameters": {"density": 0.0}}, "density must be above 0"),
        ({"rule": "ties", "rule_parameters": {"density": 1.5}}, "density must be above 0 and at most 1"),
        ({"rule_parameters": {"density": 0.5}}, "rule_parameters of linear must be none"),
        ({"class_names": ["a", "b", "c"]}, "names 3 classes, but its tasks have 4"),
        ({"class_names": ["a", "b", "c", "a"]}, "class_names must be different"),
        ({"class_names": ["a", "b", "c", ""]}, "class_names: must not be empty"),
        ({"tasks": [4, 0, 0]}, "its tasks have"),
        ({"tasks": []}, "its tasks have 0"),
        ({"weights": [0.5, 1]}, "weights must be one for each of 3 tasks, each a number from -1000000"),
        ({"weights": [1e308, 0.0, 0.0]}, "weights must be one for each"),
        ({"weights": [float("nan"), 0.0, 0.0]}, "weights must be one for each"),
        ({"accuracies": {"0": [90.0, 60.0]}}, "accuracies must be one from 0 to 100"),
        ({"accuracies": {"0": [90.0, 60.0, 100.5]}}, "accuracies must be one from 0 to 100"),
        ({"accuracies": {"0": [90.0, 60.0, -0.5]}}, "accuracies must be one from 0 to 100"),
        ({"task_names": ["x"]}, "names 1 tasks of 3"),
        ({"task_names": ["x", None, "a\nb"]}, "task_names: "),
        ({"more": 1}, "unknown key 'more'"),
        ({"protocol": None}, "'protocol"),
        ({"transform": {"size": 10**9}}, "transform: size must be from 1 to 4096, resize at least size"),
        ({"transform": {"size": 0}}, "transform: size must be from 1 to 4096"),
        ({"transform": {"resize": 16}}, "resize at least size"),
        ({"transform": {"resize": 10**5}}, "transform: size must be from 1 to 4096"),
        ({"transform": {"mean": [0.5] * 3}}, "a value for each of 1 or 3 channels, have 3, 1"),
        ({"transform": {"channels": 2}}, "a value for each of 1 or 3 channels"),
        ({"transform": {"std": [0.0]}}, "mean and std must be finite, std above 0"),
        ({"transform": {"std": [float("nan")]}}, "std"),
    ],
)
def test_the_limits_of_a_description(about: About, tmp_path: Path, changes: dict[str, Any], words: str | None) -> None:
    about.save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    for key, value in changes.items():
        content[key] = {**content[key], **value} if key == "transform" else value
    (tmp_path / "model.json").write_text(json.dumps(content))
    if words is None:
        assert read_about(tmp_path) == about.model_copy(update=changes)
    else:
        with pytest.raises(InputError, match=re.escape(words)):
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
    (tmp_path / "adapter" / "seed_1").rename(tmp_path / "adapter" / "seed_10")
    (tmp_path / "adapter" / "seed_2").mkdir()
    about.save(tmp_path / "adapter" / "seed_2")
    assert _with_model(tmp_path / "adapter", None) == tmp_path / "adapter" / "seed_2"  # numbers, not texts
    with pytest.raises(InputError, match="adapter: holds no model of seed 1$"):
        _with_model(tmp_path / "adapter", 1)
