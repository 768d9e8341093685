"""A backbone of the user's code: what it must be, and what is made of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.support.methods.small_digits import ITA, run
from tests.trainables.backbones.test_timm_kinds import two_tasks
from trainables.backbones import Backbone, InputSpec, OwnBackbone, Shape, tuned_layers
from trainables.composition import ComposedNetwork, VectorPool, vector_folders
from trainables.errors import InputError
from trainables.sequence import IncrementalSequence
from trainables.user_code import allow_code

READS = InputSpec(channels=1, size=8, mean=(0.5,), std=(0.25,))


class Mixer(nn.Module):
    """Rows of an image as tokens, two linear layers over them, and their mean."""

    num_features = 6

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 12), nn.Linear(12, width)
        self.frozen = nn.Linear(width, width)

    def forward(self, images: Tensor) -> Tensor:
        return self.frozen(self.second(self.first(images[:, 0]).relu())).mean(1)


class Flat(Mixer):
    """Its layer sees the rows of all images in one dimension."""

    def forward(self, images: Tensor) -> Tensor:
        return self.second(self.first(images.flatten(0, 2)).relu()).unflatten(0, (len(images), -1)).mean(1)


def build(kind: type[Mixer] = Mixer, width: int = 6) -> Mixer:
    torch.manual_seed(3)
    return kind(width).eval()


TUNED = ("first", "second")
KINDS = {
    "Good": OwnBackbone(build=build, input=READS, tuned=TUNED),
    "Raises": OwnBackbone(build=lambda: 1 / 0, input=READS, tuned=TUNED),  # type: ignore[arg-type, return-value]
    "Other": OwnBackbone(build=lambda: nn.Linear(2, 2), input=READS, tuned=TUNED),
    "Untuned": OwnBackbone(build=build, input=READS),
    "Wide": OwnBackbone(build=lambda: build(width=5), input=READS, tuned=TUNED),
    "Flat": OwnBackbone(build=lambda: build(Flat), input=READS, tuned=TUNED),
    "Large": OwnBackbone(build=build, input=InputSpec(1, 9, (0.5,), (0.25,)), tuned=TUNED),
    "Nothing": None,
}


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("their_backbones")
    for name, each in KINDS.items():
        setattr(module, name, each)
        allow_code(f"their_backbones:{name}")
    monkeypatch.setitem(sys.modules, "their_backbones", module)


def test_it_is_tuned_where_it_says_and_composed(tmp_path: Path) -> None:
    backbone = Backbone("their_backbones:Good")
    assert backbone.input == READS and backbone.shape == Shape(6, 2, 228, "it is a network of your own")
    assert list(tuned_layers(backbone.load())) == ["first", "second"]
    benchmark = two_tasks(backbone)
    settings = {**ITA, "lr": 0.05, "rank": 2}
    sequence = IncrementalSequence(benchmark, "ita-lora", settings, backbone=backbone, artifacts=tmp_path)
    assert len(run(sequence)) == 2
    images = next(iter(benchmark.evaluation[0].batches(3, None, shuffle=False))).x
    wanted = sequence.method.predict(images)
    pool, network = VectorPool(tuple(vector_folders(tmp_path))), ComposedNetwork(backbone, torch.device("cpu"))
    network.compose(pool, [0.5, 0.5], pool.head())
    assert set(network.theta_0) == {"first.weight", "second.weight"}
    torch.testing.assert_close(network.predict(images), wanted)


def test_a_file_of_weights_replaces_its_own(tmp_path: Path) -> None:
    torch.manual_seed(9)
    other = Mixer()
    save_file(other.state_dict(), tmp_path / "w.safetensors")
    backbone = Backbone("their_backbones:Good", tmp_path / "w.safetensors")
    assert torch.equal(backbone.load().get_parameter("first.weight"), other.first.weight)
    assert backbone.digest != Backbone("their_backbones:Good").digest


def test_the_global_generator_is_as_before() -> None:
    before = torch.get_rng_state()
    Backbone("their_backbones:Good").load()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Raises", "build failed (ZeroDivisionError: division by zero in "),
        ("Other", "build must return a torch Module with num_features, got Linear"),
        ("Untuned", "has no linear layer whose name ends in attn.qkv, attn.proj"),
        ("Wide", "must give features (2, 6), got (2, 5)"),
        ("Flat", "each tuned layer must be called once, with the images in its first dimension"),
        ("Large", "mat1 and mat2 shapes cannot be multiplied"),
        ("Nothing", "'Nothing' must be an OwnBackbone, got nothing of that name"),
        ("Missing", "a file names this code, you did not"),
    ],
)
def test_what_does_not_hold_is_said_in_a_line(name: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        _ = Backbone(f"their_backbones:{name}").shape
    assert fault in str(caught.value) and "\n" not in str(caught.value)
