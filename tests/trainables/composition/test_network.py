"""The network of composed weights: its logits, and its memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tests.support.garbage import old_objects_frozen
from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.test_composition import KINDS, learn, origin
from trainables.backbones import AttentionKind, Backbone
from trainables.composition import (
    ComposedNetwork,
    SavedVector,
    VectorPool,
    choose_rule,
    network_for,
    networks,
    read_vector,
    write_vector,
)
from trainables.errors import InputError
from trainables.precision import autocast, features
from trainables.task_vectors import FullTaskVectors, LoRATaskVectors

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backbone, "load", lambda *_, **__: make_tiny_vit(dtype=torch.float32))


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that operations have made and that still live; views count for nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.living: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in [each for each in torch.utils._pytree.tree_leaves(out) if isinstance(each, Tensor)]:
            place = tensor.untyped_storage().data_ptr()
            if place not in self.living and tensor.untyped_storage().nbytes():
                self.living[place] = tensor.untyped_storage().nbytes()
                weakref.finalize(tensor.untyped_storage(), self.living.pop, place, None)
        self.most = max(self.most, sum(self.living.values()))
        return out


class Uncounted(VectorPool):
    """Maps files without being counted, and sees that the last one has been let go of before the next is mapped."""

    def __iter__(self) -> Iterator[SavedVector]:
        living: weakref.ref[SavedVector] | None = None
        for folder in self.folders:
            assert living is None or living() is None
            with _disable_current_modes():
                vector = read_vector(folder)
            living = weakref.ref(vector)
            yield vector
            del vector


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_network_with_these_weights(kind: str, images: Tensor) -> None:
    vectors = KINDS[kind](make_tiny_vit(dtype=torch.float32))
    three = [learn(vectors, seed) for seed in range(3)]
    head, made = (torch.randn(6, 8), torch.randn(6)), network_for(three, Backbone(), CPU)
    for weights, rule in (([0.2, -0.5, 1.0], None), ([1.0, 0.0, 0.0], choose_rule("ties", {"density": 0.4}))):
        made.compose(three, weights, head, rule)
        plain = make_tiny_vit(dtype=torch.float32)
        plain.load_state_dict({**plain.state_dict(), **made.weights})
        torch.testing.assert_close(made.predict(images.float()), plain(images.float()) @ head[0].T + head[1])
    made.compose(three, [0.0] * 3, head)
    assert all(torch.equal(made.weights[name], weight) for name, weight in made.theta_0.items())


def test_features_are_computed_in_half_precision_and_logits_in_whole(images: Tensor) -> None:
    three = [learn(FullTaskVectors(make_tiny_vit(dtype=torch.float32)), seed) for seed in range(3)]
    head, made = (torch.randn(6, 8), torch.randn(6)), network_for(three, Backbone(), CPU, "bf16")
    made.compose(three, [0.2, -0.5, 1.0], head)
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        rounded = made.features_at(made.weights, images.float())
    assert torch.equal(made.predict(images.float()), F.linear(rounded.float(), *head))
    assert not torch.equal(rounded, made.features_at(made.weights, images.float()))
    assert features(Tensor.bfloat16, images, "bf16", CPU).dtype == torch.float32


def test_half_precision_is_bf16_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *device, **options: (device, options))
    assert autocast("bf16", torch.device("cuda")) == (("cuda",), {"dtype": torch.bfloat16})  # its own default is fp16


def test_composing_holds_two_models_and_one_vector_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def large() -> Any:
        """Wide enough that weights are nearly all of it."""
        return make_tiny_vit(dtype=torch.float32, width=64)

    monkeypatch.setattr(Backbone, "load", lambda *_, **__: large())
    vectors = FullTaskVectors(large())
    whole = sum(weight.nbytes for weight in large().parameters())
    largest = max(weight.nbytes for weight in vectors.theta_0.values())
    peaks = {}
    for count in (2, 8):
        for task in range(1, count + 1):
            write_vector(tmp_path / str(count), learn(vectors, task - 1))
        pool = Uncounted(tuple(tmp_path / str(count) / f"task_{task}" for task in range(1, count + 1)))
        with old_objects_frozen(), LiveBytes() as live:
            made = ComposedNetwork(Backbone(), CPU)
            head = (torch.zeros(6, 64), torch.zeros(6))
            for weights in ([1 / count] * count, [1.0] + [0.0] * (count - 1)):
                made.compose(pool, weights, head)
                made.predict(torch.zeros(1, 1, 8, 8))
        peaks[count] = live.most
    assert peaks[2] == peaks[8]
    # theta_0, one composition, and tau on one weight with its product; and, not counted, what is mapped of one file.
    assert 1.9 * whole < peaks[8] <= 2 * whole + 2 * largest


def test_kinds_that_are_evaluated_in_different_ways_are_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tangents(ComposedNetwork):
        pass

    full, lora = (learn(KINDS[kind](make_tiny_vit(dtype=torch.float32)), 0) for kind in ("full", "lora"))
    assert type(network_for([full, lora], Backbone(), CPU)) is ComposedNetwork
    monkeypatch.setitem(networks.NETWORKS, "full", Tangents)
    assert type(network_for([full], Backbone(), CPU)) is Tangents
    with pytest.raises(InputError, match="task vectors of the kinds full, lora cannot be composed with each other"):
        network_for([full, lora], Backbone(), CPU)


def test_a_pool_reads_heads_and_anchors_side_by_side(tmp_path: Path) -> None:
    saved = learn(FullTaskVectors(make_tiny_vit(dtype=torch.float32)), 0)
    again = replace(saved, origin=origin(2), head=(saved.head[0] + 1, saved.head[1]))
    pool = VectorPool((write_vector(tmp_path, saved), write_vector(tmp_path, again)))
    assert torch.equal(pool.head()[0], torch.cat([saved.head[0], saved.head[0] + 1]))
    assert torch.equal(pool.anchor()[1], torch.cat([saved.anchor[1]] * 2))
    assert isinstance(iter(pool), Iterator)


CLASSES = [range(2), range(2, 4)]
NAMED = [("a", "b"), ("c", "d")]
DOUBLE = (torch.zeros(2, 8).double(), torch.zeros(2).double())
PROJECTION = "blocks.1.attn.proj.weight"


@pytest.mark.parametrize(
    ("second", "wanted", "fault"),
    [
        ({"class_names": NAMED[1]}, {}, ""),
        ({"class_names": ("c", "a\u0308")}, {"class_names": [NAMED[0], ("c", "\u00e4")]}, ""),  # of a Mac
        ({}, {}, ""),  # a vector without names fits any
        ({"class_names": NAMED[0]}, {}, "task_2: names other classes, 'a' where there must be 'c'"),
        ({"backbone_digest": "0" * 64}, {}, "task_2: was learned on another backbone"),
        ({"task": 1}, {}, "task_2: is of task 1, but lies in the place of task 2"),
        ({"classes": range(4, 6)}, {}, "task_2: is of classes 4 to 5, .* has classes 2 to 3"),
        ({}, {"width": 9}, "its head reads 8 features, the backbone has 9"),
        ({"head": DOUBLE}, {}, r"task_2: holds torch.float64, but the backbone torch.float32"),
        ({}, {"theta_0": {"other": torch.empty(1)}}, "does not have the tuned weights of the backbone"),
        ({}, {PROJECTION: torch.empty(4, 8)}, rf"'{PROJECTION}' is \(8, 8\), but the backbone's is \(4, 8\)"),
    ],
)
def test_a_pool_is_of_one_benchmark_and_backbone(
    tmp_path: Path, second: dict[str, Any], wanted: dict[str, Any], fault: str
) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32), rank=2)
    one, two = (learn(vectors, seed) for seed in range(2))
    of_origin = {name: value for name, value in second.items() if name != "head"}
    two = replace(two, head=second.get("head", two.head), origin=replace(two.origin, **of_origin))
    folders = [write_vector(tmp_path / str(k), vector) for k, vector in enumerate((one, two))]
    folders[1] = folders[1].rename(tmp_path / "task_2")
    given = {"theta_0": vectors.theta_0, "width": 8, "backbone_digest": "abc", "class_names": NAMED} | wanted
    if PROJECTION in given:
        given["theta_0"] = {**vectors.theta_0, PROJECTION: given.pop(PROJECTION)}
    with pytest.raises(InputError, match=fault) if fault else nullcontext():
        VectorPool(tuple(folders)).require_fit(CLASSES, **given)


@pytest.mark.parametrize("attention", ["fused", "plain"])
def test_attention_is_as_it_is_asked_for(attention: AttentionKind, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(Backbone, "load", lambda *_, **given: asked.append(given) or make_tiny_vit())
    ComposedNetwork(Backbone(), CPU, attention=attention)
    assert asked == [{"attention": attention}]
