"""What tests share: a tiny ViT in float64, and random images for it.

torch and timm take seconds to import, so the process that only hands tests to its workers is spared them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    import torch
    from timm.models.vision_transformer import VisionTransformer

# The same examples in every run and on every machine, however slow: a red test is red for whoever runs it next.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    """Compute with one thread: more cost more than they bring in tiny products, and far more on a busy machine."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))


@pytest.fixture
def tiny_vit() -> VisionTransformer:
    from tests.support.tiny_vit import make_tiny_vit

    return make_tiny_vit()


@pytest.fixture
def generator() -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(0)


@pytest.fixture
def images(generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(12, 1, 8, 8, generator=generator, dtype=torch.float64)
