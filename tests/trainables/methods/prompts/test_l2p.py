"""L2P against brute force, a plain implementation of its first steps, and mammoth's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.methods.tiny_trials import EXACT, Pixels, learn, tiny_context, tiny_task
from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.methods.prompts import plain
from trainables.backbones import Backbone
from trainables.data import ImageSet, Task
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.prompts.l2p import L2PConfig, PromptPool, build
from trainables.methods.prompts.learner import PromptLearner
from trainables.randomness import make_generator

SMALL = {"pool_size": 4, "prompt_length": 2, "top_k": 2}


def pool_of(learner: PromptLearner) -> PromptPool:
    assert isinstance(learner.prompts, PromptPool)
    return learner.prompts


def plain_read(vit: Any, prompts: Tensor, keys: Tensor, image: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """z(x) and the sum of the chosen cosines, of one image."""
    cosines = [plain.cosine(plain.query(vit, image), key) for key in keys]
    chosen = sorted(range(len(keys)), key=lambda i: -cosines[i].item())[:top_k]
    tokens = plain.embedded(vit, image)
    inserted = torch.cat([prompts[i] for i in chosen]) + vit.pos_embed[0, 0]
    x = torch.cat([tokens[:1], inserted, tokens[1:]])
    for k in range(len(vit.blocks)):
        x = plain.block(vit, k, x)
    return vit.norm(x)[1 : 1 + len(inserted)].mean(0), sum(cosines[i] for i in chosen)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("changes", "lr", "options"),
    [
        ({}, 0.02 * 4 / 256, {}),
        ({"scale_lr": False, "clip_norm": 0.05, "pull_constraint": 2.0}, 0.02, {"clip": 0.05}),
        ({"scale_lr": False, "schedule": "cosine"}, 0.02, {"schedule": "cosine"}),
    ],
    ids=["defaults", "clipped", "cosine"],
)
def test_first_steps_are_those_of_a_plain_implementation(
    changes: dict[str, Any], lr: float, options: dict[str, Any]
) -> None:
    context = tiny_context(epochs=3)
    config = L2PConfig(lr=0.02, **SMALL, **changes)
    learner = build(context, config)
    pool, vit = pool_of(learner), make_tiny_vit()

    def loss(parts: Sequence[Tensor], image: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias, prompts, keys = parts
        features, cosines = plain_read(vit, prompts, keys, image, config.top_k)
        return plain.cross_entropy(weight @ features + bias, y), -config.pull_constraint * cosines

    for index in (1, 2):
        task = tiny_task(context, index, noise=0.1)
        learner.begin_task(task)
        start = [each.detach().clone() for each in (*learner.heads.current, *pool.trained())]
        given = {"schedule": "constant", "clip": 1.0, **options}
        wanted, mean = plain.train(task, context, start, loss, lr=lr, **given)
        assert learner.train_task(task)["train/loss"] == pytest.approx(mean, rel=1e-9)
        learner.end_task(task)
        rows = (learner.heads.weight[task.rows], learner.heads.bias[task.rows])
        for found, each in zip((*rows, *pool.trained()), wanted, strict=True):
            torch.testing.assert_close(found.detach(), each, **EXACT)


@pytest.mark.usefixtures("float64")
def test_a_batchs_composition_changes_no_prediction(images: Tensor) -> None:
    context = tiny_context()
    learner = build(context, L2PConfig(lr=1.0, pool_size=6, prompt_length=2, top_k=2))
    learn(learner, tiny_task(context, 1))
    pool = pool_of(learner)
    queries = pool.queries.compute(images)
    pool.keys.data.copy_(queries[::2])  # so that images choose differently
    whole = learner.predict(images)
    chosen, _ = pool.choose(queries)
    assert len({tuple(sorted(rows)) for rows in chosen.tolist()}) > 1  # a vote would change some of them
    torch.testing.assert_close(torch.cat([learner.predict(image[None]) for image in images]), whole, **EXACT)
    torch.testing.assert_close(learner.predict(images.flip(0)), whole.flip(0), **EXACT)


@pytest.mark.usefixtures("float64")
def test_only_what_an_image_chose_has_a_gradient(images: Tensor) -> None:
    pool = PromptPool(tiny_context(), L2PConfig(lr=1.0, pool_size=8, prompt_length=2, top_k=2))
    chosen, cosines = pool.choose(pool.queries.compute(images[:2]))
    assert cosines.shape == (2, 2) and bool((cosines[:, 0] >= cosines[:, 1]).all())
    (pool.features(images[:2], chosen).sin().sum() - cosines.sum()).backward()
    for parameter in pool.trained():
        assert parameter.grad is not None
        moved = set(parameter.grad.flatten(1).any(1).nonzero().flatten().tolist())
        assert moved == set(chosen.flatten().tolist()) and len(moved) < 8
    assert all(each.grad is None for each in pool.vit.parameters())


@pytest.mark.parametrize(("start", "low", "high"), [("port", -1.0, 1.0), ("jax", 0.0, 0.01)])
def test_prompts_and_keys_start_where_it_says(start: Any, low: float, high: float) -> None:
    pool = PromptPool(tiny_context(), L2PConfig(lr=1.0, start=start))
    assert pool.prompts.shape == (10, 5, 8) and pool.keys.shape == (10, 8)
    for parameter in pool.trained():
        assert low <= parameter.min().item() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < parameter.max().item() <= high


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    with np.load(Path(__file__).parent / "oracles" / "mammoth_l2p.npz", allow_pickle=False) as file:
        return {name: torch.from_numpy(np.asarray(file[name])) for name in file.files}


@pytest.fixture
def mammoth(oracle: dict[str, Any]) -> PromptLearner:
    """Ours with mammoth's start, and batches of 8."""
    context = tiny_context((2, 2, 6), backbone=Backbone(), epochs=1, batch_size=8)
    lr = float(oracle["lr_effective"]) * 256 / 8
    learner = build(context, L2PConfig(lr=lr, pool_size=10, prompt_length=2, top_k=4))
    pool_of(learner).load_state(
        type(pool_of(learner).state())({"prompts": oracle["prompt"], "keys": oracle["prompt_key"]})
    )
    return learner


