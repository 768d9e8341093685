"""The same written plainly: one image, one head and one parameter after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.support.methods.tiny_trials import Weights, plain_training
from trainables.data import Batch, Task
from trainables.methods import Context


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


def train(
    task: Task,
    context: Context,
    start: Sequence[Tensor],
    of_image: Callable[[Sequence[Tensor], Tensor, Tensor], tuple[Tensor, Any]],
    *,
    once: Callable[[Sequence[Tensor]], Tensor] | None = None,
    **options: Any,
) -> tuple[list[Tensor], float]:
    """The trained tensors, and the mean cross-entropy of the last epoch.

    `of_image` has the tensors, an image and its label in the task, and returns the cross-entropy and what is added to
    it. `once` is added to the loss of a batch.
    """
    seen: list[float] = []

    def loss(weights: Weights, batch: Batch) -> Tensor:
        parts = list(weights.values())
        pairs = [of_image(parts, x, y - task.classes.start) for x, y in zip(batch.x, batch.y, strict=True)]
        seen.extend(float(entropy.detach()) for entropy, _ in pairs)
        total = sum(entropy + added for entropy, added in pairs) / len(pairs)
        return total + once(parts) if once else total

    weights = {str(k): part.detach() for k, part in enumerate(start)}
    trained = plain_training(task, context, weights, loss, **options)
    images = len(task.train)
    return list(trained.values()), sum(seen[-images:]) / images
