"""Inputs and outputs of layers in the last forward pass: for Fishers, and for methods that read inner features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

Activations = dict[str, tuple[Tensor, Tensor]]  # layer name to input, detached, and output, in its graph


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[Activations]:
    """Record inputs and outputs of layers inside the `with` block, and make linear weights part of the graph.

    Each layer is called once per forward pass; the activations are those of the latest. Record attention by its linear
    layers, `attn.qkv` and `attn.proj`. A `ClassTokenBlock` calls them directly, so a hook on `attn` would never run.
    """
    activations: Activations = {}
    weights = [layer.weight for layer in layers.values() if isinstance(layer, nn.Linear)]
    required = [weight.requires_grad for weight in weights]
    handles = [layer.register_forward_hook(_keep(activations, name)) for name, layer in layers.items()]
    for weight in weights:
        weight.requires_grad_(True)
    try:
        yield activations
    finally:
        for handle in handles:
            handle.remove()
        for weight, before in zip(weights, required, strict=True):
            weight.requires_grad_(before)


def _keep(activations: Activations, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        activations[name] = (inputs[0].detach(), output)

    return hook
