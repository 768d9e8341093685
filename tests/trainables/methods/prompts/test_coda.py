"""CODA-Prompt against a plain implementation of its first steps and its authors' module; Gram-Schmidt against a QR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.methods.tiny_trials import EXACT, TinyBackbone, learn, tiny_context, tiny_task
from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.methods.prompts import plain
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.prompts.coda import PARTS, CODAConfig, Components, build, orthogonal_rows, weighted_sum
from trainables.methods.prompts.learner import PromptLearner
from trainables.randomness import make_generator

SMALL = {"pool_size": 5, "prompt_length": 4}


def components_of(learner: PromptLearner) -> Components:
    assert isinstance(learner.prompts, Components)
    return learner.prompts


def plain_read(vit: Any, layers: list[list[tuple[Tensor, Tensor, Tensor]]], image: Tensor) -> Tensor:
    """z(x) of one image; each layer is a list of components (p, K, A)."""
    q, x = plain.query(vit, image), plain.embedded(vit, image)
    for k in range(len(vit.blocks)):
        if k < len(layers):
            prefix = sum(plain.cosine(q * attention, key) * prompt for prompt, key, attention in layers[k])
            half = len(prefix) // 2
            x = plain.block(vit, k, x, prefix[:half], prefix[half:])
        else:
            x = plain.block(vit, k, x)
    return vit.norm(x)[0]


def plain_penalty(layers: list[list[tuple[Tensor, Tensor, Tensor]]]) -> Tensor:
    """Of each layer and part, the mean square distance of all pairs' products from those of orthonormal rows."""
    total = torch.zeros(())
    for layer in layers:
        for part in range(3):
            rows = [component[part].flatten() for component in layer]
            squares = [(a @ b - float(i == j)) ** 2 for i, a in enumerate(rows) for j, b in enumerate(rows)]
            total = total + sum(squares) / len(squares)
    return total


def layers_of(finished: list[list[Any]], parts: Sequence[Tensor]) -> list[list[Any]]:
    """Components of every layer, those of the current task last."""
    new = [[tuple(part[k][m] for part in parts) for m in range(parts[0].shape[1])] for k in range(len(finished))]
    return [before + now for before, now in zip(finished, new, strict=True)]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "changes",
    [{}, {"layers": 1, "schedule": "constant"}, {"ortho_mu": 0.3, "ortho_start": "span"}, {"schedule": "late"}],
    ids=["defaults", "one layer, constant", "penalty, span", "late"],
)
def test_first_steps_are_those_of_a_plain_implementation(changes: dict[str, Any]) -> None:
    context = tiny_context(epochs=3)
    config = CODAConfig(lr=0.02, **SMALL, **changes)
    learner = build(context, config)
    ours, vit = components_of(learner), make_tiny_vit()
    finished: list[list[Any]] = [[] for _ in range(2 if config.layers == "authors" else config.layers)]
    for index in (1, 2):
        task = tiny_task(context, index, noise=0.1)
        learner.begin_task(task)
        start = [each.detach().clone() for each in (*learner.heads.current, *ours.trained())]
        assert [each.shape[1] for each in start[2:]] == [2, 2, 2]  # of 5 for two tasks

        def loss(parts: Sequence[Tensor], image: Tensor, y: Tensor, finished: Any = finished) -> Any:
            features = plain_read(vit, layers_of(finished, parts[2:]), image)
            return plain.cross_entropy(parts[0] @ features + parts[1], y), 0

        def penalty(parts: Sequence[Tensor], finished: Any = finished) -> Tensor:
            return config.ortho_mu * plain_penalty(layers_of(finished, parts[2:]))

        wanted, mean = plain.train(task, context, start, loss, lr=0.02, once=penalty, schedule=config.schedule)
        assert learner.train_task(task)["train/loss"] == pytest.approx(mean, rel=1e-9)
        for mine, theirs in zip((*learner.heads.current, *ours.trained()), wanted, strict=True):
            torch.testing.assert_close(mine.detach(), theirs, rtol=1e-9, atol=1e-9)
        learner.end_task(task)
        finished = layers_of(finished, wanted[2:])


