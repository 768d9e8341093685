"""Backward passes of a classifier from the square root of its softmax Hessian: the input of every estimate.

With J the derivative of an example's logits by the weights, its curvature is J^T (diag(p) - p p^T) J. The inner matrix
is a sum of outer products of few vectors (`hessian_square_root`), each of which is one backward pass per batch.

Notation: b examples, n tokens, C classes, P backward passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from trainables.backbones.recording import Activations, recorded
from trainables.curvature.softmax_hessian import hessian_square_root
from trainables.heads import Head

# Bytes per pass of layers that see many tokens, or of many passes at a time of layers that see one token. On a CPU they
# stay in its cache: twice as fast as 64 MiB.
CHUNK_BYTES = {"cpu": 2**20, "cuda": 64 * 2**20}
Add = Callable[[str, Tensor, Tensor, bool], None]


def add_passes(
    model: nn.Module,
    layers: dict[str, nn.Linear],
    head: Head,
    batches: Iterable[Tensor],
    add: Add,
    *,
    passes: int | None,
    generator: torch.Generator,
) -> int:
    """Hand the inputs and output gradients of each layer to `add`, batch by batch.

    Layers that see one token (those after the attention of a `ClassTokenBlock`) are exact for any number of passes:
    their passes are short.

    Args:
        model: Backbone in eval mode, `(b, c, h, w)` to `(b, d)`; its weights and their gradients do not change.
        layers: Layers by name, reading `(b, n, in)`.
        head: Weight `(C, d)` and bias `(C,)` of all classes seen so far.
        batches: Images `(b, c, h, w)`; read once, any batch sizes.
        add: Function of a layer's name, its inputs `(b, n, in)`, the gradients of some passes by its outputs
            `(P, b, n, out)`, and whether they are the first of this layer in the batch. Sums of outer products of all
            gradients give J^T (diag(p) - p p^T) J.
        passes: Backward passes per batch: exact from C - 1 on, below that unbiased; None for the exact number.
        generator: Source of the random passes.

    Returns:
        The number of examples.

    Raises:
        ValueError: If the model is in train mode or there is no example.

    Source: Martens 2020, https://arxiv.org/abs/1412.1193; on true and empirical Fisher, Kunstner et al. 2019,
    https://arxiv.org/abs/1905.12558.
    """
    if model.training:
        raise ValueError("the Fisher is taken in eval mode, got a model in train mode")
    examples = 0
    with recorded(layers) as activations:
        for images in batches:
            examples += len(images)
            with torch.enable_grad():
                logits = nn.functional.linear(model(images), *head)
            p = logits.detach().softmax(1)
            single = {name: pair for name, pair in activations.items() if pair[0].shape[1] == 1}  # [b, 1, in]
            many = {name: pair for name, pair in activations.items() if name not in single}
            _add_single(add, single, logits, hessian_square_root(p, None, generator))
            _add_many(add, many, logits, hessian_square_root(p, passes, generator))
            activations.clear()
    if examples == 0:
        raise ValueError("the Fisher needs at least one example, got none")
    return examples


def _add_single(add: Add, activations: Activations, logits: Tensor, vectors: Tensor) -> None:
    """Take many vectors in one backward pass."""
    if not activations or not len(vectors):  # one class so far: no curvature
        return
    outputs = [output for _, output in activations.values()]
    widest = max(output.numel() * output.element_size() for output in outputs)
    for k, chunk in enumerate(vectors.split(max(1, CHUNK_BYTES[logits.device.type] // widest))):
        gradients = torch.autograd.grad(logits, outputs, chunk, retain_graph=True, is_grads_batched=True)
        for (name, (inputs, _)), gradient in zip(activations.items(), gradients, strict=True):
            add(name, inputs, gradient, k == 0)


def _add_many(add: Add, activations: Activations, logits: Tensor, vectors: Tensor) -> None:
    if not activations:
        return
    outputs = [output for _, output in activations.values()]
    for k, vector in enumerate(vectors):
        gradients = torch.autograd.grad(logits, outputs, vector, retain_graph=k + 1 < len(vectors))
        for name, gradient in zip(activations, gradients, strict=True):
            add(name, activations[name][0], gradient[None], k == 0)
