"""Compositions as plain modules of torch: images in, logits of the model's classes out."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trainables.backbones import Backbone
from trainables.backbones.linearised import LinearisedViT, Vector
from trainables.composition import ComposedNetwork
from trainables.composition.networks.tangents import TangentNetwork
from trainables.config import Precision
from trainables.errors import InputError
from trainables.heads import Head
from trainables.precision import features
from trainables.task_vectors.lora import lora_tau

_ADAPTER, _HEAD = "adapter_model.safetensors", "head.safetensors"
_PREFIX, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


class Classifier(nn.Module):
    """A ViT and a linear classifier on its features: `(b, c, h, w)` to `(b, C)`.

    Args:
        vit: The ViT, from images to features `(b, d)`.
        head: Rows of the classifier, `(C, d)` and `(C,)`.
        precision: Precision of the ViT's forward passes.
    """

    def __init__(self, vit: nn.Module, head: Head, precision: Precision = "fp32") -> None:
        super().__init__()
        self.vit = vit
        self.head = nn.Linear(head[0].shape[1], len(head[0]), device=head[0].device)
        self.head.load_state_dict({"weight": head[0], "bias": head[1]})
        self.precision = precision

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, `(b, C)`."""
        return self.head(features(self.vit, images, self.precision, images.device))


class TangentClassifier(nn.Module):
    """A ViT linearised at theta_0, with a task vector: `(b, c, h, w)` to `(b, C)`. It stays on its device.

    Args:
        linearised: The network.
        tau: The task vector.
        rows: The classes to answer for, int64 `(C,)`.
    """

    def __init__(self, linearised: LinearisedViT, tau: Vector, rows: Tensor) -> None:
        super().__init__()
        self.vit = linearised.vit
        self._linearised = linearised
        self._tau = tau
        self._rows = rows.to(linearised.device)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of the linearised network, `(b, C)`."""
        return self._linearised.logits(images, self._tau)[:, self._rows]


def of_composition(network: ComposedNetwork, head: Head, rows: Tensor) -> nn.Module:
    """Return what has been composed in a network as a module; the network is used up.

    Args:
        network: Something has been composed in it.
        head: Rows of all classes, `(C, d)` and `(C,)`.
        rows: The classes to answer for, int64, on the CPU.
    """
    if isinstance(network, TangentNetwork):
        return TangentClassifier(network.linearised, network.weights, rows)
    network.model.load_state_dict({**network.model.state_dict(), **network.weights})
    chosen = (head[0][rows].to(network.device), head[1][rows].to(network.device))
    return Classifier(network.model, chosen, network.precision)


def of_adapter(folder: Path, backbone: Backbone, device: torch.device, precision: Precision) -> nn.Module:
    """Return theta_0 with an exported adapter merged into it, and the classifier beside it.

    Raises:
        InputError: If a file is missing, or does not fit the backbone.
    """
    vit = backbone.load(device).requires_grad_(False)
    state = vit.state_dict()
    try:
        tensors, head = load_file(folder / _ADAPTER), load_file(folder / _HEAD)
        for name in (each.removesuffix(_A) for each in tensors if each.endswith(_A)):
            tau = lora_tau(tensors[name + _A], tensors[name + _B])
            state[f"{name.removeprefix(_PREFIX)}.weight"] += tau.to(device)
        rows = (head["head.weight"].to(device), head["head.bias"].to(device))
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise InputError(f"{folder}: cannot be read as an adapter ({str(error).splitlines()[0]})") from error
    return Classifier(vit, rows, precision)


def of_timm(folder: Path, device: torch.device) -> nn.Module:
    """Return a model that was exported for timm.

    Raises:
        InputError: If timm cannot open the folder.
    """
    import timm  # takes two seconds to import

    try:
        model: nn.Module = timm.create_model(f"local-dir:{folder}", pretrained=True)
    except Exception as error:  # timm's loaders raise many kinds; each means "no model"
        raise InputError(f"{folder}: cannot be opened by timm ({str(error).splitlines()[0]})") from error
    return model.requires_grad_(False).eval().to(device)
