"""Transforms: which normalisation, size and interpolation win, and a test transform as plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as vision

from trainables.backbones import InputSpec
from trainables.data import PUBLISHED, Normalise, RandomShift, Recipe, TransformSpec, described, small_transforms
from trainables.data.transforms.cropping import RandomResizedCrop, ResizeCenterCrop, ResizeRandomCrop
from trainables.data.transforms.recipes import HALF, IMAGENET, UNIT

GREY, RGB = InputSpec(1, 32, (0.4,), (0.3,)), InputSpec(3, 224, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
OWN = Normalise(RGB.mean, RGB.std)

# Tasks and epochs, and for a backbone of 224 pixels the transforms of the authors' code.
PROTOCOLS: dict[str, tuple[int, int, Any, Any]] = {
    "imagenet_r": (10, 30, RandomResizedCrop(224, UNIT), ResizeCenterCrop(256, 224, UNIT)),
    "cifar100": (10, 20, RandomResizedCrop(224, HALF), ResizeCenterCrop(256, 224, HALF, True)),
    "cub200": (10, 50, ResizeRandomCrop(300, 224, IMAGENET, False), ResizeCenterCrop(256, 224, IMAGENET, True)),
    "caltech256": (
        *(10, 5),
        ResizeRandomCrop(256, 224, IMAGENET, True),
        ResizeCenterCrop(256, 224, IMAGENET, True, "bilinear"),
    ),
    "mit67": (
        *(10, 5),
        ResizeRandomCrop(256, 224, IMAGENET, True),
        ResizeCenterCrop(256, 224, IMAGENET, True, "bilinear"),
    ),
    "resisc45": (9, 30, RandomResizedCrop(224, IMAGENET), ResizeCenterCrop(256, 224, IMAGENET)),
    "cropdisease": (7, 5, RandomResizedCrop(224, IMAGENET), ResizeCenterCrop(224, 224, IMAGENET, True)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_protocols_of_the_published_datasets(name: str) -> None:
    published = PUBLISHED[name]
    assert (published.tasks, published.epochs, *published.recipe(RGB)) == PROTOCOLS[name]


def test_a_recipe_has_its_own_normalisation_of_rgb_alone() -> None:
    for recipe in (Recipe(IMAGENET), Recipe(IMAGENET, train_resize=256)):
        assert [each.normalise for each in recipe(RGB)] == [IMAGENET] * 2  # type: ignore[attr-defined]
        assert [each.normalise for each in recipe(GREY)] == [Normalise((0.4,), (0.3,))] * 2  # type: ignore[attr-defined]
    assert [each.normalise for each in Recipe()(RGB)] == [OWN] * 2  # type: ignore[attr-defined]


def test_lengths_of_a_recipe_follow_the_backbones_input() -> None:
    train, test = Recipe(train_resize=300)(replace(RGB, size=112))
    assert (train, test) == (ResizeRandomCrop(150, 112, OWN), ResizeCenterCrop(128, 112, OWN))


def test_embedded_images_are_shifted_only_for_backbones_of_their_size_and_colour() -> None:
    grey = Normalise((0.4,), (0.3,))
    assert small_transforms(GREY) == (RandomShift(2, grey), grey)
    larger = (RandomResizedCrop(56, grey), ResizeCenterCrop(64, 56, grey))
    assert small_transforms(replace(GREY, size=56)) == larger
    assert small_transforms(replace(RGB, size=32)) == (RandomResizedCrop(32, OWN), ResizeCenterCrop(36, 32, OWN))


@pytest.mark.parametrize(
    "transform",
    [Normalise((0.3,), (0.2,)), ResizeCenterCrop(40, 32, OWN, True, "bilinear"), ResizeCenterCrop(40, 32, OWN)],
    ids=["normalised", "ratio kept", "squashed"],
)
def test_a_test_transform_is_made_again_from_plain_values(transform: Any, generator: torch.Generator) -> None:
    spec = described(transform, 32)
    assert spec is not None and TransformSpec.from_plain(spec.as_plain()) == spec
    side = 32 if isinstance(transform, Normalise) else 50
    images = torch.randint(256, (3, spec.channels, side, 32), generator=generator, dtype=torch.uint8)
    assert torch.equal(spec.build()(images, None), transform(images, None))
    assert described(RandomShift(2), 32) is None
    kind = type("Own", (type(transform),), {})  # it may compute otherwise
    assert described(kind(**vars(transform)), 32) is None


PLAIN = TransformSpec(channels=3, size=32, mean=(0.5,) * 3, std=(0.5,) * 3, resize=40).as_plain()


@pytest.mark.parametrize(
    "change",
    [
        {"channels": 2, "mean": [0.5] * 2, "std": [0.5] * 2},
        {"channels": 1},
        {"std": [0.5, 0.5]},
        {"std": [0.5, 0.5, 0.0]},
        {"mean": [0.5, 0.5, float("nan")]},
        {"size": 0},
        {"resize": 31},
        {"resize": 4097},
        {"interpolation": "nearest"},
        {"more": 1},
    ],
    ids=str,
)
def test_plain_values_that_are_no_transform(change: dict[str, Any]) -> None:
    TransformSpec.from_plain({**PLAIN, "resize": 32})
    TransformSpec.from_plain({**PLAIN, "resize": 4096})
    with pytest.raises(ValueError, match="is no transform"):
        TransformSpec.from_plain({**PLAIN, **change})
    with pytest.raises(ValueError, match="is no transform: 'std'"):
        TransformSpec.from_plain({name: value for name, value in PLAIN.items() if name != "std"})


def fitted(images: Tensor, channels: int) -> Tensor:
    unit = {"mean": (0.0,) * channels, "std": (1.0,) * channels}
    return TransformSpec(channels=channels, size=32, **unit).build()(images, None) * 255  # type: ignore[arg-type]


def test_grey_is_the_same_in_one_channel_and_in_three_whatever_stands_beside_it(generator: torch.Generator) -> None:
    grey = torch.randint(256, (4, 1, 40, 40), generator=generator, dtype=torch.uint8)
    colour = torch.randint(256, (1, 3, 40, 40), generator=generator, dtype=torch.uint8)
    cut = ResizeCenterCrop(36, 32, Normalise((0.5,), (0.5,)))
    alone, three = cut(grey), cut(grey.expand(-1, 3, -1, -1))
    mixed = cut(torch.cat([colour, grey.expand(-1, 3, -1, -1)]))
    assert torch.equal(alone, three) and torch.equal(mixed[1:], alone)
    several = cut([grey[0].expand(3, -1, -1), colour[0], *grey[1:]])
    assert torch.equal(several[[0, 2, 3, 4]], alone) and torch.equal(several[1], mixed[0])


def test_other_images_are_fitted_to_a_benchmark_whose_images_have_one_size(generator: torch.Generator) -> None:
    grey = torch.randint(256, (2, 1, 32, 32), generator=generator, dtype=torch.uint8)
    torch.testing.assert_close(fitted(grey, 1), grey.float())
    torch.testing.assert_close(fitted(grey.expand(-1, 3, -1, -1), 1), grey.float())  # equal channels lose no level
    torch.testing.assert_close(fitted(grey, 3), grey.float().expand(-1, 3, -1, -1))
    colour = torch.randint(256, (2, 3, 32, 32), generator=generator, dtype=torch.uint8)
    torch.testing.assert_close(fitted(colour, 1), vision.rgb_to_grayscale(colour).float())
    wide = torch.arange(128, dtype=torch.uint8).expand(1, 1, 64, 128)  # each pixel holds its column
    columns = fitted(wide, 1)[0, 0, 0]
    assert columns[[0, 31]].tolist() == pytest.approx([32.5, 94.5], abs=1.0)  # the middle, of a half of all columns
