"""The embedded benchmarks are the same to the byte everywhere; the script that drew them still draws them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from benchmarks.processors import SETTINGS, name_of, printed_under, runs_here
from tests.support.embedded_digests import embedded_digests
from trainables.data import get_source
from trainables.data.embedded import drawing, make_images, sheets

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
    for part in make_images.PARTS:
        make_images.draw_part(benchmark, part)
    angle = pytest.approx(math.radians(turn))
    assert asked == [(drawing.TRAIN_FACES, train, angle), (drawing.HELD_OUT_FACES, test, angle)]


def test_a_sheet_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(256, (6, 1, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    sheets.write_sheet("own", "train", images, 3, tmp_path)
    monkeypatch.setattr(sheets, "FOLDER", tmp_path)
    read, labels = sheets.read_sheet("own", "train", 3)
    assert torch.equal(read, images) and labels.tolist() == [0, 0, 1, 1, 2, 2]
