"""How the embedded weights were made: the program still runs, and makes the same of the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from trainables.backbones import Backbone, pretrain_glyph_vit
from trainables.backbones.glyph_vit import WEIGHTS


def test_two_steps_are_repeatable_and_have_the_form_of_the_embedded_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for file in files:
        monkeypatch.setattr("sys.argv", ["pretrain", str(file), "--steps", "2"])
        pretrain_glyph_vit.main()
    assert files[0].read_bytes() == files[1].read_bytes()
    made, embedded = load_file(files[0]), load_file(WEIGHTS)
    assert {name: value.shape for name, value in made.items()} == {name: v.shape for name, v in embedded.items()}
    assert Backbone(weights=files[0]).digest != Backbone().digest


def test_the_learning_rate_warms_up_and_falls_to_nothing() -> None:
    rates = [pretrain_glyph_vit.learning_rate(step, 1000) for step in (0, 149, 299, 300, 650, 1000)]
    assert rates == pytest.approx([1 / 300, 0.5, 1.0, 1.0, 0.5, 0.0], abs=1e-9)
