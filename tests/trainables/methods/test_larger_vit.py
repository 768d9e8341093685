"""Methods on networks that are larger than the embedded one, and read colour images of another size."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.support.methods.small_digits import IEL, ITA, few_digits, run
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.sequence import IncrementalSequence

LARGEST, LARGER = ("vit_tiny_patch16_224", 224), ("test_vit", 160)


@pytest.mark.parametrize(
    ("method", "hyperparameters", "vit", "size"),
    [
        ("ita-lora", ITA, *LARGEST),
        ("iel-ia3", IEL, *LARGER),
        ("ewc", {"epsilon": 10.0, "lr": 0.03}, *LARGER),
    ],
    ids=["ita-lora", "iel-ia3", "ewc"],
)
def test_a_larger_vit_runs_the_same_code(
    method: str, hyperparameters: dict[str, Any], vit: str, size: int, tmp_path: Path
) -> None:
    save_file(timm.create_model(vit, num_classes=0).state_dict(), tmp_path / "vit.safetensors")
    backbone = Backbone(vit, tmp_path / "vit.safetensors")
    assert (backbone.input.channels, backbone.input.size) == (3, size)

    def load(part: str) -> tuple[Tensor, Tensor]:
        images, labels = few_digits(part)
        rows = torch.cat([(labels == c).nonzero().flatten()[:2] for c in range(2)])
        return images[rows], labels[rows]

    spec = dataclasses.replace(
        get_source("digits"), class_names=("0", "1"), num_tasks=2, epochs=1, batch_size=4, load=load
    )
    benchmark = build_benchmark(spec, "final", reads=backbone.input)
    rows = run(IncrementalSequence(benchmark, method, hyperparameters, backbone=backbone))
    assert len(rows) == 2 and rows[-1]["train/loss"] >= 0
