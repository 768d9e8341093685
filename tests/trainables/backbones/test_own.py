"""A backbone of the user's code: what it must be, and what is made of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tausearch.api import SearchRequest, plan_search
from tests.support.methods.small_digits import ITA, run
from tests.support.packages import install
from tests.trainables.backbones.test_timm_kinds import two_tasks
from trainables import backbones
from trainables.backbones import SMALL, Backbone, InputSpec, OwnBackbone, Shape, tuned_layers
from trainables.composition import VectorPool, network_for, vector_folders
from trainables.errors import InputError
from trainables.sequence import IncrementalSequence
from trainables.user_code import allow_code, require_current

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


class Nan(Mixer):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) * torch.nan


class Whole(Mixer):
    def __init__(self, width: int = 6) -> None:
        super().__init__(width)
        self.whole = nn.Identity()


class Headed(Mixer):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.head = nn.Linear(width, 1)
        self.pos_embed = nn.Parameter(torch.zeros(1, 5, width))


class Tied(Mixer):
    """Its layers share a weight, and are named as those of a ViT."""

    num_features = 8

    def __init__(self, width: int) -> None:
        nn.Module.__init__(self)
        self.blocks = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.blocks[1].weight = self.blocks[0].weight

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images[:, 0]).mean(1)


class Locked(Mixer):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.lock = Lock()


class Double(Mixer):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).double()


def spec(*values: Any) -> OwnBackbone:
    return OwnBackbone(build=build, input=InputSpec(*values), tuned=TUNED)


TUNED = ("first", "second")


class Hooked(Mixer):
    """What its hook keeps is in the network that the hook was made for, not in a copy of it."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.kept: dict[str, Tensor] = {}
        self.frozen.register_forward_hook(lambda *given: self.kept.update(features=given[-1].mean(1)))

    def forward(self, images: Tensor) -> Tensor:
        super().forward(images)
        return self.kept["features"]


