"""TMC: two tasks against plain loops over Jacobians, its losses, its composition and what it writes."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from tausearch.testing.recording import shown
from tests.support.methods.tiny_trials import learn, plain_training, tiny_context, tiny_tasks
from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones.linearised.network import CLASSIFIER, Vector
from trainables.composition import Origin, read_vector, vector_folders, write_vector
from trainables.data import Batch, Task
from trainables.methods import Context, get_method
from trainables.methods.tmc import TMC, TMCConfig
from trainables.methods.training import shuffled_batches

Loss = Literal["square", "cross-entropy"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
pytestmark = pytest.mark.usefixtures("float64")


class Plain:
    """TMC by one backward pass per image and class, and AdamW by hand."""

    def __init__(self, context: Context, config: TMCConfig, head: tuple[Tensor, Tensor]) -> None:
        self.context, self.config, self.net = context, config, make_tiny_vit()
        inner = {n: p.detach() for n, p in self.net.named_parameters() if n.startswith(("blocks.", "norm."))}
        self.theta_0 = {**inner, **dict(zip(CLASSIFIER, head, strict=True))}
        self.learned: list[Vector] = []

    def f(self, weights: Vector, x: Tensor) -> Tensor:
        inner = {name: value for name, value in weights.items() if name not in CLASSIFIER}
        return functional_call(self.net, inner, (x,)) @ weights[CLASSIFIER[0]].T + weights[CLASSIFIER[1]]

    def linear(self, tau: Vector, x: Tensor) -> Tensor:
        """f_lin over all classes: the gradient of each output of each image by theta, times tau."""
        values = []
        for image in x:
            leaves = {name: value.clone().requires_grad_() for name, value in self.theta_0.items()}
            for output in self.f(leaves, image[None])[0]:
                parts = torch.autograd.grad(output, list(leaves.values()), retain_graph=True)
                along = sum((part * tau[name]).sum() for name, part in zip(leaves, parts, strict=True))
                values.append(output.detach() + along)
        return torch.stack(values).view(len(x), -1)

    def loss(self, tau: Vector, batch: Batch, classes: range) -> Tensor:
        values, rows = self.linear(tau, batch.x), torch.arange(len(batch.y))
        decay = self.config.penalty * torch.sqrt(1e-6 + sum((part**2).sum() for part in tau.values()))
        if self.config.loss == "square":
            target = torch.zeros_like(values)
            target[rows, batch.y] = self.config.kappa
            return ((values - target) ** 2).sum() / values.numel() + decay
        local = values[:, classes.start : classes.stop].log_softmax(1)
        return -local[rows, batch.y - classes.start].sum() / len(batch.y) + decay

    def learn(self, task: Task) -> None:
        zero = {name: torch.zeros_like(value) for name, value in self.theta_0.items()}
        loss = partial(self.loss, classes=task.classes)
        self.learned.append(plain_training(task, self.context, zero, loss, lr=self.config.lr))

    def mean(self) -> Vector:
        return {name: sum(tau[name] for tau in self.learned) / len(self.learned) for name in self.theta_0}  # type: ignore[misc]


@pytest.mark.parametrize("loss", LOSSES)
def test_two_uneven_tasks_are_those_of_plain_loops(loss: Loss) -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    context, config = tiny_context(tasks, batch_size=3), TMCConfig(lr=0.01, kappa=3, penalty=1e-3, loss=loss)
    method = TMC(context, config)
    plain = Plain(context, config, method.model.head)
    for task in tasks:
        method.begin_task(task)
        assert all(part.count_nonzero() == 0 for part in method.tau.values())
        method.train_task(task)
        method.end_task(task)
        plain.learn(task)
        for name, part in method.tau.items():
            # A bias of keys moves no output. Its gradient is rounding alone, which Adam makes larger.
            counts = slice(0, 8) if name.endswith("qkv.bias") else slice(None)
            torch.testing.assert_close(part.detach()[counts], plain.learned[-1][name][counts], rtol=0, atol=1e-9)
        x = shown(task.unaugmented)[:6]
        wanted = plain.linear(plain.mean(), x)
        torch.testing.assert_close(method.predict(x), wanted[:, : task.classes.stop], rtol=0, atol=1e-9)


def learned(**changes: Any) -> tuple[TMC, tuple[Task, ...]]:
    tasks = tiny_tasks((2, 3, 2), per_class=3)
    method = TMC(tiny_context(tasks), TMCConfig(**{"lr": 0.01, **changes}))
    learn(method, *tasks)
    return method, tasks


def test_the_loss_reported_is_the_square_loss_over_all_classes_without_the_penalty() -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    method = TMC(tiny_context(tasks, epochs=1, batch_size=6), TMCConfig(lr=1e-12, kappa=3, penalty=100.0))
    method.begin_task(tasks[0])
    (batch,) = shuffled_batches(tasks[0], method.context)(0)
    outputs = method.model.logits(batch.x, method.model.zero())
    wanted = ((outputs - 3 * F.one_hot(batch.y, 5)) ** 2).sum() / 30
    assert method.train_task(tasks[0])["train/loss"] == pytest.approx(float(wanted))


def test_the_scale_of_divergence_is_that_of_the_loss_at_outputs_of_zero() -> None:
    tasks = tiny_tasks((2, 3), per_class=1)
    square, entropy = (TMC(tiny_context(tasks), TMCConfig(lr=0.1, kappa=4, loss=loss)) for loss in LOSSES)
    assert square._chance_loss(tasks[1]) == pytest.approx(16 / 5)
    assert entropy._chance_loss(tasks[1]) == pytest.approx(math.log(3))


def test_the_classifier_is_the_seeds_and_starts_as_torchs() -> None:
    tasks = tiny_tasks((2, 3), per_class=2)
    one, again = (TMC(tiny_context(tasks), TMCConfig(lr=0.1)).model.head for _ in range(2))
    other = TMC(tiny_context(tasks, seed=4), TMCConfig(lr=0.1)).model.head
    assert torch.equal(one[0], again[0]) and not torch.equal(one[0], other[0])
    assert one[0].shape == (5, 8) and 0.8 / 8**0.5 < one[0].abs().max() < 1 / 8**0.5
    assert 0 < one[1].abs().max() < 1 / 8**0.5


def test_what_it_writes_is_read_by_the_composition_and_gives_its_predictions(tmp_path: Path) -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    method = TMC(tiny_context(tasks), TMCConfig(lr=0.01))
    for task in tasks:
        learn(method, task)
        own = {"method": "tmc", "task": task.index, "classes": task.classes}
        write_vector(tmp_path, method.vector(Origin(**own, backbone="tiny", backbone_digest="none")))
    saved = [read_vector(folder) for folder in vector_folders(tmp_path)]
    assert [each.parametrisation for each in saved] == ["tangent", "tangent"]
    for each, task in zip(saved, tasks, strict=True):
        assert torch.equal(each.anchor[0], method.model.head[0][task.rows])
        moved = each.parameters["classifier.weight"]["tau"][task.rows] + each.anchor[0]
        torch.testing.assert_close(each.head[0], moved)
    zero = method.model.zero()
    mean = {name: sum(each.dense(name, part) for each in saved) / 2 for name, part in zero.items()}
    x = shown(tasks[0].unaugmented)[:4]
    torch.testing.assert_close(method.model.logits(x, mean), method.predict(x))  # type: ignore[arg-type]
    moved_by_0 = saved[0].parameters["classifier.weight"]["tau"][2:]
    assert moved_by_0.abs().max() > 0  # the square loss trains the rows of other tasks, too


def test_the_state_is_the_sum_alone() -> None:
    method, _ = learned()
    state = method.state()
    assert not state.constant and state.values == {"count": 3}
    assert sum(value.numel() for value in state.tensors.values()) == sum(p.numel() for p in method.tau.values())


def test_it_declares_what_it_composes() -> None:
    capabilities = get_method("tmc").capabilities
    assert capabilities.composable
