"""The time of a training step of a backbone, whose weights are not needed."""

from __future__ import annotations

import itertools

import pytest
import torch

from trainables.backbones import timing
from trainables.errors import InputError


@pytest.mark.parametrize("name", ["glyph_vit", "vit_tiny_patch16_224"])
def test_a_step_takes_time_and_leaves_the_threads_as_they_were(name: str) -> None:
    before = torch.get_num_threads()
    assert timing.seconds_per_image(name, 1) > 0 and torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([9, 4, 2, 3, 5], 4 / 2),
        ([9, 0.3, 0.1, 0.7, 0.01], 0.1 / 2),
        ([0, 0.1, 0.08, 0.1, 0.1, 0.1, 0.01], 0.04),
    ],
    ids=["one long step", "a second of steps", "five steps"],
)
def test_the_fastest_of_the_steps_counts_without_the_first(
    seconds: list[float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = itertools.chain(seconds)
    monkeypatch.setattr(timing, "_step", lambda model, images: next(left))
    assert timing.seconds_per_image("glyph_vit", 1) == pytest.approx(expected)


def test_an_unknown_backbone_is_refused() -> None:
    with pytest.raises(InputError, match="unknown backbone 'vit_none'"):
        timing.seconds_per_image("vit_none", 1)