class Normed(Mixer):
    """torch can make no copy of it."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        nn.utils.weight_norm(self.frozen)


class Patched(Mixer):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.forward = lambda images: Mixer.forward(self, images)  # type: ignore[method-assign]


KINDS = {
    "Good": OwnBackbone(build=build, input=READS, tuned=TUNED),
    "Raises": OwnBackbone(build=lambda: 1 / 0, input=READS, tuned=TUNED),  # type: ignore[arg-type, return-value]
    "Other": OwnBackbone(build=lambda: nn.Linear(2, 2), input=READS, tuned=TUNED),
    "Untuned": OwnBackbone(build=build, input=READS),
    "Wide": OwnBackbone(build=lambda: build(width=5), input=READS, tuned=TUNED),
    "Flat": OwnBackbone(build=lambda: build(Flat), input=READS, tuned=TUNED),
    "Large": OwnBackbone(build=build, input=InputSpec(1, 9, (0.5,), (0.25,)), tuned=TUNED),
    "Nan": OwnBackbone(build=lambda: build(Nan), input=READS, tuned=TUNED),
    "Double": OwnBackbone(build=lambda: build(Double), input=READS, tuned=TUNED),
    "Gone": OwnBackbone(build=build, input=READS, tuned=("first", "third")),
    "Whole": OwnBackbone(build=lambda: build(Whole), input=READS, tuned=("whole",)),
    "Headed": OwnBackbone(build=lambda: build(Headed), input=READS, tuned=TUNED),
    "Hooked": OwnBackbone(build=lambda: build(Hooked), input=READS, tuned=TUNED),
    "Patched": OwnBackbone(build=lambda: build(Patched), input=READS, tuned=TUNED),
    "Normed": OwnBackbone(build=lambda: build(Normed), input=READS, tuned=TUNED),
    "Locked": OwnBackbone(build=lambda: build(Locked), input=READS, tuned=TUNED),
    "Tied": OwnBackbone(build=lambda: build(Tied), input=READS, tuned=("blocks.0", "blocks.1")),
    "Nothing": None,
}
FIELDS: dict[str, tuple[Any, str]] = {  # found before anything is built
    "Text": (OwnBackbone(build=build, input=READS, tuned="first"), "tuned must be a tuple of ends of names"),  # type: ignore[arg-type]
    "Empty": (
        OwnBackbone(build=build, input=READS, tuned=()),
        "tuned must be a tuple of ends of names of layers, got ()",
    ),
    "Blank": (OwnBackbone(build=build, input=READS, tuned=("first", "")), "tuned must be a tuple of ends of names of"),
    "Numbers": (OwnBackbone(build=build, input=READS, tuned=(1,)), "tuned must be a tuple of ends"),  # type: ignore[arg-type]
    "Pair": (OwnBackbone(build=build, input=(1, 8)), "input must be an InputSpec, got tuple"),  # type: ignore[arg-type]
    "Unbuilt": (OwnBackbone(build=None, input=READS), "build must be a function, got nothing"),  # type: ignore[arg-type]
    "Head": (OwnBackbone(build=build, input=READS, initial_head=3), "initial_head must be a function, got int"),  # type: ignore[arg-type]
    "Channels": (spec(2, 8, (0.5,), (0.25,)), "input: channels must be 1 or 3, got 2"),
    "Size": (spec(1, "8", (0.5,), (0.25,)), "input: size must be a whole number from 1 to 4096, got '8'"),
    "Small": (spec(1, 0, (0.5,), (0.25,)), "input: size must be a whole number from 1 to 4096, got 0"),
    "Means": (spec(3, 8, (0.5,), (0.25,) * 3), "input: mean must be a tuple of 3 numbers, one for each channel"),
    "Infinite": (spec(1, 8, (0.5,), (torch.inf,)), "input: std must be a tuple of 1 numbers"),
    "Zero": (spec(1, 8, (0.5,), (0.0,)), "input: std must be above 0, got (0.0,)"),
}


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("their_backbones")
    for name, each in {**KINDS, **{name: each for name, (each, _) in FIELDS.items()}}.items():
        setattr(module, name, each)
        allow_code(f"their_backbones:{name}")
    monkeypatch.setitem(sys.modules, "their_backbones", module)


def test_its_weights_are_those_of_the_file_whatever_their_names(tmp_path: Path) -> None:
    saved = {name: value + 1.0 for name, value in build(Headed).state_dict().items()}
    save_file(saved, tmp_path / "w.safetensors")
    backbone = Backbone.of("their_backbones:Headed", str(tmp_path / "w.safetensors"))
    torch.testing.assert_close(dict(backbone.load().state_dict()), saved)
    save_file({**saved, "pos_embed": torch.zeros(1, 7, 6)}, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="w.safetensors: do not fit the backbone: 'pos_embed'"):
        backbone.load()


def test_it_is_tuned_where_it_says() -> None:
    backbone = Backbone("their_backbones:Good")
    assert backbone.input == READS and backbone.shape == Shape(6, 2, 228, "it is a network of your own", blocks=False)
    assert list(tuned_layers(backbone.load())) == ["first", "second"]


@pytest.mark.parametrize(
    ("name", "method", "settings"),
    [
        ("Good", "ita-lora", {**ITA, "lr": 0.05, "rank": 2}),
        ("Tied", "ita-lora", {**ITA, "lr": 0.05, "rank": 2}),
        ("Tied", "tmc", {"lr": 0.05}),
    ],
)
def test_it_is_composed_as_it_was_trained(name: str, method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    backbone = Backbone(f"their_backbones:{name}")
    benchmark = two_tasks(backbone)
    sequence = IncrementalSequence(benchmark, method, settings, backbone=backbone, artifacts=tmp_path)
    assert len(run(sequence)) == 2
    images = next(iter(benchmark.evaluation[0].batches(3, None, shuffle=False))).x
    wanted = sequence.method.predict(images)
    pool = VectorPool(tuple(vector_folders(tmp_path)))
    network = network_for(pool, backbone, torch.device("cpu"))
    network.compose(pool, [0.5, 0.5], pool.head())
    assert {f"{each}.weight" for each in tuned_layers(backbone.load())} <= set(network.theta_0)
    torch.testing.assert_close(network.predict(images), wanted)


@pytest.mark.parametrize("method", ["tmc", "tak"])
def test_tangents_are_refused_before_any_work_without_blocks(method: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{method}: backbone 'their_backbones:Good' has no `blocks`"):
        plan_search(SearchRequest("digits", method, backbone="their_backbones:Good", storage=tmp_path))


def test_each_load_is_a_network_of_its_own_with_weights_that_can_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build().requires_grad_(False)
    made.register_parameter("count", nn.Parameter(torch.tensor(3), requires_grad=False))
    before = {name: value.clone() for name, value in made.state_dict().items()}
    monkeypatch.setattr(
        sys.modules["their_backbones"], "Good", OwnBackbone(build=lambda: made, input=READS, tuned=TUNED)
    )
    backbone = Backbone("their_backbones:Good")
    first = backbone.load()
    assert [name for name, each in first.named_parameters() if not each.requires_grad] == ["count"]
    with torch.no_grad():
        first.get_parameter("first.weight").add_(1)
    torch.testing.assert_close(dict(backbone.load().state_dict()), before)
    assert not any(each.requires_grad for each in made.parameters())


@pytest.mark.parametrize("name", ["Hooked", "Patched", "Normed"])
def test_a_network_that_refers_to_itself_is_not_copied_where_build_makes_another_each_time(name: str) -> None:
    backbone = Backbone(f"their_backbones:{name}")
    assert backbone.shape.width == 6
    first, second = backbone.load(), backbone.load()
    with torch.no_grad():
        first.get_parameter("first.weight").add_(1)
    torch.testing.assert_close(second.state_dict(), backbone.load().state_dict())


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
        ("Untuned", "tuned: it has no layer whose name ends in attn.qkv, attn.proj"),
        ("Wide", "must give features torch.float32 (2, 6), as num_features says, got torch.float32 (2, 5)"),
        ("Flat", "each tuned layer must be called once, with the images in its first dimension"),
        ("Large", "mat1 and mat2 shapes cannot be multiplied"),
        ("Nan", "its features are not finite"),
        ("Double", "must give features torch.float32 (2, 6), as num_features says, got torch.float64 (2, 6)"),
        ("Gone", "tuned: it has no layer whose name ends in 'third'"),
        ("Whole", "tuned: 'whole' must be a Linear, got Identity"),
        ("Locked", "copy.deepcopy of what build returns failed (TypeError: cannot pickle '_thread.lock' object"),
        ("Nothing", "'Nothing' must be an OwnBackbone, got nothing of that name"),
        ("Missing", "a file names this code, you did not"),
    ],
)
def test_what_does_not_hold_is_said_in_a_line(name: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        _ = Backbone(f"their_backbones:{name}").shape
    assert fault in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_field_is_said_in_a_line_before_anything_is_built(name: str) -> None:
    with pytest.raises(InputError) as caught:
        _ = Backbone(f"their_backbones:{name}").input
    fault = FIELDS[name][1]
    assert str(caught.value).startswith(f"backbone 'their_backbones:{name}': {fault}") and "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["", "?img_size=96"])
@pytest.mark.parametrize(
    ("name", "owner"),
    [("glyph_vit", "tausearch itself"), ("vit_tiny_patch16_224", "timm"), (SMALL, "timm")],
)
def test_a_package_takes_no_name_of_the_tool_or_of_timm(
    name: str, owner: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {f"backbones {name}": "taker:X", "backbones vit_tiny_patch16_224.mine": "their_backbones:Good"}
    install(tmp_path, "taker", points, taker="raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    backbone = Backbone(f"{name}{suffix}")
    backbones._digest.cache_clear()  # another test may have asked before the package came
    claims = re.escape(f"backbone {name!r}: {owner} and package 'taker' (taker:X) have one of this name; uninstall all")
    for ask in (lambda: backbone.input, lambda: backbone.shape, lambda: backbone.digest, backbone.load):
        with pytest.raises(InputError, match=f"^{claims} but one$"):
            ask()
    assert Backbone("vit_tiny_patch16_224.mine").input == READS  # timm has no weights of this name
    with pytest.raises(InputError, match=claims):
        plan_search(SearchRequest("digits", "ita-lora", backbone=backbone.name, storage=tmp_path / "runs"))


def test_weights_of_any_kind_have_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd() -> Mixer:
        model = build()
        model.frozen.bfloat16()
        model.register_buffer("none", torch.zeros(0, 3))
        return model

    own = OwnBackbone(build=odd, input=READS, tuned=TUNED)
    monkeypatch.setattr(sys.modules["their_backbones"], "Odd", own, raising=False)
    allow_code("their_backbones:Odd")
    assert len(Backbone("their_backbones:Odd").digest) == 64


def test_weights_that_build_reads_from_another_file_have_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    widths, made = iter((6, 6, 5, 5)), list[int]()
    own = OwnBackbone(build=lambda: made.append(1) or build(width=next(widths)), input=READS, tuned=TUNED)
    monkeypatch.setattr(sys.modules["their_backbones"], "Good", own)
    backbone = Backbone("their_backbones:Good")
    require_current([])
    first = backbone.digest
    assert (backbone.digest, len(made)) == (first, 2)
    require_current([])
    assert backbone.digest != first and len(made) == 4


def test_weights_that_are_drawn_anew_in_each_process_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnBackbone(build=lambda: Mixer().eval(), input=READS, tuned=TUNED)
    monkeypatch.setattr(sys.modules["their_backbones"], "Drawn", own, raising=False)
    allow_code("their_backbones:Drawn")
    with pytest.raises(InputError, match="'their_backbones:Drawn': build gives other weights each time"):
        plan_search(SearchRequest("digits", "finetune", backbone="their_backbones:Drawn", storage=tmp_path))


def test_it_is_built_once_for_all_checks_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    own = OwnBackbone(build=lambda: made.append(1) or build(), input=READS, tuned=TUNED)
    monkeypatch.setattr(sys.modules["their_backbones"], "Good", own)
    assert Backbone("their_backbones:Good").shape == Backbone("their_backbones:Good").shape and made == [1]


@pytest.mark.parametrize("method", ["finetune", "joint", "probe"])
def test_no_method_is_planned_with_one_that_does_not_work(method: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'their_backbones:Nan': its features are not finite"):
        plan_search(SearchRequest("digits", method, backbone="their_backbones:Nan", storage=tmp_path))
