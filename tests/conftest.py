"""What tests share: a tiny ViT in float64, and random images for it."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit

# Threads of tiny products cost more than they bring, and far more on a busy machine.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))

# The same examples in every run and on every machine, however slow: a red test is red for whoever runs it next.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def tiny_vit() -> VisionTransformer:
    return make_tiny_vit()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def images(generator: torch.Generator) -> Tensor:
    return torch.randn(12, 1, 8, 8, generator=generator, dtype=torch.float64)
