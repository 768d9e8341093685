"""Kinds of timm's backbones, each through two tasks, composition, export and prediction; and their names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from peft import PeftModel
from safetensors.torch import save_file
from torch import Tensor

from tausearch.models.classifiers import of_timm
from tests.support.methods.small_digits import IEL, ITA, few_digits, run
from trainables.backbones import Backbone, tuned_layers
from trainables.backbones.offered import TRIED
from trainables.backbones.timm_names import created, timm_name
from trainables.composition import ComposedNetwork, VectorPool, vector_folders
from trainables.composition.adapter import concatenated, write_adapter
from trainables.composition.checkpoints import write_timm_folder
from trainables.data import Benchmark, build_benchmark, get_source
from trainables.errors import InputError
from trainables.sequence import IncrementalSequence

CPU = torch.device("cpu")


def at(name: str, size: int) -> str:
    """The name of an architecture at a size of images, which is in the name where it is the model's own."""
    architecture = timm_name(name).architecture
    return architecture if architecture.endswith(f"_{size}") else f"{architecture}?img_size={size}"


# All but one have six patches a side, so that a test takes a second; more tokens than the products for few tokens take.
SIZED = [at(name, size) for name, sizes in TRIED.items() for size in sizes]
QUICK = ["deit_tiny_distilled_patch16_224?img_size=96", "eva02_tiny_patch14_336?img_size=84"]  # of the oddest kinds


def six_images(part: str) -> tuple[Tensor, Tensor]:
    """Three images of each class: six of each task."""
    images, labels = few_digits(part)
    rows = torch.cat([(labels == c).nonzero().flatten()[:3] for c in range(4)])
    return images[rows], labels[rows]


def two_tasks(backbone: Backbone) -> Benchmark:
    source = dataclasses.replace(
        get_source("digits"), class_names=("0", "1", "2", "3"), num_tasks=2, epochs=1, batch_size=4, load=six_images
    )
    return build_benchmark(source, "final", reads=backbone.input)


