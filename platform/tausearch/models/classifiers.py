"""Compositions as plain modules of torch: images in, logits of the model's classes out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tausearch.models.exports import HEAD_FILE
from trainables.backbones import Backbone, tuned_layers
from trainables.backbones.linearised.network import LinearisedFeatures, LinearisedViT, Vector
from trainables.composition import ComposedNetwork
from trainables.composition.adapter import read_adapter
from trainables.composition.networks import FeatureTangentNetwork, TangentNetwork
from trainables.config import Precision
from trainables.errors import InputError
from trainables.heads import Head
from trainables.precision import features
from trainables.tensor_files import read_weights, readable


class Classifier(nn.Module):
    """A ViT, from images to features `(b, d)`, and a linear classifier: `(b, c, h, w)` to `(b, C)`.

    `head` holds the classifier's rows, `(C, d)` and `(C,)`. `precision` is that of the ViT's forward passes.
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

    `rows` are the positions of the C classes in the classifier of all tasks, int64.
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


class FeatureTangentClassifier(nn.Module):
    """A ViT whose features are linearised at theta_0, with a task vector and a linear classifier; stays on its device.

    `head` holds the classifier's rows, `(C, d)` and `(C,)`.
    """

    def __init__(self, linearised: LinearisedFeatures, tau: Vector, head: Head) -> None:
        super().__init__()
        self.vit = linearised.vit
        self._linearised = linearised
        self._tau = tau
        self._head = head

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, `(b, C)`."""
        return nn.functional.linear(self._linearised.features(images, self._tau), *self._head)


def of_composition(network: ComposedNetwork, head: Head, rows: Tensor) -> nn.Module:
    """Return a network's composition as a module, which takes over the network's memory.

    `head` is the classifier of all classes, `(C, d)` and `(C,)`. `rows` are the module's classes, int64, on the CPU.
    """
    if isinstance(network, TangentNetwork):
        return TangentClassifier(network.linearised, network.weights, rows)
    chosen = (head[0][rows].to(network.device), head[1][rows].to(network.device))
    if isinstance(network, FeatureTangentNetwork):
        return FeatureTangentClassifier(network.linearised, network.weights, chosen)
    network.model.load_state_dict({**network.model.state_dict(), **network.weights})
    return Classifier(network.model, chosen, network.precision)


def of_timm(
    folder: Path, backbone: str, labels: Sequence[str], device: torch.device, precision: Precision
) -> nn.Module:
    """Return an exported timm model, its ViT in a precision, its classifier in float32; refuse other `labels`."""
    from trainables.composition.checkpoints import read_timm_folder  # imports timm: two seconds

    vit: Any = read_timm_folder(folder, backbone, labels, device)
    head = vit.get_classifier()
    head = head[0] if isinstance(head, tuple) else head  # the two of a distilled model are equal here
    vit.reset_classifier(0)
    return Classifier(vit, (head.weight, head.bias), precision).requires_grad_(False).eval()


def of_adapter(
    folder: Path, backbone: Backbone, labels: Sequence[str], device: torch.device, precision: Precision
) -> nn.Module:
    """Return theta_0 with an exported adapter merged in, and the exported classifier; refuse what does not fit them."""
    vit = backbone.load(device).requires_grad_(False)
    tuned = {f"{name}.weight": layer.weight for name, layer in tuned_layers(vit).items()}
    shapes = {"head.weight": torch.Size((len(labels), vit.num_features)), "head.bias": torch.Size((len(labels),))}
    with readable(folder, "an adapter"):
        taus = read_adapter(folder, tuned)
        head, header = read_weights(folder / HEAD_FILE, shapes)
    if header.get("class_names") not in (None, json.dumps(labels, ensure_ascii=False)):  # None: of an earlier version
        raise InputError(f"{folder / HEAD_FILE}: its class_names are not those of the description beside it")
    for name, tau in taus.items():
        tuned[name] += tau.to(device)
    return Classifier(vit, (head["head.weight"].to(device), head["head.bias"].to(device)), precision)
