"""The embedded benchmarks are the same to the byte everywhere, and how their images are drawn."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from benchmarks.embedded.distance import joint_accuracy, theta_0_accuracy
from benchmarks.processors import SETTINGS, name_of, printed_under, runs_here
from tests.support.embedded_digests import embedded_digests
from trainables.data import get_source
from trainables.data.embedded import characters, digits, drawing, make_images, sheets
from trainables.process import threads

PINNED = {  # of images, labels and splits: what trains, what evaluates
    "digits search": ["3bd7d9c9515bda3c", "a86908573be5097d"],
    "digits final": ["c9c47535a3f5a2b5", "a46697225f0df73d"],
    "glyphs search": ["38b6334576a21955", "c93096d24c4f3d0b"],
    "glyphs final": ["a1acb67291214567", "06611203a739c58d"],
    "letters search": ["b251fbe86b9a681b", "7e4bde255d41c2a1"],
    "letters final": ["4ac5387fb4262bcf", "2331409fc37a8006"],
}


def test_digests_are_pinned() -> None:
    """Keys of the cache hold them: with other values every cache would be computed anew."""
    assert embedded_digests() == PINNED


@pytest.mark.parametrize("setting", SETTINGS, ids=name_of)
def test_digests_do_not_depend_on_the_processor(setting: dict[str, str]) -> None:
    if not runs_here(setting):
        pytest.skip("this processor lacks the instructions")
    assert json.loads(printed_under(setting, "tests.support.embedded_digests")) == PINNED


@pytest.mark.parametrize("benchmark", make_images.DRAWINGS)
def test_the_script_draws_the_images_that_ship(benchmark: str) -> None:
    """Up to a grey level in one of 100,000 pixels: FreeType and the processor may round otherwise."""
    shipped, drawn = get_source(benchmark).load("test")[0], make_images.draw_part(benchmark, "test")
    assert isinstance(shipped, torch.Tensor)
    difference = (shipped.int() - drawn.int()).abs()
    assert difference.max() <= 1 and int(difference.count_nonzero()) <= difference.numel() / 100_000


@pytest.mark.parametrize(
    ("benchmark", "train", "test", "turn"), [("glyphs", 4000, 2000, 12), ("letters", 4000, 2000, 60)]
)
def test_only_the_test_part_shows_the_held_out_faces(
    benchmark: str, train: int, test: int, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(make_images, "render", lambda characters, faces: faces)
    monkeypatch.setattr(make_images, "draw", lambda faces, labels, _, turn: asked.append((faces, len(labels), turn)))
    for part in make_images.SPLIT_NAMES:
        make_images.draw_part(benchmark, part)
    assert not set(drawing.HELD_OUT_FACES) & set(drawing.TRAIN_FACES)
    angle = pytest.approx(math.radians(turn))
    assert asked == [(drawing.TRAIN_FACES, train, angle), (drawing.HELD_OUT_FACES, test, angle)]


def test_a_sheet_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(256, (6, 1, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    sheets.write_sheet("own", "train", images, 3, tmp_path)
    monkeypatch.setattr(sheets, "FOLDER", tmp_path)
    read, labels = sheets.read_sheet("own", 3, "train")
    assert torch.equal(read, images) and labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_digits_are_scikit_learns() -> None:
    known = load_digits()
    ink, labels = digits.scans()
    assert np.array_equal(ink[:, 0], known.images) and np.array_equal(labels, known.target)


def test_characters_are_disjoint_and_no_digits() -> None:
    assert len(set(characters.BENCHMARK)) == len(characters.BENCHMARK) == 100
    assert not set(characters.BENCHMARK) & set(characters.PRETRAINING)
    assert not set(characters.BENCHMARK + characters.PRETRAINING) & set("0123456789")
    assert len(set(characters.LETTERS)) == 20 and set(characters.LETTERS) <= set(characters.BENCHMARK)


def test_a_face_without_the_character_is_named() -> None:
    with pytest.raises(ValueError, match="draws nothing"):
        drawing.render(" ", drawing.TRAIN_FACES[:1])


@pytest.mark.parametrize("turn", [math.pi / 15, math.pi / 3])
def test_turn_is_the_largest_angle(turn: float) -> None:
    """A bar that lies flat has its ink along the angle at which it is drawn; shear and shift add a little."""
    bar = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    bar[:, :, 30:34, 8:56] = 255
    drawn = drawing.draw(bar, torch.zeros(300, dtype=torch.int64), torch.Generator().manual_seed(0), turn)
    assert turn - 0.1 < _angles(drawn[:, 0].double()).abs().max() < turn + 0.2


def _angles(ink: torch.Tensor) -> torch.Tensor:
    """Angle of the longest axis of the ink of each image `(n, h, w)`, by its second moments; radians."""
    ink = (ink - ink.amin((1, 2), keepdim=True)) ** 4  # the background and its noise weigh nothing
    ink = ink / ink.sum((1, 2), keepdim=True)
    places = torch.arange(ink.shape[1], dtype=torch.float64)
    across = [places - (ink.sum(axis) @ places)[:, None] for axis in (1, 2)]  # x and y, from the centre
    xx, yy = ((ink.sum(axis) * each**2).sum(1) for axis, each in zip((1, 2), across, strict=True))
    xy = torch.einsum("nhw,nh,nw->n", ink, across[1], across[0])
    return 0.5 * torch.atan2(2 * xy, xx - yy)


@pytest.mark.slow
def test_theta_0_is_not_enough_for_letters_and_fine_tuning_is() -> None:
    """The two figures by which the drawing was fixed; `python -m benchmarks distance` has them for all benchmarks."""
    with threads(1):
        assert theta_0_accuracy("letters") <= 80
        assert joint_accuracy("letters") >= 92
