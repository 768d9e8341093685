"""The true diagonal Fisher at theta_0, of the tuned weights and of the head.

F_i = E_x E_{y ~ p(.|x)} [(d log p(y|x) / d theta_i)^2], p the softmax over all classes seen so far (the paper,
eq. (fisher_definition)). The gradient of one example is summed over its tokens before it is squared.

Notation: b examples, n tokens, C classes, P backward passes.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainables.backbones.recording import Activations, recorded
from trainables.curvature.diagonal import DiagonalCurvature
from trainables.curvature.softmax_hessian import hessian_square_root
from trainables.heads import Head

# Per-example gradients of one weight at a time. On a CPU they stay in its cache: twice as fast as 64 MiB.
CHUNK_BYTES = {"cpu": 2**20, "cuda": 64 * 2**20}

Sums = dict[str, Tensor]  # layer name to a running sum, (out, in)


def layer_fisher(
    model: nn.Module,
    layers: dict[str, nn.Linear],
    head: Head,
    batches: Iterable[Tensor],
    *,
    passes: int | None,
    generator: torch.Generator,
) -> tuple[DiagonalCurvature, int]:
    """Return the true Fisher's diagonal for linear layers, summed over examples, and the number of examples.

    With J an example's derivative of logits by weights, its Fisher is the diagonal of J^T (diag(p) - p p^T) J. The
    inner matrix is a sum of outer products (`hessian_square_root`), each of which is one backward pass per batch.
    Layers that see one token (those after the attention of a `ClassTokenBlock`) are exact for any number of passes:
    their passes are short.

    Args:
        model: Backbone in eval mode, `(b, c, h, w)` to `(b, d)`; its weights and their gradients do not change.
        layers: Layers by name, reading `(b, n, in)`.
        head: Weight `(C, d)` and bias `(C,)` of all classes seen so far.
        batches: Images `(b, c, h, w)`; read once, any batch sizes.
        passes: Backward passes per batch: exact from C - 1 on, below that unbiased; None for the exact number.
        generator: Source of the random passes.

    Returns:
        The sum for every `"<layer>.weight"`, `(out, in)`, in nats squared per unit of weight squared; and the number of
        examples.

    Raises:
        ValueError: If the model is in train mode or there is no example.

    Source: Martens 2020, https://arxiv.org/abs/1412.1193; on true and empirical Fisher, Kunstner et al. 2019,
    https://arxiv.org/abs/1905.12558.
    """
    if model.training:
        raise ValueError("the Fisher is taken in eval mode, got a model in train mode")
    sums = {name: torch.zeros_like(layer.weight) for name, layer in layers.items()}
    examples = 0
    with recorded(layers) as activations:
        for images in batches:
            examples += len(images)
            with torch.enable_grad():
                logits = nn.functional.linear(model(images), *head)
            p = logits.detach().softmax(1)
            single = {name: pair for name, pair in activations.items() if pair[0].shape[1] == 1}  # [b, 1, in]
            many = {name: pair for name, pair in activations.items() if name not in single}
            _add_single(sums, single, logits, hessian_square_root(p, None, generator))
            _add_many(sums, many, logits, hessian_square_root(p, passes, generator))
            activations.clear()
    if examples == 0:
        raise ValueError("the Fisher needs at least one example, got none")
    return DiagonalCurvature({f"{name}.weight": total.detach() for name, total in sums.items()}), examples


def head_fisher(features: Tensor, head: Head, rows: slice) -> DiagonalCurvature:
    """Return the mean true Fisher of some rows of a linear classifier, in closed form.

    Its names are `weight`, `(r, d)`, and `bias`, `(r,)`.

    d log p_k / d W_c = (1[k = c] - p_c) x, and its square has expectation p_c (1 - p_c) x^2 under p. Without features
    `(m, d)` the Fisher is zero.
    """
    weight, bias = head
    if len(features) == 0:
        return DiagonalCurvature({"weight": torch.zeros_like(weight[rows]), "bias": torch.zeros_like(bias[rows])})
    p = nn.functional.linear(features, weight, bias).softmax(1)[:, rows]
    spread = p * (1 - p)  # [m, r]
    return DiagonalCurvature({"weight": spread.T @ features**2 / len(features), "bias": spread.mean(0)})


def _add_single(sums: Sums, activations: Activations, logits: Tensor, vectors: Tensor) -> None:
    """Many vectors in one backward pass; an example's gradient is an outer product, and so is its square."""
    if not activations or not len(vectors):  # one class so far: no curvature
        return
    outputs = [output for _, output in activations.values()]
    widest = max(output.numel() * output.element_size() for output in outputs)
    for chunk in vectors.split(max(1, CHUNK_BYTES[logits.device.type] // widest)):
        gradients = torch.autograd.grad(logits, outputs, chunk, retain_graph=True, is_grads_batched=True)
        for (name, (inputs, _)), gradient in zip(activations.items(), gradients, strict=True):
            sums[name] += gradient[:, :, 0].square().sum(0).T @ inputs[:, 0].square()


def _add_many(sums: Sums, activations: Activations, logits: Tensor, vectors: Tensor) -> None:
    outputs = [output for _, output in activations.values()]
    for k, vector in enumerate(vectors):
        gradients = torch.autograd.grad(logits, outputs, vector, retain_graph=k + 1 < len(vectors))
        for name, gradient in zip(activations, gradients, strict=True):
            _add_squares(sums[name], gradient, activations[name][0])


def _add_squares(total: Tensor, gradients: Tensor, inputs: Tensor) -> None:
    """Add the squared gradient of each example: gradients `(b, n, out)` and inputs `(b, n, in)` of one layer."""
    chunk = max(1, CHUNK_BYTES[total.device.type] // (total.numel() * total.element_size()))
    for gradient, x in zip(gradients.split(chunk), inputs.split(chunk), strict=True):
        per_example = gradient.transpose(1, 2) @ x  # [chunk, out, in], summed over the n tokens
        total += per_example.square_().sum(0)
