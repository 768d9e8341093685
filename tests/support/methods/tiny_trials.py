"""A float64 setting in which a method can be held against plain loops: a ViT of width 8, and tasks of a few images.

The plain side knows data, backbone and generators, and nothing of the methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import AttentionKind, Backbone, Shape, Tokens
from trainables.backbones.attention import write_out
from trainables.backbones.class_token import read_class_token_only
from trainables.data import Batch, ImageSet, Task
from trainables.methods import Context
from trainables.methods.training import shuffled_batches
from trainables.randomness import make_generator

EXACT = {"rtol": 1e-9, "atol": 1e-11}
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class TinyBackbone(Backbone):
    """`make_tiny_vit` in place of pre-trained weights."""

    options: dict[str, Any] = field(default_factory=dict)
    closed: str | None = None

    def load(
        self, device: torch.device | str = "cpu", *, tokens: Tokens = "class", attention: AttentionKind = "fused"
    ) -> VisionTransformer:
        model = make_tiny_vit(**self.options).to(device)
        if tokens == "class":
            read_class_token_only(model)
        if attention == "plain":
            write_out(model)
        return model

    @property
    def shape(self) -> Shape:
        vit = make_tiny_vit(**self.options)
        return Shape(vit.embed_dim, len(vit.blocks), sum(each.numel() for each in vit.parameters()), self.closed)


@dataclass(frozen=True)
class Pixels:
    """Leaves pixels as they are, plus noise where asked: an augmentation."""

    noise: float = 0.0

    def __call__(self, images: Any, generator: torch.Generator | None = None) -> Tensor:
        if self.noise == 0:
            return images
        return images + self.noise * torch.randn(images.shape, generator=generator, dtype=images.dtype)


@dataclass(frozen=True)
class Scaled:
    """uint8 to float64 from -1 to 1; an augmentation dims each image by a share of its own."""

    dims: bool

    def __call__(self, images: Tensor | list[Tensor], generator: torch.Generator | None) -> Tensor:
        assert isinstance(images, Tensor)
        x = images.double() / 127.5 - 1
        if generator is None or not self.dims:
            return x
        return x * (0.5 + 0.5 * torch.rand(len(x), 1, 1, 1, generator=generator, dtype=torch.float64))


def tiny_context(tasks: Sequence[int] | Sequence[Task] = (2, 3), **changes: Any) -> Context:
    """A context of these tasks, or of tasks with so many classes, on the tiny ViT."""
    sizes = [each if isinstance(each, int) else len(each.classes) for each in tasks]
    classes = tuple(range(*ends) for ends in pairwise([0, *accumulate(sizes)]))
    given: dict[str, Any] = {"backbone": TinyBackbone(), "epochs": 2, "batch_size": 4, "seed": 0, **changes}
    return Context(task_classes=classes, device=torch.device("cpu"), **given)


def tiny_task(context: Context, index: int, images: int = 6, noise: float = 0.0) -> Task:
    """Random images of a task's classes, in float64; the noise is its augmentation."""
    classes = context.task_classes[index - 1]
    x = torch.randn(images, 1, 8, 8, generator=make_generator(0, "images", index), dtype=torch.float64)
    y = classes.start + torch.arange(images) % len(classes)
    return Task(index, classes, ImageSet(x, y, Pixels(noise)), ImageSet(x, y, Pixels()))


def tiny_tasks(sizes: Sequence[int], per_class: int, seed: int = 0) -> tuple[Task, ...]:
    """Tasks of so many classes each, with random uint8 images that have their class's brightness somewhere."""
    generator, tasks = torch.Generator().manual_seed(seed), []
    for index, classes in enumerate(tiny_context(sizes).task_classes, start=1):
        labels = torch.arange(classes.start, classes.stop).repeat_interleave(per_class)
        images = torch.randint(0, 256, (len(labels), 1, 8, 8), generator=generator, dtype=torch.uint8)
        for image, label in zip(images, labels.tolist(), strict=True):
            image[:, label % 8] = 250
        train = ImageSet(images, labels, Scaled(dims=True))
        tasks.append(Task(index, classes, train, ImageSet(images, labels, Scaled(dims=False))))
    return tuple(tasks)


def learn(method: Any, *tasks: Task) -> None:
    for task in tasks:
        method.begin_task(task)
        method.train_task(task)
        method.end_task(task)


def plain_training(
    task: Task,
    context: Context,
    weights: Weights,
    loss: Callable[[Weights, Batch], Tensor],
    *,
    lr: float,
    optimizer: str = "adam",
    schedule: str = "cosine",
    clip: float = math.inf,
) -> Weights:
    """Return the weights after a task, by the formulas of Adam or SGD; weights that the loss leaves out stay."""
    weights, step, batches = dict(weights), 0, shuffled_batches(task, context)
    first, second = ({name: torch.zeros_like(value) for name, value in weights.items()} for _ in range(2))
    for epoch in range(context.epochs):
        place = {"constant": 0, "cosine": epoch, "late": max(epoch - 1, 0)}[schedule]
        rate = lr * math.cos(99 * math.pi * place / (200 * (context.epochs - 1)))
        for batch in batches(epoch):
            step += 1
            leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
            found = torch.autograd.grad(loss(leaves, batch), list(leaves.values()), allow_unused=True)
            gradients = {name: g for name, g in zip(leaves, found, strict=True) if g is not None}
            norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
            for name, g in gradients.items():
                g = g * min(1.0, clip / (norm + 1e-6))
                if optimizer == "adam":
                    first[name] = 0.9 * first[name] + 0.1 * g
                    second[name] = 0.999 * second[name] + 0.001 * g * g
                    g = first[name] / (1 - 0.9**step) / ((second[name] / (1 - 0.999**step)).sqrt() + 1e-8)
                weights[name] = weights[name] - rate * g
    return weights
