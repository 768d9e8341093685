"""The benchmark on which the choice matters: how it is drawn, and how far it lies from the pre-training."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.embedded.distance import joint_accuracy, theta_0_accuracy
from trainables.data import build_benchmark, get_source
from trainables.data.embedded import characters, drawing, letters
from trainables.process import threads


def images(part: str) -> torch.Tensor:
    return letters.load(part)[0]  # type: ignore[arg-type]


def test_the_backbone_has_seen_none_of_its_letters() -> None:
    assert len(set(letters.CLASS_NAMES)) == 20
    assert not set(letters.CLASS_NAMES) & set(characters.PRETRAINING)


def test_its_splits_are_large_enough_to_choose_by() -> None:
    search, final = (build_benchmark(get_source("letters"), purpose) for purpose in ("search", "final"))  # type: ignore[arg-type]
    assert len(search.tasks) == 10 and all(len(task.classes) == 2 for task in search.tasks)
    assert sum(map(len, search.evaluation)) == 400 and sum(len(task.train) for task in search.tasks) == 3600
    assert sum(map(len, final.evaluation)) == 2000 and sum(len(task.train) for task in final.tasks) == 4000


def test_no_image_of_the_test_part_is_in_the_training_part() -> None:
    known = {image.numpy().tobytes() for image in images("train")}
    assert len(known) == 4000 and not known & {image.numpy().tobytes() for image in images("test")}


def test_turn_is_the_largest_angle() -> None:
    """A bar that lies flat has its ink along the angle at which it is drawn; shear and shift add a little."""
    bar = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    bar[:, :, 30:34, 8:56] = 255
    labels = torch.zeros(300, dtype=torch.int64)
    for turn in (math.pi / 15, math.pi / 3):
        drawn = drawing.draw(bar, labels, torch.Generator().manual_seed(0), turn).double()
        angles = _angles(drawn[:, 0]).abs()
        assert turn - 0.1 < angles.max() < turn + 0.2


def _angles(ink: torch.Tensor) -> torch.Tensor:
    """Angle of the longest axis of the ink of each image `(n, h, w)`, by its second moments; radians."""
    ink = (ink - ink.amin((1, 2), keepdim=True)) ** 4  # the background and its noise weigh nothing
    ink = ink / ink.sum((1, 2), keepdim=True)
    places = torch.arange(ink.shape[1], dtype=torch.float64)
    x, y = ink.sum(1) @ places, ink.sum(2) @ places
    across = places - x[:, None], places - y[:, None]
    xx, yy = (ink.sum(1) * across[0] ** 2).sum(1), (ink.sum(2) * across[1] ** 2).sum(1)
    xy = torch.einsum("nhw,nh,nw->n", ink, across[1], across[0])
    return 0.5 * torch.atan2(2 * xy, xx - yy)


@pytest.mark.slow
def test_theta_0_is_not_enough_and_fine_tuning_is() -> None:
    """The two figures by which the drawing was fixed; `python -m benchmarks distance` has them for all benchmarks."""
    with threads(1):
        assert theta_0_accuracy("letters") <= 80
        assert joint_accuracy("letters") >= 92