@pytest.mark.usefixtures("float64")
def test_predictions_are_those_of_all_components(images: Tensor) -> None:
    context = tiny_context((1, 2, 1))
    learner = build(context, CODAConfig(lr=0.1, **{**SMALL, "pool_size": 6}))
    ours, vit = components_of(learner), make_tiny_vit()
    for index in (1, 2, 3):
        learn(learner, tiny_task(context, index))
        layers = [[tuple(ours.past[name][k][m] for name in PARTS) for m in range(2 * index)] for k in range(2)]
        features = torch.stack([plain_read(vit, layers, image) for image in images[:3]])
        wanted = features @ learner.heads.weight.T + learner.heads.bias
        torch.testing.assert_close(learner.predict(images[:3]), wanted, **EXACT)


@pytest.mark.usefixtures("float64")
def test_finished_components_and_the_vit_do_not_move() -> None:
    context = tiny_context((2, 2, 2))
    learner = build(context, CODAConfig(lr=0.5, ortho_mu=1.0, **SMALL))
    ours = components_of(learner)
    frozen = {name: value.clone() for name, value in ours.vit.state_dict().items()}
    kept: dict[str, Tensor] = {}
    for index in (1, 2, 3):
        task = tiny_task(context, index)
        learner.begin_task(task)
        starts = [each.detach().clone() for each in ours.trained()]
        learner.train_task(task)
        assert all(not torch.equal(a, b) for a, b in zip(starts, ours.trained(), strict=True))
        learner.end_task(task)
        state = learner.state()
        assert not any("prompts" in name for name in state.tensors)
        assert all(torch.equal(state.constant[name], value) for name, value in kept.items())
        assert len(state.constant) == 3 * index
        kept = {name: value.clone() for name, value in state.constant.items()}
    assert all(torch.equal(value, frozen[name]) for name, value in ours.vit.state_dict().items())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("ortho_start", ["rows", "span"])
def test_components_start_orthogonal(ortho_start: Any) -> None:
    context = tiny_context((2, 2, 2))  # one class alone would train nothing
    learner = build(context, CODAConfig(lr=0.5, pool_size=6, prompt_length=2, ortho_start=ortho_start))
    ours = components_of(learner)
    for index in (1, 2, 3):
        task = tiny_task(context, index)
        learner.begin_task(task)
        for name in PARTS:
            past, new = ours.past[name].flatten(2), ours.current[name].detach().flatten(2)
            assert new.shape[:2] == (2, 2)
            torch.testing.assert_close(new.norm(dim=2), torch.ones(2, 2), **EXACT)
            if ortho_start == "span" or index == 1:
                torch.testing.assert_close(new @ new.mT, torch.eye(2).expand(2, 2, 2), **EXACT)
                assert index == 1 or (new @ past.mT).abs().max() < 1e-9
            assert not torch.equal(new[0], new[1])  # every layer has draws of its own
        learner.train_task(task)
        learner.end_task(task)


@pytest.mark.parametrize(("start", "bound", "bias"), [("normal", 0.0, False), ("linear", 1 / 8, True)])
def test_heads_start_where_it_says(start: Any, bound: float, bias: bool) -> None:
    context = tiny_context((200,), backbone=TinyBackbone(options={"width": 64}))
    learner = build(context, CODAConfig(lr=1.0, pool_size=1, head_start=start))
    learner.begin_task(tiny_task(context, 1, images=200))
    weight, rows = (each.detach() for each in learner.heads.current)
    if start == "linear":
        for part in (weight, rows):
            assert -bound <= part.min() < -0.95 * bound and 0.95 * bound < part.max() <= bound
    assert weight.std().item() == pytest.approx(0.02 if start == "normal" else bound / 3**0.5, rel=0.05)
    assert bool(rows.any()) == bias


