"""Queries of the frozen ViT, and backbones that no prompt can be given to."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest import mock

import pytest
import torch

from tests.support.methods.tiny_trials import EXACT, Pixels, TinyBackbone, learn, tiny_context, tiny_task
from trainables.data import Task
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.prompts.frozen import Queries, load_frozen


@dataclasses.dataclass(frozen=True)
class Otherwise(Pixels):
    """The same transform under another class, so that the two are not equal."""


def batches(task: Task) -> Any:
    return task.train.batches(4, torch.Generator().manual_seed(3), shuffle=True)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_queries_are_class_tokens_of_what_the_batch_shows(noise: float) -> None:
    context = tiny_context()
    vit = load_frozen(context)
    queries, task = Queries(context, vit), tiny_task(context, 2, images=7, noise=noise)
    queries.begin(task)
    assert (queries.known is None) == (noise > 0)
    for batch in batches(task):
        torch.testing.assert_close(queries.of(batch), vit.vit(batch.x), **EXACT)
        assert not queries.of(batch).requires_grad
    queries.begin(tiny_task(context, 1, noise=0.5))
    assert queries.known is None  # those of another task are gone


@pytest.mark.usefixtures("float64")
def test_without_augmentation_each_image_is_looked_at_once() -> None:
    context = tiny_context()
    vit = load_frozen(context)
    queries, task = Queries(context, vit), tiny_task(context, 1, images=7)
    with mock.patch.object(Queries, "compute", autospec=True, side_effect=Queries.compute) as compute:
        queries.begin(task)
        for _ in range(3):
            for batch in batches(task):
                queries.of(batch)
    assert sum(len(call.args[1]) for call in compute.call_args_list) == 7


def test_queries_are_computed_in_the_precision_of_the_trial(images: torch.Tensor) -> None:
    vit = load_frozen(tiny_context())
    vit.vit.float()  # autocast leaves float64 as it is
    exact, rounded = (Queries(tiny_context(precision=each), vit).compute(images.float()) for each in ("fp32", "bf16"))
    torch.testing.assert_close(rounded, exact, rtol=0.1, atol=0.1)
    assert not torch.allclose(rounded, exact, rtol=0.0, atol=1e-4)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("method", ["l2p", "coda"])
def test_queries_that_are_looked_up_change_nothing(method: str, images: torch.Tensor) -> None:
    context, logits = tiny_context(), []
    entry = get_method(method)
    for transform in (Pixels(), Otherwise()):
        learner: Any = entry.build(context, entry.parse({"lr": 0.1}))
        task = tiny_task(context, 1, images=7)
        task = dataclasses.replace(task, train=dataclasses.replace(task.train, transform=transform))
        learn(learner, task)
        assert (learner.prompts.queries.known is None) == isinstance(transform, Otherwise)
        logits.append(learner.predict(images))
    torch.testing.assert_close(*logits, **EXACT)


@pytest.mark.parametrize("method", ["l2p", "coda", "apt"])
def test_a_backbone_that_no_prompt_can_be_given_to_is_refused(method: str) -> None:
    entry = get_method(method)
    config = entry.parse({"lr": 0.1, **({"pool_size": 16} if method == "coda" else {})})
    entry.validate(config, tiny_context())
    closed = TinyBackbone("some_vit", closed="it has no class token")
    wanted = f"^{method}: backbone 'some_vit' cannot be opened at its tokens: it has no class token; allowed: a timm"
    with pytest.raises(InputError, match=wanted):
        entry.validate(config, tiny_context(backbone=closed))
