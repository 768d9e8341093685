"""Folders that timm opens: their data configuration, and reading them back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import timm
import torch

from trainables.backbones import EMBEDDED, Backbone
from trainables.composition import ComposedNetwork
from trainables.composition.checkpoints import _crop_share, _data_config, read_timm_folder, write_timm_folder
from trainables.data.transforms.cropping import ResizeCenterCrop
from trainables.data.transforms.normalisation import Normalise
from trainables.errors import InputError
from trainables.heads import new_head
from trainables.randomness import make_generator

CPU = torch.device("cpu")


@pytest.mark.parametrize(("keep_ratio", "crop"), [(False, "squash"), (True, "center")])
def test_a_folder_says_all_of_its_images_and_labels_and_is_read_back(
    keep_ratio: bool, crop: str, tmp_path: Path
) -> None:
    network, head = ComposedNetwork(Backbone(), CPU), new_head(2, 64, make_generator(0, "head"))
    network.compose([], [], head)
    transform = ResizeCenterCrop(40, 32, Normalise((0.3,), (0.2,)), keep_ratio=keep_ratio, interpolation="bilinear")
    write_timm_folder(tmp_path, Backbone(), network, head, ("wren", "crow"), transform)
    config = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).pretrained_cfg
    assert (config["label_names"], config["crop_mode"], config["interpolation"]) == (
        ["wren", "crow"],
        crop,
        "bilinear",
    )
    assert (config["crop_pct"], config["mean"], config["std"]) == (0.8, [0.3], [0.2])
    images = torch.randn(3, 1, 32, 32, generator=make_generator(0, "images"))
    read = read_timm_folder(tmp_path, EMBEDDED, ("wren", "crow"), CPU)
    torch.testing.assert_close(read(images), network.predict(images))
    with pytest.raises(InputError, match=r"'head.bias' is \(2,\), must be \(3,\)"):
        read_timm_folder(tmp_path, EMBEDDED, ("wren", "crow", "owl"), CPU)
    with pytest.raises(InputError, match=r"config.json: its label_names are not the classes of"):
        read_timm_folder(tmp_path, EMBEDDED, ("crow", "wren"), CPU)
    (tmp_path / "config.json").unlink()
    with pytest.raises(InputError, match=r"config.json: cannot be read"):
        read_timm_folder(tmp_path, EMBEDDED, ("wren", "crow"), CPU)


@pytest.mark.parametrize(("size", "resize"), [(224, 256), (384, 450), (224, 354), (299, 400)])
def test_timm_resizes_to_the_same_size_from_the_share_that_is_written(size: int, resize: int) -> None:
    assert math.floor(size / _crop_share(size, resize)) == resize  # as `timm.data.transforms_factory` does
    assert _crop_share(224, 256) == 0.875, "where timm's own division is exact, it is the usual one"


def test_transforms_that_may_compute_otherwise_are_not_said_to_be_ours() -> None:
    other_normalise, other_crop = type("Other", (Normalise,), {}), type("Other", (ResizeCenterCrop,), {})
    plain = {"input_size": (1, 32, 32), "crop_pct": 1.0}
    assert _data_config(other_normalise((0.3,), (0.2,)), Backbone()) == plain
    crop = other_crop(40, 32, Normalise((0.3,), (0.2,)), keep_ratio=True, interpolation="bilinear")
    assert _data_config(crop, Backbone()) == {**plain, "mean": (0.3,), "std": (0.2,)}
