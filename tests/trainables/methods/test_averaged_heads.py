"""Heads averaged as the weights are: the rows h0_t + (h_t - h0_t) / T, through training, checkpoints and artefacts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tausearch.testing.recording import Recorded, shown
from tests.support.methods.small_digits import run
from trainables.backbones import Backbone
from trainables.composition import ReducedPool, VectorPool, network_for, read_vector, vector_folders, write_vector
from trainables.data import Removal
from trainables.heads import Head
from trainables.methods.composable.averaged_heads import AveragedHeads
from trainables.sequence import IncrementalSequence

STRENGTHS = {"cls": 0.1, "cls_prior": 0.01}
METHODS = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")


def hyperparameters(method: str, **more: Any) -> dict[str, Any]:
    letter = "alpha" if method.startswith("ita") else "beta"
    return {letter: 1.0, "lr": 0.003, **{f"{letter}_{name}": value for name, value in STRENGTHS.items()}, **more}


Run = partial[IncrementalSequence]
Trials = Callable[[str, dict[str, Any]], Recorded]


@pytest.mark.parametrize("composed", [True, False])  # whether the composed model is trained, as by IEL, or tau_t alone
def test_logits_and_gradients_by_hand(composed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    heads = AveragedHeads(3, torch.device("cpu"))
    x = torch.randn(5, 3, generator=generator)

    def draw(classes: int) -> Head:
        return torch.randn(classes, 3, generator=generator), torch.randn(classes, generator=generator)

    expected: list[tuple[Head, Head]] = []
    for t, classes in enumerate((2, 1, 3), start=1):
        start, anchor, end = (draw(classes) for _ in range(3))
        heads.begin(start)
        share = 1 / t if composed else 1.0
        heads.anchor_at(anchor, share)
        assert all(torch.equal(a, b) for a, b in zip(heads.current, start, strict=True))
        moved = [a + (s - a) * share for s, a in zip(start, anchor, strict=True)]
        torch.testing.assert_close(heads.local_logits(x), x @ moved[0].T + moved[1])
        heads.local_logits(x).sum().backward()  # the move's share of the gradient, and none for the anchor
        torch.testing.assert_close(heads.current[1].grad, torch.full((classes,), 5 * share))
        assert all(part.grad is None for part in heads.anchors.current)
        with torch.no_grad():
            for part, value in zip(heads.current, end, strict=True):
                part.copy_(value)
        heads.end()
        expected.append((anchor, end))
        rows = [torch.cat([a[i] + (e[i] - a[i]) / t for a, e in expected]) for i in (0, 1)]
        torch.testing.assert_close(heads.logits(x), x @ rows[0].T + rows[1])


@pytest.mark.parametrize(
    ("method", "formulation"),
    [
        *((method, "paper") for method in METHODS),
        ("ita-fft", "official"),
        ("ita-lora", "official"),
        ("iel-ia3", "official"),
    ],
)
def test_saved_heads_and_anchors_give_the_logits_that_were_evaluated(
    method: str, formulation: str, recorded: Trials
) -> None:
    more = {} if formulation == "paper" else {"formulation": formulation}
    trial = recorded(method, hyperparameters(method, heads="averaged", **more))
    learner: Any = trial.sequence.method
    x = shown(trial.sequence.benchmark.evaluation[0])
    saved = [read_vector(folder) for folder in vector_folders(trial.folder / "artifacts")]
    pairs = [(vector.anchor, vector.head) for vector in saved]
    assert len(pairs) == 3
    weight, bias = (torch.cat([a[i] + (h[i] - a[i]) / 3 for a, h in pairs]) for i in (0, 1))
    with torch.inference_mode():
        features = learner.vectors.model(x)
        torch.testing.assert_close(learner.predict(x), features @ weight.T + bias)
        trained = features @ learner.heads.weight.T + learner.heads.bias
    assert not torch.allclose(trained, learner.predict(x), atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_composition_of_the_saved_vectors_is_the_model_that_was_evaluated(
    method: str, recorded: Trials, tmp_path: Path
) -> None:
    """Also with heads averaged: what is loaded, exported and composed answers as the run's own test did."""
    trial = recorded(method, hyperparameters(method, heads="averaged"))
    pool = VectorPool(tuple(vector_folders(trial.folder / "artifacts")))
    network = network_for(pool, Backbone(), torch.device("cpu"))
    network.compose(pool, [1 / 3] * 3, pool.head())
    for images in trial.sequence.benchmark.evaluation:
        torch.testing.assert_close(network.predict(shown(images)), trial.sequence.method.predict(shown(images)))

    classes = tuple(vector.origin.classes for vector in pool)
    left = ReducedPool.of(pool, Removal(classes, frozenset(classes[0])))
    assert torch.equal(left.head()[0], pool.head()[0][classes[0].stop :]), "a removal changes no row that is left"
    for vector in left:
        write_vector(tmp_path, vector)
    assert torch.equal(VectorPool(tuple(vector_folders(tmp_path))).head()[0], left.head()[0]), "nor when it is saved"


@pytest.mark.parametrize("method", ["ita-lora", "iel-lora"])
def test_with_one_task_both_ways_are_the_same(method: str, recorded: Trials, make: Run) -> None:
    given = hyperparameters(method)
    default, concatenated = make(method, given), recorded(method, {**given, "heads": "concatenated"})
    averaged = recorded(method, {**given, "heads": "averaged"})
    assert run(default) == concatenated.rows
    assert concatenated.rows[0] == averaged.rows[0]
    assert set(default.state().tensors) == set(concatenated.state(3).tensors)
    assert not any("anchors" in name for name in default.state().tensors)


@pytest.mark.parametrize(("method", "same"), [("ita-lora", True), ("iel-lora", False)])
def test_training_sees_the_average_only_where_the_composed_model_is_trained(
    method: str, same: bool, recorded: Trials
) -> None:
    losses = [
        [row["train/loss"] for row in recorded(method, hyperparameters(method, heads=heads)).rows]
        for heads in ("concatenated", "averaged")
    ]
    assert losses[0][0] == losses[1][0] and (losses[0] == losses[1]) == same
