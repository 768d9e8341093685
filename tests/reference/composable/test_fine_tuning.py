"""ITA and IEL against the reference: every optimisation step, and the results of each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.reference.composable.conftest import Product
from tests.reference.composable.joints import method_of, steps_of
from tests.reference.composable.learner import Reference, accuracies, metrics_row
from tests.reference.composable.optimisation import Step
from tests.reference.composable.preconsolidation import PreTrained
from tests.reference.composable.task_vectors import Setting
from tests.reference.problem import EPOCHS, SEED
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
STRENGTHS = {"fft": 2.0, "lora": 0.5, "ia3": 0.5}
SETTINGS = {
    f"{'iel' if ensemble else 'ita'}-{kind}, {'official' if official else 'paper'}": Setting(
        ensemble=ensemble,
        kind=kind,
        official=official,
        strength=(4 if ensemble else 1) * strength,
        rank=1 if official else 2,  # at 1 the product adds B (A x) for three of the weights; at 2 it builds them all
    )
    for ensemble in (False, True)
    for kind, strength in STRENGTHS.items()
    for official in (False, True)
}
SETTINGS |= {
    "ita-fft, coupled and clipped": Setting(ensemble=False, kind="fft", strength=2e4),
    "iel-lora, decoupled and clipped": Setting(ensemble=True, kind="lora", official=True, strength=2e2, cls=2e2),
    "ita-lora, official, no term of the head": Setting(
        ensemble=False, kind="lora", official=True, strength=0.5, cls=0.0, prior=0.5
    ),
    "ita-ia3, paper, the head's prior alone": Setting(ensemble=False, kind="ia3", strength=0.5, cls=0.0, prior=0.5),
    "iel-ia3, head alone": Setting(ensemble=True, kind="ia3", strength=0.2, regularise="head"),
    "iel-fft, nothing regularised": Setting(ensemble=True, kind="fft", strength=0.2, regularise="none"),
}


@dataclass(repr=False)
class Done:
    """The product after each task."""

    steps: list[list[Step]]
    rows: list[dict[str, float]]
    taus: list[dict[str, Tensor]]
    heads: list[tuple[Tensor, Tensor]]
    logits: list[Tensor]


@dataclass(repr=False)
class Pair:
    setting: Setting
    done: Done
    reference: Reference


def run(setting: Setting, product: Product, x: Tensor) -> Done:
    method, hyperparameters = method_of(setting)
    sequence = IncrementalSequence(
        product.benchmark, method, hyperparameters, backbone=product.backbone, seed=SEED, cache=product.cache
    )
    learner: Any = sequence.method
    done = Done([], [], [], [], [])
    while not sequence.finished:
        with steps_of(sequence) as steps:
            done.rows.append(sequence.run_next_task())
        done.steps.append(steps)
        done.taus.append({name: learner.vectors.dense(name).detach().clone() for name in learner.vectors.theta_0})
        done.heads.append((learner.heads.weight.clone(), learner.heads.bias.clone()))
        done.logits.append(sequence.method.predict(x))
    return done


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def pair(
    request: pytest.FixtureRequest,
    product: Product,
    pre_trained: list[PreTrained],
    model: VisionTransformer,
    shown: Tensor,
) -> Pair:
    tasks = list(zip(product.benchmark.tasks, pre_trained, strict=True))
    reference = Reference(request.param, model, tasks, EPOCHS, SEED)
    return Pair(request.param, run(request.param, product, shown), reference)


@pytest.fixture(scope="module")
def shown(product: Product) -> Tensor:
    """Evaluation images of the first task, as the network reads them."""
    images = product.benchmark.evaluation[0]
    assert isinstance(images.images, Tensor)
    return images.transform(images.images, None)


def test_every_step(pair: Pair) -> None:
    """c_e; the decoupled step; the gradients that AdamW is given, clipped and coupled or not; and its own step."""
    for got, learned in zip(pair.done.steps, pair.reference.pool, strict=True):
        assert len(got) == len(learned.steps) >= 6
        for ours, theirs in zip(got, learned.steps, strict=True):
            assert ours.factor == pytest.approx(theirs.factor, rel=1e-12)
            for part in ("before", "gradients", "after"):
                torch.testing.assert_close(getattr(ours, part), getattr(theirs, part), **CLOSE)


def test_the_clip_is_met_where_it_is_meant_to_be(pair: Pair, request: pytest.FixtureRequest) -> None:
    clipped = [sum(step.clipped for step in learned.steps) for learned in pair.reference.pool]
    assert any(clipped) == ("clipped" in request.node.name), clipped


def test_task_vectors_and_heads_after_each_task(pair: Pair) -> None:
    for t, (tau, head) in enumerate(zip(pair.done.taus, pair.done.heads, strict=True), start=1):
        torch.testing.assert_close(tau, pair.reference.pool[t - 1].tau, **CLOSE)
        for part, found in enumerate(head):
            wanted = torch.cat([learned.head[part] for learned in pair.reference.pool[:t]])
            torch.testing.assert_close(found, wanted, **CLOSE)


def test_logits_of_the_composed_model_after_each_task(pair: Pair, shown: Tensor) -> None:
    for t, logits in enumerate(pair.done.logits, start=1):
        torch.testing.assert_close(logits, pair.reference.logits(t, shown), **CLOSE)


def test_the_row_of_metrics_after_each_task(pair: Pair, product: Product) -> None:
    matrix = [accuracies(pair.reference, t, product.benchmark.evaluation) for t in (1, 2, 3)]
    assert len({value for row in matrix for value in row}) >= 3  # neither all right nor all wrong
    images = [len(each.labels) for each in product.benchmark.evaluation]
    for t, row in enumerate(pair.done.rows, start=1):
        assert repeatable(row) == pytest.approx(metrics_row(pair.reference, matrix, t, images), rel=1e-9)