@pytest.mark.parametrize(("depth", "layers"), [(2, 2), (7, 5)])
def test_five_layers_are_prompted_or_all_of_a_shorter_vit(depth: int, layers: int) -> None:
    context = tiny_context(backbone=TinyBackbone(options={"depth": depth}))
    assert Components(context, CODAConfig(lr=1.0, **SMALL)).past["keys"].shape == (layers, 0, 8)


@pytest.fixture(scope="module")
def oracle() -> dict[str, Tensor]:
    with np.load(Path(__file__).parent / "oracles" / "coda_prompt_module.npz", allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def test_three_tasks_are_those_of_the_authors_module(oracle: dict[str, Tensor]) -> None:
    context = tiny_context((1, 1, 1), backbone=TinyBackbone(options={"width": 16}))
    ours = Components(context, CODAConfig(lr=1.0, pool_size=6, prompt_length=4, layers=1))
    close = {"rtol": 1e-5, "atol": 1e-6}
    names = dict(zip(PARTS, "pka", strict=True))
    for t in range(3):
        rows, past = slice(2 * t, 2 * t + 2), slice(0, 2 * t)
        for name, short in names.items():
            start = oracle[f"start_t{t}_{short}"]
            assert torch.equal(ours.past[name][0], start[past]) and not start[2 * t + 2 :].any()
            lengths = start[rows].flatten(1).norm(dim=1)
            torch.testing.assert_close(lengths, torch.ones(2), **close)
            products = start[rows].flatten(1) @ start[past].flatten(1).T
            assert t == 0 or products.abs().max() > 0.01  # the departure that `ortho_start: span` undoes
            ours.current[name] = nn.Parameter(start[None, rows].clone())
        prefix = ours.prompts(oracle["query"])[0]
        for mode in ("train", "eval"):
            torch.testing.assert_close(prefix, oracle[f"P_t{t}_{mode}"], **close)
        (prefix * oracle["upstream"]).sum().backward()
        for name, short in names.items():
            wanted = oracle[f"grad_t{t}_{short}"]
            torch.testing.assert_close(ours.current[name].grad, wanted[None, rows], **close)
            assert not wanted[past].any() and not ours.past[name].requires_grad
            end = oracle[f"end_t{t}_{short}"]
            assert torch.equal(end[past], oracle[f"start_t{t}_{short}"][past])
            ours.current[name] = nn.Parameter(end[None, rows].clone())
        ours.end()


@pytest.mark.parametrize("zeroed", ["keys", "attentions"])
def test_a_component_of_zeros_has_weight_zero_as_in_the_authors_code(zeroed: str) -> None:
    queries = torch.randn(2, 5, generator=make_generator(0, "queries"))
    one_hot = torch.eye(3)[None, :, None]  # so that entry m of the sum is the weight of component m
    parts = {name: torch.randn(1, 3, 5, generator=make_generator(0, name)) for name in ("keys", "attentions")}
    before = weighted_sum(queries, one_hot, **parts)[0, :, 0]
    parts[zeroed][0, 1] = 0
    leaves = {name: part.requires_grad_() for name, part in parts.items()}
    got = weighted_sum(queries, one_hot, **leaves)[0, :, 0]
    assert not got[:, 1].any() and torch.equal(got[:, [0, 2]], before[:, [0, 2]])
    products = F.normalize(queries[:, None] * leaves["attentions"][0], dim=2)
    theirs = torch.einsum("bkd,kd->bk", products, F.normalize(leaves["keys"][0], dim=1))
    torch.testing.assert_close(got, theirs)
    for mine, wanted in zip(
        *(torch.autograd.grad(sum_.sum(), [*leaves.values()]) for sum_ in (got, theirs)), strict=True
    ):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool_size": 1}, r"'pool_size': must be at least the number of tasks \(2\), got 1$"),
        ({"pool_size": 18}, r"'pool_size': a task's components must be at most the backbone's width \(8\) .*, got 9$"),
        (
            {"pool_size": 9, "ortho_start": "span"},
            r"'pool_size': the pool's components must be at most the backbone's width \(8\) to be orthogonal, got 9$",
        ),
        ({"prompt_length": 3}, "'prompt_length': must be even, got 3$"),
        ({"layers": 3}, r"'layers': must be at most the backbone's blocks \(2\), got 3$"),
    ],
)
def test_what_cannot_run_is_refused(changes: dict[str, Any], message: str) -> None:
    entry = get_method("coda")
    entry.validate(entry.parse({"lr": 1.0, "pool_size": 16, "layers": 2}), tiny_context())
    with pytest.raises(InputError, match=f"^coda: hyperparameter {message}"):
        entry.validate(entry.parse({"lr": 1.0, "pool_size": 16, **changes}), tiny_context())


