"""The same written plainly: one image, one head and one parameter after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.data import Task
from trainables.methods import Context
from trainables.methods.training import shuffled_batches

ADAM = (0.9, 0.999, 1e-8)


def embedded(vit: Any, image: Tensor) -> Tensor:
    """Class token and patches of one image `(c, h, w)` with their positions, `(n, d)`."""
    patches = vit.patch_embed(image[None])[0]
    return torch.cat([vit.cls_token[0], patches]) + vit.pos_embed[0]


def block(
    vit: Any, k: int, x: Tensor, keys: Tensor | None = None, values: Tensor | None = None, allowed: Any = None
) -> Tensor:
    """Block k of tokens `(n, d)`, with rows before its keys and values, and who (row) may attend to whom (column)."""
    layer = vit.blocks[k]
    q, own_keys, own_values = layer.attn.qkv(layer.norm1(x)).chunk(3, 1)
    all_keys = own_keys if keys is None else torch.cat([keys, own_keys])
    all_values = own_values if values is None else torch.cat([values, own_values])
    width, heads = layer.attn.head_dim, []
    for h in range(layer.attn.num_heads):
        part = slice(h * width, (h + 1) * width)
        scores = q[:, part] @ all_keys[:, part].T / math.sqrt(width)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        heads.append(scores.softmax(1) @ all_values[:, part])
    x = x + layer.attn.proj(torch.cat(heads, 1))
    return x + layer.mlp(layer.norm2(x))


def query(vit: Any, image: Tensor) -> Tensor:
    """The class token of the frozen ViT, `(d,)`."""
    x = embedded(vit, image)
    for k in range(len(vit.blocks)):
        x = block(vit, k, x)
    return vit.norm(x)[0].detach()


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    return logits.exp().sum().log() - logits[label]


Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # an image and its label to cross-entropy and what is added


def train(
    task: Task,
    context: Context,
    parameters: Sequence[Tensor],
    loss: Loss,
    *,
    lr: float,
    once: Callable[[], Tensor] | None = None,
    schedule: str = "constant",
    clip: float = math.inf,
) -> float:
    """Adam by its formulas; returns the mean cross-entropy of the last epoch.

    `once` is what is added to the loss of a batch, not of an image.
    """
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    batches, steps, mean = shuffled_batches(task, context), 0, 0.0
    for epoch in range(context.epochs):
        place = {"constant": 0, "cosine": epoch, "late": max(epoch - 1, 0)}[schedule]
        factor = math.cos(99 * math.pi * place / (200 * (context.epochs - 1)))
        total, seen = 0.0, 0
        for x, y, _ in batches(epoch):
            pairs = [loss(image, label - task.classes.start) for image, label in zip(x, y, strict=True)]
            value = sum(ce + extra for ce, extra in pairs) / len(x) + (once() if once else 0)
            total, seen = total + sum(ce.item() for ce, _ in pairs), seen + len(x)
            gradients = torch.autograd.grad(value, parameters)
            norm = math.sqrt(sum((g * g).sum().item() for g in gradients))
            steps += 1
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                g = g * min(1.0, clip / (norm + 1e-6))
                m += (1 - ADAM[0]) * (g - m)
                v += (1 - ADAM[1]) * (g * g - v)
                hat = (v / (1 - ADAM[1] ** steps)).sqrt() + ADAM[2]
                p.data -= lr * factor * (m / (1 - ADAM[0] ** steps)) / hat
        mean = total / seen
    return mean
