"""Descriptions of models: their cards, their limits, and which of several a folder stands for."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tausearch.models import ModelOptions, VectorSource, cards, load_model, loading
from tausearch.models.cards import card, describe_run
from tausearch.models.descriptions import ModelDescription, read_description
from tausearch.models.loading import _described_transform, _exported, _transform, _with_model, open_model
from tausearch.runs import RunDirectory, SearchSpec
from tests.support.packages import install
from trainables.data import TransformSpec
from trainables.errors import InputError


@pytest.fixture
def about(spec: SearchSpec) -> ModelDescription:
    """A composition that leaves out task 2 and unlearns task 3, measured on two seeds."""
    return ModelDescription(
        benchmark="digits",
        protocol=spec.protocol,
        runs=("r",),
        methods=("ita-lora",),
        class_names=("b", "a", "c", "d"),  # not in the order of the alphabet
        tasks=(2, 1, 1),
        transform=TransformSpec(channels=1, size=32, mean=(0.5,), std=(0.25,), resize=37),
        weights=(1.0, 0.0, -0.5),
        accuracies={0: (90.0, 60.0, 10.0), 4: (80.0, 70.0, 30.0)},
    )


def test_a_card_names_each_excluded_task_and_the_accuracy_of_each_task(about: ModelDescription) -> None:
    lines = card(about).splitlines()
    assert [line for line in lines if line.startswith("Task ")] == [
        "Task 2 (c) was left out; its classes can still be answered:"
        " 65.00 % of its test images are, chance is 25.00 %.",
        "Task 3 (d) was taken out (unlearned); its classes can still be answered.",
    ]
    assert [line.split(" ±")[0] for line in lines if re.match(r"\| (\d|mean)", line)] == [
        "| 1 | b, a | 85.00",
        "| 2 | c | 65.00",
        "| 3 | d | 20.00",
        "| mean | 4 classes | 56.67",
    ]
    assert "| mean | 4 classes | 56.67 ± 4.71 |" in lines  # the deviation is that of the seeds


def test_a_card_names_all_methods_and_runs(about: ModelDescription) -> None:
    protocol = about.protocol.model_copy(update={"weights_digest": "0123456789abcdef" * 4})
    changes = {"methods": ("tmc", "tak"), "runs": ("r", "s"), "protocol": protocol}
    lines = card(about.model_copy(update=changes)).splitlines()
    assert "# tmc + tak on digits" in lines
    assert len([line for line in lines if line.startswith(("Vectors of tmc move", "Vectors of tak move"))]) == 2
    assert any(line.startswith("Learned by r, s with tausearch") for line in lines)
    assert any(line.startswith("(sha256 0123456789ab), ") for line in lines)  # as messages name it


def test_a_run_is_described_beside_its_vectors_and_a_failure_costs_it_nothing(
    about: ModelDescription, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(tmp_path)
    monkeypatch.setattr(cards, "source_of_run", lambda directory: directory)
    monkeypatch.setattr(cards, "describe_source", lambda source: about)
    describe_run(directory)  # there is no such folder
    assert list(tmp_path.iterdir()) == []
    directory.artifacts.mkdir()
    (directory.artifacts / "README.md").write_text("of an earlier state")
    describe_run(directory)
    assert (directory.artifacts / "README.md").read_text(encoding="utf-8") == card(about)
    assert read_description(directory.artifacts) == about

    def none(directory: RunDirectory) -> None:
        raise InputError("no seed has left task vectors")

    monkeypatch.setattr(cards, "source_of_run", none)
    describe_run(directory)


@pytest.mark.parametrize(("method", "said"), [("tak", True), ("tmc", True), ("ita-lora", False), ("of:Nobody", False)])
def test_a_card_of_vectors_says_where_they_are_no_weights(about: ModelDescription, method: str, said: bool) -> None:
    changed = about.model_copy(update={"methods": (method,), "form": "vectors"})
    assert (f"Vectors of {method} move" in card(changed)) == said
    assert "linearised" not in card(changed.model_copy(update={"form": "timm"}))


def test_a_card_says_what_has_not_been_measured_and_the_rule(about: ModelDescription) -> None:
    changes = {
        "accuracies": {},
        "class_names": ("b|B", "a", "c", "d"),
        "task_names": ("birds", None, "c|d"),
        "rule": "ties",
        "rule_parameters": {"density": 0.25},
    }
    lines = card(about.model_copy(update=changes)).splitlines()
    assert "Weights of the task vectors: 1, 0, -0.5; rule ties, density 0.25." in lines
    assert "Task 3: c\\|d (d) was taken out (unlearned); its classes can still be answered." in lines
    assert [line for line in lines if line.startswith("| ")][1:] == [
        "| 1: birds | b\\|B, a | not measured |",
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
def test_a_card_opens_each_form_with_its_library(
    about: ModelDescription, form: str, library: str, imported: list[str]
) -> None:
    lines = card(about.model_copy(update={"form": form})).splitlines()
    assert f"library_name: {library}" in lines
    assert [line.removeprefix("import ") for line in lines if line.startswith("import ")] == imported


@pytest.mark.parametrize(
    ("weights", "folder"), [((0.5, 0.0, 0.5), "task_1"), ((0.0, 0.5, 0.5), "task_2"), ((0.0, 0.0, 0.0), "theta_0")]
)
def test_the_code_of_a_card_opens_the_first_model_that_there_is(
    about: ModelDescription, weights: tuple[float, ...], folder: str
) -> None:
    text = card(about.model_copy(update={"form": "models", "weights": weights}))
    assert re.findall(r'"FOLDER/(.*)/model.safetensors"', text) == [folder]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"keep_ratio": True}, "grey, 32 x 32 pixels (resized to 37 pixels (shorter side), "),
        ({"keep_ratio": False}, "grey, 32 x 32 pixels (resized to 37 pixels (both sides), "),
        ({"resize": None, "channels": 3, "mean": (0.5,) * 3, "std": (0.5, 0.5, 0.25)}, "RGB, 32 x 32 pixels (as is),"),
    ],
)
def test_a_card_says_what_the_model_reads(about: ModelDescription, changes: dict[str, Any], said: str) -> None:
    assert about.transform is not None
    text = card(about.model_copy(update={"transform": replace(about.transform, **changes)}))
    assert f"What it reads: {said}" in text
    assert re.search(r"\nscaled to \[0, 1\], minus 0.5(, 0.5, 0.5)?, divided by (0.5, 0.5, )?0.25\.\n", text)


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
    about: ModelDescription, backbone: str, weights: str | None, built: str
) -> None:
    protocol = about.protocol.model_copy(update={"backbone": backbone, "backbone_weights": weights})
    text = card(about.model_copy(update={"form": "adapter", "protocol": protocol}))
    assert f"\nbackbone = {built}\n" in text
    assert "backbone =" not in card(about.model_copy(update={"form": "timm", "protocol": protocol}))


def test_the_card_of_an_adapter_does_not_ask_timm_for_a_backbone_of_ones_own(
    about: ModelDescription, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "nets", {"backbones mine": "nets:NET"})  # there is no such module: nothing is imported
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mine", "nets:NET"):
        protocol = about.protocol.model_copy(update={"backbone": name})
        text = card(about.model_copy(update={"form": "adapter", "protocol": protocol}))
        assert f'\nbackbone = Backbone("{name}").load()\n' in text and "import timm" not in text


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
    about: ModelDescription, form: str, channels: int, opened: str
) -> None:
    assert about.transform is not None
    values = (0.5,) * channels
    reads = replace(about.transform, channels=channels, mean=values, std=values)
    assert opened in card(about.model_copy(update={"form": form, "transform": reads}))


def test_a_card_says_over_how_many_seeds_its_accuracies_are(about: ModelDescription) -> None:
    assert "Percent, over the logits of all classes, 2 seeds (± their deviation)." in card(about)
    one = about.model_copy(update={"accuracies": {0: (90.0, 60.0, 10.0)}})
    assert "of all classes, 1 seed (" in card(one)


def test_an_export_by_the_rule_of_a_package_is_read(
    about: ModelDescription, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.models.descriptions.installed", lambda kind: ("median",) if kind == "rule" else ())
    about.model_copy(update={"rule": "median"}).save(tmp_path)
    assert read_description(tmp_path).rule == "median"


@pytest.mark.parametrize(
    ("form", "rule", "words"),
    [
        ("timm", "median", None),  # its weights are merged already
        ("adapter", "median", None),
        ("timm", "me\ndian", "unknown rule"),
        ("vectors", "median", "or what an installed package brings; if a package brought it, install the package$"),
    ],
)
def test_an_export_by_the_rule_of_a_package_that_is_not_here(
    form: Any, rule: str, words: str | None, about: ModelDescription, tmp_path: Path
) -> None:
    about.model_copy(update={"rule": rule, "form": form}).save(tmp_path)
    with nullcontext() if words is None else pytest.raises(InputError, match=words):
        assert read_description(tmp_path).rule == rule


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
        ({"class_names": ["a", "b", "c", "a"]}, "class_names: the names of classes must be different"),
        ({"class_names": ["a", "b", "c", ""]}, "class_names: the name of a class must not be empty"),
        ({"tasks": [4, 0, 0]}, "its tasks have"),
        ({"tasks": []}, "its tasks have 0"),
        ({"weights": [0.5, 1]}, "weights must be one for each of 3 tasks, each a number from -1000000"),
        ({"weights": [1e308, 0.0, 0.0]}, "weights must be one for each"),
        ({"weights": [float("nan"), 0.0, 0.0]}, "weights must be one for each"),
        ({"accuracies": {"0": [90.0, 60.0]}}, "accuracies must be one from 0 to 100"),
        ({"accuracies": {"0": [90.0, 60.0, 10.0], "4": [90.0, 60.0]}}, "accuracies must be one from 0 to 100"),
        ({"accuracies": {"0": [90.0, 60.0, 100.5]}}, "accuracies must be one from 0 to 100"),
        ({"accuracies": {"0": [90.0, 60.0, -0.5]}}, "accuracies must be one from 0 to 100"),
        ({"task_names": ["x"]}, "names 1 task of 3"),
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
def test_the_limits_of_a_description(
    about: ModelDescription, tmp_path: Path, changes: dict[str, Any], words: str | None
) -> None:
    about.save(tmp_path)
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    for key, value in changes.items():
        content[key] = {**content[key], **value} if key == "transform" else value
    (tmp_path / "model.json").write_text(json.dumps(content))
    if words is None:
        assert read_description(tmp_path) == about.model_copy(update=changes)
    else:
        with pytest.raises(InputError, match=re.escape(words)):
            read_description(tmp_path)


def test_a_description_has_the_versions_of_its_libraries_and_may_be_damaged(
    about: ModelDescription, tmp_path: Path
) -> None:
    assert about.versions.keys() == {"tausearch", "torch", "timm", "peft"}
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(InputError, match="model.json: cannot be read"):
        read_description(tmp_path)


def test_an_export_of_several_forms_and_seeds(about: ModelDescription, tmp_path: Path) -> None:
    for name in ("adapter/seed_1", "timm/seed_1", "timm/seed_2", "vectors"):
        (tmp_path / name).mkdir(parents=True)
        about.save(tmp_path / name)
    (tmp_path / "models").mkdir()  # somebody else's
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
    with pytest.raises(InputError, match="adapter: holds no model of seed 0$"):
        _with_model(tmp_path / "adapter", 0)
    with pytest.raises(InputError, match="timm: holds no model of seed 10$"):  # the first form decides
        _with_model(tmp_path, 10)
    (tmp_path / "adapter" / "seed_1").mkdir()  # without a description
    assert _with_model(tmp_path / "adapter", None) == tmp_path / "adapter" / "seed_2"


def source(about: ModelDescription, name: str = "r") -> VectorSource:
    return VectorSource(name, about.benchmark, about.methods, about.protocol, (0,), Path())


def test_a_transform_is_that_of_the_description_else_of_the_benchmarks_code(
    about: ModelDescription, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(benchmark: str) -> SimpleNamespace:
        if benchmark == "their_module:GONE":
            raise InputError("is gone")
        return SimpleNamespace(transforms=lambda reads: ("of training", lambda images, _: images + 1.0))

    monkeypatch.setattr(loading, "get_source", opened)
    assert about.transform is not None and _transform(about, source(about)) == (about.transform.build(), ())
    code = about.model_copy(update={"transform": None, "benchmark": "their_module:SOURCE"})
    note = "r: its transform is code of the benchmark their_module:SOURCE"
    own, notes = _transform(code, source(code))
    assert notes == (note,)
    ours, wrong = torch.zeros(2, 1, 32, 32, dtype=torch.uint8), torch.zeros(2, 1, 40, 40, dtype=torch.uint8)
    assert torch.equal(own(ours, None), ours + 1.0)
    with pytest.raises(
        InputError, match=rf"^{note}; it must make \(2, 1, 32, 32\) of these images, got \(2, 1, 40, 40\)$"
    ):
        own(wrong, None)
    with pytest.raises(InputError, match=f"^{note}, which failed .TypeError"):
        own([ours[0], wrong[0]], None)
    for changes, said in (
        ({"benchmark": "their_module:GONE"}, "their_module:GONE, which cannot be used .is gone"),
        ({"benchmark": "digits"}, "r: does not say its transform; train the run again"),
        ({"class_names": ()}, "r: does not name its classes; train the run again"),
    ):
        with pytest.raises(InputError, match=said):
            _transform(code.model_copy(update=changes), source(code))
    with pytest.raises(InputError, match="r: its transform is the benchmark's own code; load the run instead"):
        _described_transform(code)


@pytest.mark.parametrize(
    ("changes", "made"),
    [({"size": 37}, "1 x 37 x 37"), ({"channels": 3, "mean": (0.5,) * 3, "std": (0.5,) * 3}, "3 x 32 x 32")],
)
def test_a_transform_makes_what_the_backbone_reads(about: ModelDescription, changes: dict[str, Any], made: str) -> None:
    assert about.transform is not None
    changed = about.model_copy(update={"transform": replace(about.transform, **changes)})
    with pytest.raises(InputError, match=f"makes {made} of an image, but glyph_vit reads 1 x 32 x 32"):
        _described_transform(changed)


def test_what_a_model_has_to_say_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "open_model", lambda *_: SimpleNamespace(notes=("one", "two")))
    with pytest.warns(UserWarning) as told:
        load_model("r")
    assert [str(each.message) for each in told] == ["one", "two"]


@pytest.mark.parametrize("form", ["timm", "adapter"])
def test_a_composed_model_is_opened_as_it_is_asked_for(
    form: str, about: ModelDescription, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def device(*wish: str | None) -> torch.device:
        asked.append(wish)
        return torch.device("cpu")

    monkeypatch.setattr(loading, "device_of", device)
    monkeypatch.setattr(loading, "backbone_of", lambda *given: asked.append(given[2]))
    for kind in ("of_timm", "of_adapter"):
        monkeypatch.setattr(loading, kind, lambda *_: torch.nn.Identity())
    composed = about.model_copy(update={"form": form})
    wish = ModelOptions(backbone_weights="mine", device="cuda")
    model = _exported(tmp_path / "seed_7", composed, wish)
    assert (model.seed, model.tasks, model.classes) == (7, (1, 2, 3), about.class_names)  # without regard to weights
    assert asked == [("cuda",), *(["mine"] if form == "adapter" else [])]
    assert _exported(tmp_path / "mine", composed, ModelOptions()).seed is None
    assert (None,) in asked  # a GPU, if there is one
    for folder, seed in (("seed_7", 0), ("mine", 0), ("mine", 7)):
        with pytest.raises(InputError, match=f"--seed {seed}: .*{folder} is of another seed"):
            _exported(tmp_path / folder, composed, ModelOptions(seed=seed))
    with pytest.raises(InputError, match="holds the parts of a composition$"):
        _exported(tmp_path, about.model_copy(update={"form": "models"}), ModelOptions(keep=[1]))


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ((), ""),
        (("vectors",), "; load `vectors` of the export"),
        (("adapter", "timm"), "; load `timm` or `adapter` of"),
    ],
)
def test_the_parts_of_a_composition_say_which_forms_are_beside_them(
    there: tuple[str, ...], instead: str, about: ModelDescription, tmp_path: Path
) -> None:
    for form in (*there, "models/seed_0"):
        (tmp_path / form).mkdir(parents=True)
    parts = about.model_copy(update={"form": "models"})
    with pytest.raises(InputError, match=f"holds the parts of a composition{instead}") as caught:
        _exported(tmp_path / "models" / "seed_0", parts, ModelOptions())
    assert bool(instead) or str(caught.value).endswith("composition")
    parts.save(tmp_path / "models" / "seed_0")
    if not there:
        with pytest.raises(InputError, match="models/seed_0: holds the parts of a composition$"):
            open_model(tmp_path, ModelOptions(), tmp_path / "runs")


def with_code(about: ModelDescription, **changes: Any) -> ModelDescription:
    """Return a description of a backbone and a rule of the user's."""
    protocol = about.protocol.model_copy(update={"backbone": "nets:NET"})
    return about.model_copy(update={"protocol": protocol, "rule": "rules:Median", "methods": ("m:Own",), **changes})


