"""Both sides pre-consolidate once for all settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from tests.reference.composable.joints import spied
from tests.reference.composable.preconsolidation import PreTrained, pre_consolidate
from tests.reference.problem import SEED, make_backbone, make_benchmark, make_theta_0
from tests.support.tiny_vit import float64
from trainables.backbones import Backbone
from trainables.data import Benchmark
from trainables.preconsolidation import Consolidation, PreconsolidationConfig, Preparer


@dataclass(frozen=True)
class Product:
    """The product's pre-consolidation of every task, and its cache."""

    benchmark: Benchmark
    backbone: Backbone
    cache: Path
    consolidations: list[Consolidation]
    probed: list[Any]


@pytest.fixture(scope="module")  # no longer: the network that the product loads is another while it lives
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        with float64():
            made = make_product(folder, patch)
        yield made


def make_product(folder: Path, patch: pytest.MonkeyPatch) -> Product:
    benchmark, backbone = make_benchmark(), make_backbone(folder, patch)
    probed = spied(patch, "trainables.preconsolidation.consolidation.linear_probe")
    preparer = Preparer(
        benchmark.tasks,
        backbone,
        spec=benchmark.spec,
        fingerprint=benchmark.fingerprint,
        purpose="final",
        seed=SEED,
        device=torch.device("cpu"),
        cache=folder / "cache",
        cache_bytes=None,
    )
    prepared = preparer(PreconsolidationConfig())
    return Product(benchmark, backbone, folder / "cache", [prepared(task) for task in benchmark.tasks], probed)


@pytest.fixture(scope="session")
def model() -> VisionTransformer:
    """theta_0 as timm has it: the last block whole, attention fused."""
    with float64():
        return make_theta_0()


@pytest.fixture(scope="session")
def pre_trained(model: VisionTransformer) -> list[PreTrained]:
    found: list[PreTrained] = []
    with float64():
        for task in make_benchmark().tasks:
            found.append(pre_consolidate(task, found[-1] if found else None, model, SEED))
    return found
