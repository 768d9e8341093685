"""Three tasks of three, two and one class in float64, on a ViT of two blocks; and plain SGD to compare with.

The plain side knows data, backbone and generators, and nothing of the methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.func import functional_call

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import Backbone
from trainables.data import Batch, ImageSet, Task
from trainables.data.transforms import Images
from trainables.methods import Context
from trainables.randomness import make_generator

CLASSES, COUNTS = (range(3), range(3, 5), range(5, 6)), (7, 5, 4)  # of each task, and how many images
EPOCHS, BATCH_SIZE, SEED = 3, 3, 5
LARGER = 30.0  # times the usual start of a classifier, so that gradients reach the ViT
EXACT = {"rtol": 1e-9, "atol": 1e-11}
Weights = dict[str, Tensor]
_Learner = TypeVar("_Learner")


class TinyBackbone(Backbone):
    """The ViT of the tests in place of one that is read from a file."""

    def load(self, *_: Any, **__: Any) -> VisionTransformer:
        return make_tiny_vit()


@dataclass(frozen=True)
class Flips:
    """uint8 to float64, mirrored half of the time."""

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        assert isinstance(images, Tensor)
        x = images.double() / 127.5 - 1
        if generator is None:
            return x
        mirrored = torch.rand(len(x), generator=generator) < 0.5
        return torch.where(mirrored[:, None, None, None], x.flip(-1), x)


def make_tasks() -> tuple[Task, ...]:
    generator = make_generator(0, "tiny tasks")
    tasks = []
    for index, (count, classes) in enumerate(zip(COUNTS, CLASSES, strict=True), start=1):
        images = torch.randint(256, (count, 1, 8, 8), dtype=torch.uint8, generator=generator)
        labels = torch.arange(count) % len(classes) + classes.start
        train = ImageSet(images, labels, Flips())
        tasks.append(Task(index, classes, train, train))
    return tuple(tasks)


TASKS = make_tasks()
NUM_CLASSES = CLASSES[-1].stop


def make(kind: Callable[[Context, Any], _Learner], config: Any) -> _Learner:
    """Make a method in float64."""
    context = Context(TinyBackbone(), CLASSES, EPOCHS, BATCH_SIZE, SEED, torch.device("cpu"))
    learner: Any = kind(context, config)
    for part in learner.head.parameters():
        part.data = LARGER * part.data.double()
    return learner


def weights_of(learner: Any) -> Weights:
    """All weights as they are, under the names of the state."""
    return {name: weight.detach().clone() for name, weight in learner.weights.items()}


tiny_vit = cache(make_tiny_vit)  # for `functional_call`, which brings the weights and changes nothing


def logits_of(weights: Weights, x: Tensor) -> Tensor:
    """Logits of all classes, `(b, C)`."""
    model = {name.removeprefix("model/"): value for name, value in weights.items() if name.startswith("model/")}
    return F.linear(functional_call(tiny_vit(), model, x), weights["heads/weight"], weights["heads/bias"])


def plain_sgd(weights: Weights, task: Task, lr: float, loss: Callable[[Weights, Batch], Tensor]) -> Iterator[Weights]:
    """Yield the weights after each step theta <- theta - lr c_e d loss / d theta.

    c_e = cos(99 pi e / (200 (K - 1))) in epoch e of K.
    """
    order = make_generator(SEED, "finetune", task.index)
    for epoch in range(EPOCHS):
        rate = lr * math.cos(99 * math.pi * epoch / (200 * (EPOCHS - 1)))
        for batch in task.train.batches(BATCH_SIZE, order, shuffle=True):
            leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
            gradients = torch.autograd.grad(loss(leaves, batch), list(leaves.values()), allow_unused=True)
            weights = {
                name: (value if gradient is None else value - rate * gradient).detach()
                for (name, value), gradient in zip(leaves.items(), gradients, strict=True)
            }
            yield weights


def last(steps: Iterator[Weights]) -> Weights:
    for weights in steps:
        found = weights
    return found


def assert_same(learner: Any, weights: Weights) -> None:
    """All weights of a method are those of the plain side."""
    got = weights_of(learner)
    assert got.keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(got[name], value, **EXACT, msg=lambda text, name=name: f"{name}: {text}")


def local_cross_entropy(logits: Tensor, labels: Tensor, classes: range) -> Tensor:
    """-1/b sum_n log p(y_n), the softmax over the given classes alone; written out."""
    total = logits.new_zeros(())
    for row, label in zip(logits, labels.tolist(), strict=True):
        total = total - row[label] + torch.stack([row[k].exp() for k in classes]).sum().log()
    return total / len(labels)
