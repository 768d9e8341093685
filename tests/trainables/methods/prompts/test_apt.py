"""APT against the masked sequence of all tokens, and a plain implementation of its first steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.methods.tiny_trials import EXACT, TinyBackbone, learn, tiny_context, tiny_task
from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.methods.prompts import plain
from trainables.methods.prompts.apt import START_STD, APTConfig, SeparatePrompts, build
from trainables.methods.prompts.frozen import class_position, embedded_class_token
from trainables.methods.prompts.learner import PromptLearner
from trainables.randomness import make_generator


def prompts_of(learner: PromptLearner) -> SeparatePrompts:
    assert isinstance(learner.prompts, SeparatePrompts)
    return learner.prompts


def random(*shape: int, label: str = "rows") -> Tensor:
    return torch.randn(*shape, generator=make_generator(0, label), dtype=torch.float64)


def masked_sequence(vit: Any, image: Tensor, prompts: Tensor, memory: Tensor) -> Tensor:
    """All tokens of one image and all prompts after the final norm, `(n + t, d)`: every layer sees its memory too.

    Memory tokens attend to themselves alone, and what comes of them is dropped.
    """
    x, t = plain.embedded(vit, image), len(prompts)
    n, m = len(x), memory.shape[2]
    allowed = torch.zeros(n + t + t * m, n + t + t * m, dtype=torch.bool)
    allowed.fill_diagonal_(True)
    allowed[: n + t, :n] = True
    for i in range(t):
        own = n + t + i * m
        allowed[n + i, own : own + m] = True
    x = torch.cat([x, prompts])
    for k in range(len(vit.blocks)):
        x = plain.block(vit, k, torch.cat([x, *memory[:, k]]), allowed=allowed)[: n + t]
    return vit.norm(x)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("m", [0, 1, 3])
def test_the_cheap_form_is_the_masked_sequence(images: Tensor, m: int) -> None:
    ours, vit = SeparatePrompts(tiny_context(), APTConfig(lr=1.0, memory_tokens=m)), make_tiny_vit()
    prompts, memory = random(3, 8), random(3, 2, m, 8, label="memory")
    got = ours.tokens(images[:4], prompts, memory)
    for image, mine in zip(images, got, strict=False):
        whole = masked_sequence(vit, image, prompts, memory)
        torch.testing.assert_close(mine, whole[5:], **EXACT)
        torch.testing.assert_close(whole[:5], vit.forward_features(image[None])[0], **EXACT)  # as without prompts


@pytest.mark.usefixtures("float64")
def test_a_prompt_is_as_if_the_others_were_not_there(images: Tensor) -> None:
    ours = SeparatePrompts(tiny_context(), APTConfig(lr=1.0))
    prompts, memory = random(3, 8), random(3, 2, 5, 8, label="memory")
    whole = ours.tokens(images, prompts, memory)
    for i in range(3):
        alone = ours.tokens(images, prompts[i : i + 1], memory[i : i + 1])
        torch.testing.assert_close(alone[:, 0], whole[:, i], **EXACT)
    assert not torch.allclose(ours.tokens(images, prompts[:1], memory[1:2])[:, 0], whole[:, 0])  # memory matters


@pytest.mark.usefixtures("float64")
def test_nothing_is_differentiated_through_image_tokens(images: Tensor) -> None:
    ours = SeparatePrompts(tiny_context(), APTConfig(lr=1.0))
    x, prompts, memory = (each.requires_grad_() for each in (images, random(2, 8), random(2, 2, 5, 8)))
    read = ours.tokens(x, prompts, memory)
    gradients = torch.autograd.grad(read[:, 0].sin().sum(), [x, prompts, memory], allow_unused=True)
    assert gradients[0] is None
    for gradient in gradients[1:]:
        assert gradient[0].any() and not gradient[1].any()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_first_steps_are_those_of_a_plain_implementation(schedule: Any) -> None:
    context = tiny_context(epochs=3)
    learner = build(context, APTConfig(lr=0.02, memory_tokens=2, schedule=schedule))
    ours, vit = prompts_of(learner), make_tiny_vit()

    def loss(parts: Sequence[Tensor], image: Tensor, y: Tensor) -> Any:
        weight, bias, prompt, memory = parts
        features = masked_sequence(vit, image, prompt[None], memory[None])[5]
        return plain.cross_entropy(weight @ features + bias, y), 0

    for index in (1, 2):
        task = tiny_task(context, index, noise=0.1)
        learner.begin_task(task)
        start = [each.detach().clone() for each in (*learner.heads.current, *ours.trained())]
        assert [each.shape for each in start[2:]] == [(8,), (2, 2, 8)]
        wanted, mean = plain.train(task, context, start, loss, lr=0.02, schedule=schedule)
        assert learner.train_task(task)["train/loss"] == pytest.approx(mean, rel=1e-9)
        learner.end_task(task)
        finished = (learner.heads.weight[task.rows], learner.heads.bias[task.rows], ours.prompts[-1], ours.memory[-1])
        for mine, theirs in zip(finished, wanted, strict=True):
            torch.testing.assert_close(mine, theirs, **EXACT)


@pytest.mark.usefixtures("float64")
def test_logits_of_a_task_are_its_own_prompts_and_never_change(images: Tensor) -> None:
    context = tiny_context((2, 1, 3))
    learner, vit, before = build(context, APTConfig(lr=0.1)), make_tiny_vit(), torch.empty(12, 0)
    ours = prompts_of(learner)
    for index in (1, 2, 3):
        task = tiny_task(context, index)
        learn(learner, task)
        logits = learner.predict(images)
        torch.testing.assert_close(logits[:, : task.classes.start], before, **EXACT)
        read = masked_sequence(vit, images[0], ours.prompts, ours.memory)[4 + index]
        wanted = learner.heads.weight[task.rows] @ read + learner.heads.bias[task.rows]
        torch.testing.assert_close(logits[0, task.rows], wanted, **EXACT)
        before = logits
    state = learner.state()
    assert len(state.constant) == 6 and not any("prompts" in name for name in state.tensors)
    resumed = build(context, APTConfig(lr=0.1))
    resumed.load_state(state)
    torch.testing.assert_close(resumed.predict(images), logits, **EXACT)


@pytest.mark.usefixtures("float64")
def test_where_prompts_start() -> None:
    context = tiny_context(backbone=TinyBackbone(options={"width": 64}))
    started = {}
    for start in ("class_token", "normal"):
        ours = SeparatePrompts(context, APTConfig(lr=1.0, memory_tokens=50, start=start))
        for index in (1, 2):
            ours.begin(tiny_task(context, index))
            started[start, index] = [each.detach().clone() for each in ours.trained()]
    token = embedded_class_token(ours.vit)
    for index in (1, 2):
        torch.testing.assert_close(started["class_token", index][0], token + started["normal", index][0], **EXACT)
        for drawn in started["normal", index]:
            assert 0.7 * START_STD < drawn.std().item() < 1.3 * START_STD
    assert not torch.equal(started["normal", 1][0], started["normal", 2][0])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", [{}, {"no_embed_class": True}, {"pre_norm": True}, {"pos_embed": "none"}])
def test_the_class_token_is_embedded_as_the_vit_does(options: dict[str, Any], images: Tensor) -> None:
    ours = SeparatePrompts(tiny_context(backbone=TinyBackbone(options=options)), APTConfig(lr=1.0))
    token = embedded_class_token(ours.vit)
    torch.testing.assert_close(ours.vit.embed(images)[:, 0], token.expand(12, 8), **EXACT)
    assert class_position(ours.vit).any() == (options in ({}, {"pre_norm": True}))
