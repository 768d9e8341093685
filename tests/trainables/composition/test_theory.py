"""Theorem 1, curvature and cosines against brute force in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.tiny_network import as_double, tiny_network
from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.test_composition import KINDS, learn, origin
from trainables.composition import ComposedNetwork, SavedVector, VectorPool, composed, write_vector
from trainables.composition.alignment import composed_cosine, cosines, inner_products
from trainables.composition.bound import along_hessian, theorem_1
from trainables.data import ImageSet
from trainables.evaluation import risk
from trainables.task_vectors import FullTaskVectors

CPU = torch.device("cpu")
TASKS = 3


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> ComposedNetwork:
    return tiny_network(monkeypatch)


@pytest.fixture
def images() -> list[ImageSet]:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 255, (10, 1, 8, 8), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 2 * TASKS, (10,), generator=generator)
    return [ImageSet(pixels[:7], labels[:7], as_double), ImageSet(pixels[7:], labels[7:], as_double)]


@pytest.fixture
def pool(tmp_path: Path) -> VectorPool:
    vectors = FullTaskVectors(make_tiny_vit())
    generator = torch.Generator().manual_seed(5)
    folders = []
    for task in range(1, TASKS + 1):
        saved = learn(vectors, task)
        parts = {name: {"tau": 0.1 * value["tau"]} for name, value in saved.parameters.items()}
        head = tuple(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((2, 8), (2,)))
        more = {"parameters": parts, "head": head, "origin": origin(task)}
        folders.append(write_vector(tmp_path, SavedVector(**{**vars(saved), **more})))
    return VectorPool(tuple(folders))


def loss(network: ComposedNetwork, weights: dict[str, Tensor], pool: VectorPool, images: list[ImageSet]) -> Tensor:
    """The mean cross-entropy over all images, by hand."""
    head = pool.head()
    x = torch.cat([as_double(each.images, None) for each in images])
    y = torch.cat([each.labels for each in images])
    logits = torch.func.functional_call(network.model, weights, (x,)) @ head[0].T + head[1]
    return F.cross_entropy(logits, y)


def measured(images: list[ImageSet]) -> Any:
    return lambda network: risk(network.predict, images, CPU)


def test_curvature_is_that_of_the_whole_hessian(
    network: ComposedNetwork, pool: VectorPool, images: list[ImageSet]
) -> None:
    name = "blocks.1.attn.proj.weight"
    tau = next(iter(pool)).dense(name, network.theta_0[name])

    def of(weight: Tensor) -> Tensor:
        return loss(network, {**network.theta_0, name: weight}, pool, images)

    hessian: Any = torch.autograd.functional.hessian(of, network.theta_0[name])
    wanted = torch.einsum("ij,ijkl,kl", tau, hessian, tau)
    still = {other: torch.zeros_like(weight) for other, weight in network.theta_0.items()}
    assert along_hessian(network, {**still, name: tau}, pool.head(), images) == pytest.approx(float(wanted), rel=1e-9)


def test_omega_is_the_pairwise_form_and_risks_are_those_by_hand(
    network: ComposedNetwork, pool: VectorPool, images: list[ImageSet]
) -> None:
    ticks: list[int] = []
    (point,) = theorem_1(network, pool, images, [0.5], measured(images), ticks.append)
    assert ticks == [1] * 2 * (TASKS + 1)  # curvatures and risks of each vector and of the composition
    taus = [{n: v.dense(n, w) for n, w in network.theta_0.items()} for v in pool]
    pairs = 0.0
    for s in range(TASKS):
        for t in range(s + 1, TASKS):
            apart = {name: taus[s][name] - taus[t][name] for name in taus[s]}
            pairs += along_hessian(network, apart, pool.head(), images) / TASKS**2
    assert point.omega == pytest.approx(0.5 * 0.25 * pairs, rel=1e-9)
    alone = [composed(network.theta_0, [vector], [0.5]) for vector in pool]
    assert point.bound == pytest.approx(sum(float(loss(network, w, pool, images)) for w in alone) / TASKS)
    uniform = composed(network.theta_0, pool, [0.5 / TASKS] * TASKS)
    assert point.composed == pytest.approx(float(loss(network, uniform, pool, images)))
    assert point.gap == point.composed - (point.bound - point.omega)


def test_what_the_second_order_view_leaves_is_of_third_order(
    network: ComposedNetwork, pool: VectorPool, images: list[ImageSet]
) -> None:
    points = theorem_1(network, pool, images, [0.04, 0.02, 0.01], measured(images))
    for larger, smaller in zip(points, points[1:], strict=False):
        assert larger.gap / smaller.gap == pytest.approx(8, rel=0.15)
        assert larger.omega / smaller.omega == pytest.approx(4)
        assert abs(smaller.gap) < 0.2 * abs(smaller.omega)


@pytest.mark.parametrize("kind", KINDS)
def test_cosines_by_hand(kind: str) -> None:
    vectors = KINDS[kind](make_tiny_vit())
    four, flat = [learn(vectors, seed) for seed in range(4)], []
    for vector in four:
        flat.append(torch.cat([vector.dense(n, w).flatten() for n, w in vectors.theta_0.items()]))
    gram = inner_products(vectors.theta_0, four)
    for i in range(4):
        for j in range(4):
            wanted = F.cosine_similarity(flat[i], flat[j], dim=0)
            torch.testing.assert_close(cosines(gram)[i, j], wanted)
    wanted = F.cosine_similarity(flat[0] + flat[1], flat[2] + flat[3], dim=0)
    assert composed_cosine(gram, [0, 1], [2, 3]) == pytest.approx(float(wanted), abs=1e-9)
