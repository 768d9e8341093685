"""InfLoRA: two tasks against plain loops, and the branches."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from tausearch.testing.recording import shown
from tests.support.methods.tiny_trials import (
    TinyBackbone,
    Weights,
    learn,
    plain_training,
    tiny_context,
    tiny_tasks,
)
from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import Backbone
from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.heads import Head, new_head
from trainables.methods import Context, Scenario, get_method
from trainables.methods.inflora.branches import KeyValueBranch, branch_keys_and_values
from trainables.methods.inflora.learner import InfLoRA, InfLoRAConfig
from trainables.randomness import make_generator

RANK, LR, EPSILON = 2, 0.01, 0.6
LAYERS = ("blocks.0.attn.qkv", "blocks.1.attn.qkv")
pytestmark = pytest.mark.usefixtures("float64")


class Plain:
    """InfLoRA by loops: keys and values with their sums of products, moments token by token, DualGPM by two SVDs."""

    def __init__(self, context: Context, schedule: str = "cosine") -> None:
        self.context, self.model, self.schedule = context, make_tiny_vit(), schedule
        self.added = {layer: torch.zeros(16, 8) for layer in LAYERS}
        self.bases: dict[str, Any] = {}
        self.heads: list[tuple[Tensor, Tensor]] = []

    def features(self, x: Tensor, extra: dict[str, Tensor]) -> Tensor:
        weights = {}
        for layer in LAYERS:
            old = self.model.get_submodule(layer).weight.detach()
            weights[f"{layer}.weight"] = torch.cat([old[:8], old[8:] + self.added[layer] + extra.get(layer, 0)])
        return functional_call(self.model, weights, (x,))

    def read(self, x: Tensor) -> dict[str, Tensor]:
        read: dict[str, Tensor] = {}

        def keep(layer: str) -> Any:
            return lambda _, args: read.__setitem__(layer, args[0].detach())

        hooks = [self.model.get_submodule(layer).register_forward_pre_hook(keep(layer)) for layer in LAYERS]
        self.features(x, {})
        for hook in hooks:
            hook.remove()
        return read

    def moments(self, task: Task, when: str) -> dict[str, np.ndarray]:
        generator = make_generator(self.context.seed, f"moments-{when}", task.index)
        sums, tokens = {layer: np.zeros((8, 8)) for layer in LAYERS}, 0
        for batch in task.train.batches(self.context.batch_size, generator, shuffle=False):
            read = self.read(batch.x)
            for layer in LAYERS:
                for token in read[layer].flatten(0, 1).numpy():
                    sums[layer] += np.outer(token, token)
            tokens += read[layer].flatten(0, 1).shape[0]
        return {layer: total / tokens for layer, total in sums.items()}

    def design(self, h: np.ndarray, layer: str) -> Tensor:
        m = self.bases.get(layer, np.zeros((8, 0)))
        u, _, _ = np.linalg.svd(h - m @ m.T @ h)
        return torch.from_numpy(u[:, :RANK].T / math.sqrt(3))

    def protect(self, h: np.ndarray, layer: str, share: float) -> None:
        s = np.linalg.svd(h)[1]
        if layer not in self.bases:
            u, count = np.linalg.svd(h)[0], int((np.cumsum(s**2 / (s**2).sum()) < share).sum())
            self.bases[layer] = u[:, : max(count, 1)]
            return
        m = self.bases[layer]
        u, left, _ = np.linalg.svd(h - m @ m.T @ h)
        covered, count = 1 - (left**2).sum() / (s**2).sum(), 0
        while covered < share:
            covered += left[count] ** 2 / (s**2).sum()
            count += 1
        self.bases[layer] = np.hstack([m, u[:, :count]])

    def learn(self, task: Task, head: tuple[Tensor, Tensor]) -> None:
        designs = {layer: self.design(h, layer) for layer, h in self.moments(task, "before").items()}
        names = [f"{layer}/{part}" for layer in LAYERS for part in "kv"]
        start = {name: torch.zeros(8, RANK) for name in names} | {"weight": head[0], "bias": head[1]}

        def loss(leaves: Weights, batch: Batch) -> Tensor:
            extra = {each: torch.cat([leaves[f"{each}/{part}"] @ designs[each] for part in "kv"]) for each in LAYERS}
            scores = self.features(batch.x, extra) @ leaves["weight"].T + leaves["bias"]
            return -scores.log_softmax(1)[torch.arange(len(batch.y)), batch.y - task.classes.start].mean()

        trained = plain_training(task, self.context, start, loss, lr=LR, schedule=self.schedule)
        for layer in LAYERS:
            self.added[layer] += torch.cat([trained[f"{layer}/{part}"] @ designs[layer] for part in "kv"])
        self.heads.append((trained["weight"], trained["bias"]))
        share = EPSILON + (1 - EPSILON) * (task.index - 1) / self.context.num_tasks
        for layer, h in self.moments(task, "after").items():
            self.protect(h, layer, share)

    def logits(self, x: Tensor) -> Tensor:
        return torch.cat([self.features(x, {}) @ weight.T + bias for weight, bias in self.heads], 1)


def head_at_start(start: str, context: Context, task: Task) -> Head:
    """Return the rows of every method here, or those of the authors' `nn.Linear` (a layer per task, with bias)."""
    generator = make_generator(context.seed, "head", task.index)
    if start == "normal":
        return new_head(len(task.classes), 8, generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        layer = nn.Linear(8, len(task.classes))
    return layer.weight.detach(), layer.bias.detach()


@pytest.mark.parametrize(
    "changes",
    [{}, {"schedule": "late"}, {"schedule": "late", "head_start": "linear"}],
    ids=["defaults", "late", "late, linear"],
)
def test_three_uneven_tasks_are_those_of_plain_loops(changes: dict[str, Any]) -> None:
    tasks = tiny_tasks((2, 3, 2), per_class=5)
    context = tiny_context(tasks)
    config = InfLoRAConfig(lr=LR, epsilon=EPSILON, r=RANK, **changes)
    method, plain = InfLoRA(context, config), Plain(context, changes.get("schedule", "cosine"))
    for task in tasks:
        method.begin_task(task)
        head = head_at_start(changes.get("head_start", "normal"), context, task)
        for mine, wanted in zip(method.heads.current, head, strict=True):
            torch.testing.assert_close(mine.detach(), wanted, rtol=1e-14, atol=0)
        method.train_task(task)
        method.end_task(task)
        plain.learn(task, head)
        x = shown(task.unaugmented)
        torch.testing.assert_close(method.predict(x), plain.logits(x), rtol=0, atol=1e-9)
        for layer in LAYERS:
            basis, protected = method.spaces[layer].free(), torch.from_numpy(plain.bases[layer])
            complement = torch.eye(8) - basis @ basis.T
            torch.testing.assert_close(complement, protected @ protected.T, rtol=0, atol=1e-9)
            moved = method.branches[layer].weight - plain.model.get_submodule(layer).weight
            torch.testing.assert_close(moved[8:], plain.added[layer], rtol=0, atol=1e-9)
            assert moved[:8].count_nonzero() == 0 and moved[8:].abs().max() > 1e-3


def test_moments_are_means_over_the_tokens_of_all_images() -> None:
    tasks = tiny_tasks((2,), per_class=5)  # batches of 4, 4 and 2
    context = tiny_context(tasks)
    method, plain = InfLoRA(context, InfLoRAConfig(lr=LR)), Plain(context)
    for when in ("before", "after"):
        found, wanted = method._moments(tasks[0], when), plain.moments(tasks[0], when)
        for layer in LAYERS:
            torch.testing.assert_close(found[layer], torch.from_numpy(wanted[layer]))


def test_a_new_branch_does_nothing_to_protected_inputs_and_something_to_others() -> None:
    tasks = tiny_tasks((2, 2), per_class=6)
    method = InfLoRA(tiny_context(tasks), InfLoRAConfig(lr=0.05, epsilon=EPSILON, r=RANK))
    for task in tasks:
        before = {name: branch.weight.clone() for name, branch in method.branches.items()}
        free = {name: space.free() for name, space in method.spaces.items()}
        learn(method, task)
    for name, branch in method.branches.items():
        change, protected = branch.weight - before[name], torch.eye(8) - free[name] @ free[name].T
        assert (change @ protected).abs().max() < 1e-12 < 1e-3 < (change @ free[name]).abs().max()


def test_only_b_and_the_head_of_the_task_are_trained() -> None:
    tasks = tiny_tasks((2, 2), per_class=3)
    method = InfLoRA(tiny_context(tasks), InfLoRAConfig(lr=0.05, epsilon=EPSILON, r=RANK))
    frozen = copy.deepcopy({k: v for k, v in method.model.state_dict().items() if not k.endswith("qkv.weight")})
    for task in tasks:
        method.begin_task(task)
        parts = {name: part for name, part in method.model.named_parameters() if part.requires_grad}
        assert {name: part.shape for name, part in parts.items()} == {f"{layer}.b": (16, RANK) for layer in LAYERS}
        assert all(part.count_nonzero() == 0 for part in parts.values())
        fixed = {name: (branch.a.clone(), branch.weight.clone()) for name, branch in method.branches.items()}  # type: ignore[union-attr]
        method.train_task(task)
        for name, branch in method.branches.items():
            assert torch.equal(branch.a, fixed[name][0]) and torch.equal(branch.weight, fixed[name][1])  # type: ignore[arg-type]
        first = method.heads.weight.clone()
        method.end_task(task)
        assert torch.equal(method.heads.weight[: len(first)], first)
    assert all(torch.equal(value, frozen[name]) for name, value in method.model.state_dict().items() if name in frozen)


def test_a_branch_is_a_sum_of_products_on_keys_and_values() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 24)
    branch, x = KeyValueBranch(layer), torch.randn(2, 5, 8)
    assert torch.equal(branch(x), layer(x))
    sums = torch.zeros(16, 8)
    for _ in range(2):
        a = torch.randn(3, 8)
        before = branch(x)
        branch.begin(a)
        assert torch.equal(branch(x), before)
        branch.b.data.normal_()  # type: ignore[union-attr]
        sums = sums + branch.b.detach() @ a  # type: ignore[union-attr]
        wanted = F.linear(x, layer.weight + torch.cat([torch.zeros(8, 8), sums]), layer.bias)
        torch.testing.assert_close(branch(x), wanted)
        branch.end()
        torch.testing.assert_close(branch(x), wanted)
    assert not list(branch.parameters())


