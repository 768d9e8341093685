"""An edited model folder is one line, before memory is taken; no field of it is believed."""

from __future__ import annotations

import json
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tausearch
from tests.tausearch.security.conftest import Refused
from trainables.backbones import Backbone
from trainables.composition import VECTOR_FILE

FORMS = {
    "timm": ("timm/seed_0", "model.safetensors"),
    "adapter": ("adapter/seed_0", "adapter_model.safetensors"),
    "head": ("adapter/seed_0", "head.safetensors"),
    "vectors": ("vectors", f"seed_0/task_2/{VECTOR_FILE}"),
}


class _Touch:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_a_pickle_beside_or_in_the_place_of_weights_is_not_read(
    model: Path, image: str, refused: Refused, tmp_path: Path
) -> None:
    folder = model / "timm" / "seed_0"
    (folder / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "model.bin", "model.safetensors"):
        (folder / name).write_bytes(pickle.dumps(_Touch()))
        assert "cannot be read as weights" in refused("predict", str(folder), image)
    assert not (tmp_path / "ran").exists()


def test_a_description_is_held_by_a_schema(model: Path, image: str, refused: Refused) -> None:
    file = model / "vectors" / "model.json"  # every limit: tests/tausearch/models/test_descriptions.py
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), "rule": "zzz"}), encoding="utf-8")
    for command in (["predict", str(model / "vectors"), image], ["compose", str(model / "vectors")]):
        assert "unknown rule 'zzz'" in refused(*command)


@pytest.mark.parametrize("form", ["timm/seed_0", "adapter/seed_0", "vectors"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"size": 4096, "resize": 4096}, "makes 1 x 4096 x 4096 of an image, but glyph_vit reads 1 x 32 x 32"),
        ({"channels": 3, "mean": [0.5] * 3, "std": [0.5] * 3}, "makes 3 x 32 x 32 of an image"),
        ({"std": [1e-300]}, "not finite numbers"),
    ],
)
def test_the_transform_is_one_that_the_backbone_reads(
    changes: dict[str, Any], why: str, form: str, model: Path, image: str, refused: Refused
) -> None:
    file = model / form / "model.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said["transform"] |= changes
    file.write_text(json.dumps(said), encoding="utf-8")
    assert why in refused("predict", str(model / form), image)


def edit(file: Path, change: str, *, keep_digest: bool) -> None:
    """Change a tensor; without the digest, as somebody would who knows that it is looked at."""
    with safe_open(file, framework="pt") as opened:
        header = {k: v for k, v in (opened.metadata() or {}).items() if keep_digest or k != "content digest"}
    tensors = {name: value.clone() for name, value in load_file(file).items()}
    name = next(each for each in sorted(tensors) if "head.weight" in each or "lora_A" in each)
    value = tensors[name]
    tensors[name] = {
        "nan": lambda: value.index_fill(0, torch.tensor(0), float("nan")),
        "value": lambda: value + 1,
        "rows": lambda: value[:-1],
        "width": lambda: value[:, :7],
        "bool": lambda: value.bool(),
        "complex": lambda: value.to(torch.complex64),
    }[change]().contiguous()
    save_file(tensors, file, metadata=header)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", ["nan", "rows", "width", "value", "bool", "complex"])
def test_tensors_are_held_by_shape_finiteness_and_digest(
    form: str, change: str, model: Path, image: str, refused: Refused
) -> None:
    folder, file = FORMS[form]
    edit(model / folder / file, change, keep_digest=change == "value")
    err = refused("predict", str(model / folder), image)
    if change == "value":
        assert "its content is not what was written" in err


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"classes": "0-" + "9" * 30}, "classes"),
        ({"classes": "5-2"}, "classes"),
        ({"class_names": "5"}, "class_names is not a list of names"),
        ({"class_names": "null"}, "class_names is not a list of names"),
        ({"class_names": "[" * 100_000}, "is not a task vector"),
        ({"transform": "[" * 100_000}, "is not a task vector"),
        ({"class_names": '["X", "Y"]'}, "names other classes, 'X' where there must be"),
        ({"task": "1"}, "is of task 1, but lies in the place of task 2"),
        ({"scale": "nan"}, "scale nan"),
    ],
)
def test_the_header_of_a_vector(changes: dict[str, str], why: str, model: Path, image: str, refused: Refused) -> None:
    file = model / "vectors" / "seed_0" / "task_2" / VECTOR_FILE
    with safe_open(file, framework="pt") as opened:
        header = {k: v for k, v in (opened.metadata() or {}).items() if k != "content digest"}
    save_file({name: value.clone() for name, value in load_file(file).items()}, file, metadata={**header, **changes})
    assert why in refused("predict", str(model / "vectors"), image)


@pytest.mark.parametrize("command", ["predict", "compose"])
def test_a_composition_that_overflows(command: str, model: Path, image: str, refused: Refused) -> None:
    file = model / "vectors" / "seed_0" / "task_2" / VECTOR_FILE
    with safe_open(file, framework="pt") as opened:
        header = {k: v for k, v in (opened.metadata() or {}).items() if k != "content digest"}
    huge = {k: v * 0 + 3e38 if k.endswith((".A", ".B")) else v.clone() for k, v in load_file(file).items()}
    save_file(huge, file, metadata=header)
    assert "finite" in refused(command, str(model / "vectors"), *([image] if command == "predict" else []))


@pytest.mark.parametrize("form", FORMS)
def test_a_fifo_in_the_place_of_weights_is_not_waited_for(form: str, model: Path, image: str, refused: Refused) -> None:
    folder, file = FORMS[form]
    (model / folder / file).unlink()
    os.mkfifo(model / folder / file)
    assert "is not a regular file" in refused("predict", str(model / folder), image)


def test_the_architecture_is_not_the_folders_to_choose(model: Path, image: str) -> None:
    folder = model / "timm" / "seed_0"
    wanted = tausearch.load_model(folder).probabilities(image)
    file = folder / "config.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said["model_args"] = {"embed_dim": 8192, "depth": 60}
    file.write_text(json.dumps({**said, "architecture": "vit_giant_patch14_224"}), encoding="utf-8")
    assert torch.equal(tausearch.load_model(folder).probabilities(image), wanted)


@pytest.mark.parametrize("form", ["timm/seed_0", "adapter/seed_0", "vectors"])
def test_a_large_backbone_is_not_built_because_a_file_names_it(
    form: str, model: Path, image: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model / form / "model.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    said["protocol"]["backbone"] = "vit_gigantic_patch14_224"
    said["transform"] |= {"channels": 3, "size": 224, "resize": 224, "mean": [0.5] * 3, "std": [0.5] * 3}
    file.write_text(json.dumps(said), encoding="utf-8")
    monkeypatch.setattr(Backbone, "load", lambda *_, **__: pytest.fail("it was built"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    err = refused("predict", str(model / form), image)
    assert "parameters" in err or "cannot be read as weights of vit_gigantic" in err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB; the network would take 7 GB


def test_answers_are_finite_numbers(model: Path, image: str, refused: Refused) -> None:
    file = model / "timm" / "seed_0" / "model.safetensors"
    tensors = {name: value.clone() for name, value in load_file(file).items()}
    tensors["head.weight"] *= 3e38
    tensors["head.weight"].nan_to_num_(posinf=3e38, neginf=-3e38)
    save_file(tensors, file)
    assert "not finite numbers" in refused("predict", str(file.parent), image)
