"""The picture of what a model is surest and least sure of."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import same_color

from tausearch.presentation import draw_predictions
from tausearch.presentation.figures import predictions


def test_what_is_wrong_is_red_and_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[tuple[str, bool]] = []
    original = predictions._draw

    def draw(axes: Axes, *shown: object) -> None:
        original(axes, *shown)  # type: ignore[arg-type]
        titles.append((axes.get_title(), same_color(axes.title.get_color(), "tab:red")))

    monkeypatch.setattr(predictions, "_draw", draw)
    image = partial(torch.zeros, (3, 8, 8), dtype=torch.uint8)
    shown = [
        ("a.png", "sun", 0.9, image, "sun"),
        ("b.png", "sun", 0.6, image, "tree"),
        ("c.png", "sun", 0.5, image, None),
    ]
    assert draw_predictions(shown, tmp_path / "sure.png").stat().st_size > 1000
    assert (tmp_path / "sure.pdf").stat().st_size > 1000  # as beside every PNG
    assert sorted(titles) == [("sun 0.50", False), ("sun 0.60\n(is tree)", True), ("sun 0.90", False)]