def random(*shape: int, label: str = "rows") -> Tensor:
    return torch.randn(*shape, generator=make_generator(0, label), dtype=torch.float64)


def by_qr(rows: Tensor) -> Tensor:
    """Orthonormal rows `(n, d)` with the signs of Gram-Schmidt."""
    q, r = torch.linalg.qr(rows.T)
    return (q * r.diagonal().sign()).T


def test_it_is_a_qr_where_nothing_was_there() -> None:
    draws = random(3, 4, 7)
    got = orthogonal_rows(torch.empty(3, 0, 7, dtype=torch.float64), draws)
    torch.testing.assert_close(got, torch.stack([by_qr(layer) for layer in draws]), **EXACT)


def test_it_is_a_qr_after_rows_that_are_orthogonal_of_any_length() -> None:
    past, draws = torch.stack([by_qr(random(2, 7))] * 3), random(3, 4, 7, label="draws")
    got = orthogonal_rows(past * torch.tensor([[0.5], [3.0]]), draws)
    wanted = torch.stack([by_qr(torch.cat(pair))[2:] for pair in zip(past, draws, strict=True)])
    torch.testing.assert_close(got, wanted, **EXACT)


def test_trained_rows_are_taken_out_as_they_are() -> None:
    past, draws = random(2, 3, 7), random(2, 2, 7, label="draws")
    for layer, got in enumerate(orthogonal_rows(past, draws)):
        rows = list(past[layer])
        for draw in draws[layer]:
            rows.append(draw - sum((draw @ row) / (row @ row) * row for row in rows))
        wanted = torch.stack([row / row.norm() for row in rows[3:]])
        torch.testing.assert_close(got, wanted, **EXACT)
        assert (got @ past[layer].T).abs().max() > 0.01  # what the authors' code does, too


@pytest.mark.parametrize("taken", [7, 6])
def test_where_no_direction_is_left_new_rows_are_orthogonal_among_themselves(taken: int) -> None:
    past, draws = by_qr(random(taken, 7))[None], random(1, 3, 7, label="draws")
    got = orthogonal_rows(past, draws)[0]
    torch.testing.assert_close(got @ got.T, torch.eye(3, dtype=torch.float64), **EXACT)
    if taken == 6:
        assert (got[0] @ past[0].T).abs().max() < 1e-9


def test_rows_are_left_out_in_a_layer_without_room_and_stay_in_the_others() -> None:
    full, two, draws = by_qr(random(7, 7)), by_qr(random(2, 7, label="two")), random(2, 3, 7, label="draws")
    got = orthogonal_rows(torch.stack([full, torch.cat([two, torch.zeros(5, 7).double()])]), draws)
    torch.testing.assert_close(got[0], by_qr(draws[0]), **EXACT)
    torch.testing.assert_close(got[1], by_qr(torch.cat([two, draws[1]]))[2:], **EXACT)


def test_it_does_not_matter_how_long_draws_are() -> None:
    past, draws = torch.stack([by_qr(random(3, 7))] * 2), random(2, 2, 7, label="draws")
    for scale in (1e-9, 1e9):
        torch.testing.assert_close(orthogonal_rows(past, draws * scale), orthogonal_rows(past, draws), **EXACT)
