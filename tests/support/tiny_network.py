"""A composed network around the tiny ViT, with derivatives of any order, and its images in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import Backbone
from trainables.backbones.attention import write_out
from trainables.composition import ComposedNetwork


def as_double(images: Any, generator: torch.Generator | None) -> Tensor:
    return images.double() / 64 - 2


def tiny_network(monkeypatch: pytest.MonkeyPatch) -> ComposedNetwork:
    def load(*_: object, **__: object) -> Any:
        model = make_tiny_vit()
        write_out(model)
        return model

    monkeypatch.setattr(Backbone, "load", load)
    return ComposedNetwork(Backbone(), torch.device("cpu"), attention="plain")