def test_every_block_of_the_embedded_vit_has_a_branch() -> None:
    model = Backbone().load()
    assert list(branch_keys_and_values(model)) == [f"blocks.{k}.attn.qkv" for k in range(4)]
    assert not any(part.requires_grad for part in model.parameters())


def test_the_state_holds_branches_spaces_and_heads_alone() -> None:
    tasks = tiny_tasks((2, 2), per_class=3)
    method = InfLoRA(tiny_context(tasks), InfLoRAConfig(lr=0.01, epsilon=EPSILON, r=RANK))
    learn(method, *tasks)
    state = method.state()
    assert {name: value.shape for name, value in state.constant.items()} == {
        f"branches/{t}/{layer}/{part}": shape
        for t in (0, 1)
        for layer in LAYERS
        for part, shape in (("A", (RANK, 8)), ("B", (16, RANK)))
    }
    assert set(state.tensors) == {*(f"spaces/{layer}" for layer in LAYERS), "heads/weight", "heads/bias"}


@pytest.mark.parametrize(
    ("backbone", "r", "message"),
    [
        (TinyBackbone(), 9, "inflora: r must be at most the backbone's width, 8, got 9"),
        (Backbone("vit_small_patch16_18x2_224"), 4, "has no plain keys and values: block 0 is a ParallelThingsBlock"),
    ],
)
def test_what_has_no_room_is_refused(backbone: Backbone, r: int, message: str) -> None:
    entry = get_method("inflora")
    scenario = Scenario(backbone, (range(2), range(2, 4)))
    with pytest.raises(InputError, match=message):
        entry.validate(entry.parse({"lr": 0.1, "r": r}), scenario)
    entry.validate(entry.parse({"lr": 0.1, "r": 8}), Scenario(TinyBackbone(), scenario.task_classes))