def in_order(oracle: dict[str, Any], t: int) -> Task:
    """The images of its task t such that a pass over them, which shuffles, has them in its order."""
    order = torch.randperm(24, generator=make_generator(0, "finetune", t + 1))
    x, y = torch.empty_like(oracle["x"][t]), torch.empty_like(oracle["y"][t])
    x[order], y[order] = oracle["x"][t], oracle["y"][t]
    images = ImageSet(x, y, Pixels())
    return Task(t + 1, range(2 * t, 2 * t + 2), images, images)


def test_a_forward_pass_is_mammoths(oracle: dict[str, Any], mammoth: PromptLearner) -> None:
    pool, x = pool_of(mammoth), oracle["x"][0, :8]
    close = {"rtol": 1e-4, "atol": 1e-5}
    positions = torch.cat([pool.position.expand(8, 64), pool.vit.vit.pos_embed[0, 1:]])
    assert torch.equal(torch.cat([pool.position[None], positions]), oracle["pos_embed"][0])
    query = pool.queries.compute(x)
    torch.testing.assert_close(query, oracle["query"], **close)
    torch.testing.assert_close(F.normalize(query) @ F.normalize(pool.keys).T, oracle["similarity"], **close)
    chosen, cosines = pool.choose(query)
    assert torch.equal(chosen, oracle["prompt_idx"])
    assert cosines.sum().item() / 8 == pytest.approx(float(oracle["reduce_sim"]), rel=1e-5)
    features = pool.features(x, chosen)
    torch.testing.assert_close(features, oracle["pre_logits"], **close)
    torch.testing.assert_close(features @ oracle["head_w"].T + oracle["head_b"], oracle["logits"], **close)


def test_no_batch_votes_as_mammoths_option_would(oracle: dict[str, Any], mammoth: PromptLearner) -> None:
    chosen, _ = pool_of(mammoth).choose(oracle["query"])
    counts = torch.bincount(chosen.flatten(), minlength=10)
    vote = oracle["prompt_idx_batchwise"]
    assert bool((vote == vote[0]).all()) and torch.equal(counts[vote[0]], counts.topk(4).values)
    differ = [set(mine) != set(vote[0].tolist()) for mine in chosen.tolist()]
    assert sum(differ) >= 6


def test_six_steps_are_mammoths(oracle: dict[str, Any], mammoth: PromptLearner, monkeypatch: Any) -> None:
    pool, losses, read = pool_of(mammoth), [], pool_of(mammoth).read

    def recording(batch: Any) -> tuple[Tensor, Tensor]:
        features, penalty = read(batch)
        logits = mammoth.heads.local_logits(features)
        losses.append((F.cross_entropy(logits, batch.y - batch.y.min()) + penalty).item())
        return features, penalty

    monkeypatch.setattr(pool, "read", recording)
    for t in range(2):
        task = in_order(oracle, t)
        mammoth.begin_task(task)
        mammoth.heads.begin((oracle["head_w"][task.rows], oracle["head_b"][task.rows]))
        mammoth.train_task(task)
        mammoth.end_task(task)
        # Adam's first steps are signs of gradients: where one is near 0, rounding decides it, for a step of 0.001.
        for mine, name in ((pool.prompts, "prompt"), (pool.keys, "key")):
            torch.testing.assert_close(mine.detach(), oracle[f"{name}_after_task{t}"], rtol=0, atol=2e-5)
        wanted = oracle[f"head_w_after_task{t}"]
        torch.testing.assert_close(mammoth.heads.weight, wanted[: task.classes.stop], rtol=0, atol=2e-5)
        assert torch.equal(wanted[task.classes.stop :], oracle["head_w"][task.classes.stop :])
    assert losses == pytest.approx(oracle["losses"].tolist(), abs=1e-5)


def test_more_prompts_than_there_are_is_refused() -> None:
    entry = get_method("l2p")
    entry.validate(entry.parse({"lr": 1.0, "pool_size": 5}), tiny_context())
    with pytest.raises(InputError, match=r"^l2p: hyperparameter 'top_k': must be at most pool_size \(4\), got 5$"):
        entry.validate(entry.parse({"lr": 1.0, "pool_size": 4}), tiny_context())