def test_a_card_allows_the_code_that_loading_needs(about: ModelDescription) -> None:
    def allowed(description: ModelDescription) -> list[str]:
        lines = card(description).splitlines()
        calls = [line for line in lines if line.startswith("tausearch.allow_code(")]
        assert not calls or lines.index(calls[-1]) < lines.index(
            'model = tausearch.load_model("FOLDER")  # this folder'
        )
        return [call.split('"')[1] for call in calls]

    assert allowed(about) == []
    assert allowed(with_code(about)) == ["nets:NET", "rules:Median"]
    assert allowed(with_code(about, form="adapter")) == ["nets:NET"]  # the rule has been applied
    code = {"benchmark": "data:BIRDS?tasks=3"}
    assert allowed(with_code(about, **code)) == ["nets:NET", "rules:Median"]
    assert allowed(with_code(about, **code, transform=None)) == ["nets:NET", "rules:Median", "data:BIRDS"]


def test_a_card_of_parts_says_whose_names_their_weights_have(about: ModelDescription) -> None:
    parts = about.model_copy(update={"form": "models"})
    assert "# by timm's names" in card(parts) and "\nlibrary_name: timm\n" in card(parts)
    own = card(with_code(about, form="models"))
    assert "# by the backbone's own names" in own and "\nlibrary_name: safetensors\n" in own and "timm" not in own


def test_the_folder_of_an_export_is_told_where_its_vectors_are(about: ModelDescription, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which describes its vectors$"):
        read_description(tmp_path)
    (tmp_path / "vectors").mkdir()
    about.save(tmp_path / "vectors")
    with pytest.raises(InputError, match=f"; those of this export: {tmp_path / 'vectors'}$"):
        read_description(tmp_path)
