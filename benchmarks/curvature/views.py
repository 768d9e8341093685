"""How well a curvature predicts what a task vector does to another task: its view of the risk beside the true risk.

For the images of a task t and the vector of another task s, with the head h0 of all tasks on both sides,

    true rise = l_t(theta_0 + tau_s) - l_t(theta_0),        view = 1/2 tau_s^T H_t tau_s.

H_t is of the same test images, each of these approximates the one before: the exact Hessian; the Gauss-Newton matrix,
which is the true Fisher; its blocks of single weights; their Kronecker factors; its diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

from tausearch.models import Pools
from trainables.backbones import tuned_layers
from trainables.composition import ComposedNetwork
from trainables.composition.bound import along_hessian
from trainables.curvature import KINDS, Curvature, CurvatureKind
from trainables.data import ImageSet
from trainables.evaluation import risk
from trainables.heads import Head
from trainables.process import threads

BATCH = 64
IMAGES = 400  # of all tasks, at most
VIEWS = ("hessian", "gauss-newton", "blocks", "kronecker", "diagonal")  # each approximates the one before
Displacement = dict[str, Tensor]  # of the tuned weights by name


def views(pools: Pools) -> list[dict[str, Any]]:
    """Return a row for each pair of a task and another task's vector, of the first seed; risks in nats.

    A linearised network displaces no weights and has no rows.
    """
    if not pools.network.displaces_weights:
        return []
    network = ComposedNetwork(pools.backbone, pools.device, "fp32", "plain")
    pool = next(iter(pools.by_seed.values()))
    head, moved = pool.anchor(), []
    for task in range(len(pool)):
        network.compose(pool, [float(task == other) for other in range(len(pool))], head)
        moved.append({name: weight - network.theta_0[name] for name, weight in network.weights.items()})
    with threads(pools.threads):
        return [row for task in range(len(pool)) for row in _of_task(network, head, task, pools, moved)]


def correlations(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return Spearman's rank correlation of each view with the true rise, over the pairs."""
    rises = [row["rise"] for row in rows]
    return {view: float(spearmanr([row[view] for row in rows], rises).statistic) for view in VIEWS}


def _of_task(
    network: ComposedNetwork, head: Head, task: int, pools: Pools, moved: Sequence[Displacement]
) -> Iterator[dict[str, Any]]:
    images = _few(pools.benchmark.evaluation[task], IMAGES // pools.tasks)
    measured = {name: _curvature(name, network, head, images) for name in KINDS}
    before = _risk_at(network, network.theta_0, images)
    for other, displacement in enumerate(moved):
        if other != task:
            after = {name: network.theta_0[name] + tau for name, tau in displacement.items()}
            row = {"task": task + 1, "vector": other + 1, "rise": _risk_at(network, after, images) - before}
            found: dict[str, float] = {
                "hessian": along_hessian(network, displacement, head, [images]),
                "gauss-newton": _along_gauss_newton(network, displacement, head, images),
                "blocks": sum(_along_gauss_newton(network, {k: d}, head, images) for k, d in displacement.items()),
                **{name: _along(each, displacement) for name, each in measured.items()},
            }
            yield row | {name: 0.5 * value for name, value in found.items()}


def _few(images: ImageSet, most: int) -> ImageSet:
    """Return every k-th image, so that no more than `most` are left; they may lie class by class."""
    assert isinstance(images.images, Tensor)
    step = math.ceil(len(images) / most)
    return replace(images, images=images.images[::step], labels=images.labels[::step])


def _risk_at(network: ComposedNetwork, weights: Displacement, images: ImageSet) -> float:
    network.weights = weights
    return risk(network.predict, [images], network.device)


def _curvature(kind: CurvatureKind, network: ComposedNetwork, head: Head, images: ImageSet) -> Curvature:
    batches = (batch.x for batch in images.batches(BATCH, None, shuffle=False, device=network.device))
    layers, generator = tuned_layers(network.model), torch.Generator()
    total, examples = KINDS[kind].estimate(network.model, layers, head, batches, passes=None, generator=generator)
    return total.mean_over(examples)


def _along_gauss_newton(network: ComposedNetwork, moved: Displacement, head: Head, images: ImageSet) -> float:
    """Return tau^T G tau by one forward derivative; weights that are not in `moved` stay."""
    tangent = {name: moved.get(name, torch.zeros_like(weight)) for name, weight in network.theta_0.items()}
    total = 0.0
    for batch in images.batches(BATCH, None, shuffle=False, device=network.device):

        def logits(weights: Displacement, x: Tensor = batch.x) -> Tensor:
            return F.linear(network.features_at(weights, x), *head)

        read, slope = torch.func.jvp(logits, (network.theta_0,), (tangent,))[:2]
        p = read.softmax(1)
        total += float(((p * slope.square()).sum(1) - (p * slope).sum(1).square()).sum())
    return total / len(images)


def _along(curvature: Curvature, displacement: Displacement) -> float:
    return float(curvature.form().value(list(displacement.values())))  # both in the order of the tuned layers