def with_weights(name: str, folder: Path) -> Backbone:
    torch.manual_seed(0)
    model = created(name)
    for layer in tuned_layers(model).values():
        torch.nn.init.normal_(layer.weight, std=0.05)
    for part, value in model.named_parameters():
        if part.endswith((".gamma", ".gamma_1", ".gamma_2")):
            torch.nn.init.ones_(value)  # layer scale begins near zero, and would hide what a task vector does
    save_file(model.state_dict(), folder / "weights.safetensors")
    return Backbone(name, folder / "weights.safetensors")


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SIZED)])
def test_it_learns_two_tasks_and_is_composed_exported_and_opened(name: str, tmp_path: Path) -> None:
    backbone = with_weights(name, tmp_path)
    benchmark = two_tasks(backbone)
    settings = {**ITA, "lr": 0.01, "rank": 2}
    sequence = IncrementalSequence(benchmark, "ita-lora", settings, backbone=backbone, artifacts=tmp_path / "vectors")
    rows = run(sequence)
    images = torch.cat([next(iter(each.batches(6, None, shuffle=False))).x for each in benchmark.evaluation])
    wanted = sequence.method.predict(images)
    assert len(rows) == 2 and wanted.shape == (12, 4) and bool(torch.isfinite(wanted).all())

    pool, network = VectorPool(tuple(vector_folders(tmp_path / "vectors"))), ComposedNetwork(backbone, CPU)
    network.compose(pool, [0.5, 0.5], pool.head())
    torch.testing.assert_close(network.predict(images), wanted, rtol=1e-3, atol=1e-4)

    transform: Any = benchmark.evaluation[0].transform
    write_timm_folder(tmp_path / "timm", backbone, network, pool.head(), ["0", "1", "2", "3"], transform)
    theirs = timm.create_model(f"local-dir:{tmp_path / 'timm'}", pretrained=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(theirs(images), wanted, rtol=1e-3, atol=1e-4)
        opened = of_timm(tmp_path / "timm", name, "0123", CPU, "fp32")
        torch.testing.assert_close(opened(images), wanted, rtol=1e-3, atol=1e-4)

        write_adapter(tmp_path / "adapter", concatenated(pool, [0.5, 0.5]))
        adapted = PeftModel.from_pretrained(backbone.load(tokens="all"), str(tmp_path / "adapter"))
        logits = torch.nn.functional.linear(adapted(images), *pool.head())
        torch.testing.assert_close(logits, wanted, rtol=1e-3, atol=1e-4)
        apart = torch.nn.functional.linear(backbone.load()(images), *pool.head())
    assert not torch.allclose(apart, wanted, rtol=1e-2, atol=1e-3)  # the vectors have changed something


@pytest.mark.parametrize(
    ("method", "settings"), [("iel-ia3", IEL), ("tmc", {"lr": 0.001}), ("finetune", {"lr": 0.001})]
)
def test_other_methods_run_on_rotary_positions(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    backbone = with_weights("eva02_tiny_patch14_224?img_size=56", tmp_path)
    rows = run(IncrementalSequence(two_tasks(backbone), method, settings, backbone=backbone))
    assert len(rows) == 2 and rows[-1]["train/loss"] >= 0


def test_a_distilled_model_reads_both_of_its_tokens(tmp_path: Path) -> None:
    backbone = with_weights("deit_tiny_distilled_patch16_224?img_size=32", tmp_path)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    model = backbone.load(tokens="all")
    with torch.no_grad():
        tokens = model.forward_features(images)
        torch.testing.assert_close(backbone.load()(images), (tokens[:, 0] + tokens[:, 1]) / 2)
    assert backbone.shape.closed == "its features are not those of the class token alone"


def test_another_size_of_images_resamples_the_positions_of_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    own = created("vit_tiny_patch16_224")
    save_file(own.state_dict(), tmp_path / "weights.safetensors")
    backbone = Backbone("vit_tiny_patch16_224?img_size=64", tmp_path / "weights.safetensors")
    model = backbone.load()
    assert backbone.input.size == 64 and model.pos_embed.shape == (1, 17, 192)
    assert torch.equal(model.pos_embed[:, 0], own.pos_embed[:, 0])  # of the class token
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 192)
    assert backbone.shape.width == 192 and backbone.digest != Backbone("vit_tiny_patch16_224", backbone.weights).digest


def test_where_the_class_token_has_no_position_those_of_all_patches_are_resampled(tmp_path: Path) -> None:
    own = created("deit3_small_patch16_224")
    grid = torch.arange(14.0).repeat_interleave(14)  # each patch holds its row
    save_file({**own.state_dict(), "pos_embed": grid[None, :, None].expand(1, 196, 384).clone()}, tmp_path / "w")
    model = Backbone("deit3_small_patch16_224?img_size=112", tmp_path / "w").load()
    rows = torch.arange(0.5, 14, 2)[:, None].expand(7, 7)  # the middle of two
    torch.testing.assert_close(model.pos_embed[0, :, 0].view(7, 7), rows, rtol=0, atol=0.1)


@pytest.mark.parametrize("tokens", [1, 198])
def test_a_file_with_other_prefix_tokens_does_not_fit(tokens: int, tmp_path: Path) -> None:
    weights = created("vit_tiny_patch16_224").state_dict() | {"pos_embed": torch.zeros(1, tokens, 192)}
    save_file(weights, tmp_path / "w")
    with pytest.raises(InputError, match=r"w: do not fit the backbone: 'pos_embed'"):
        Backbone("vit_tiny_patch16_224", tmp_path / "w").load()


def test_a_size_may_be_the_largest_that_is_allowed() -> None:
    assert timm_name("vit_tiny_patch16_224?img_size=2048").size == 2048


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("vit_tiny_patch16_224?img_size=65", "the size must be a multiple of 16 pixels, the side of a patch"),
        ("resnet10t?img_size=64", "has one size of images ("),
        ("vit_tiny_r_s16_p8_224?img_size=112", "cannot read images of this size"),
        ("vit_tiny_patch16_224?img_size=0", "behind ? goes img_size=PIXELS, at most 2048"),
        ("vit_tiny_patch16_224?img_size=2049", "behind ? goes img_size=PIXELS, at most 2048"),
        ("vit_tiny_patch16_224?size=64", "behind ? goes img_size=PIXELS"),
        (
            "vit_huge?img_size=64",
            "unknown backbone 'vit_huge?img_size=64'; allowed: glyph_vit, a VisionTransformer or Eva",
        ),
        (
            "vit_tiny_patch16_224.augreg_in21",
            "backbone 'vit_tiny_patch16_224.augreg_in21': unknown weights 'augreg_in21'; allowed: augreg_in21k, augreg",
        ),
        ("vit_tiny_patch16_224.nope?img_size=64", "unknown weights 'nope'; allowed: augreg_in21k"),
        ("vit_tiny_patch16_244", "brings; did you mean 'vit_tiny_patch16_224'"),
        ("swin_tiny_patch4_window7_224", "is a SwinTransformer, needs a VisionTransformer or Eva of timm"),
        ("convnext_tiny", "is a ConvNeXt, needs a VisionTransformer or Eva of timm"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_fetched(name: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        _ = Backbone(name).shape
    assert fault in str(caught.value) and "\n" not in str(caught.value)
