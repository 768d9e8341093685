"""Compositions of tangents (TMC): f_lin(x; sum_t w_t tau_t), one linearised network and one sum of task vectors.

The classifier is a part of tau: a composition has W + sum_t w_t tau_{t,W}, with W the random classifier that all tasks
of a run share. So leaving a task out also undoes the training of its classifier rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from trainables.backbones import AttentionKind, Backbone
from trainables.backbones.linearised import CLASSIFIER, LinearisedViT
from trainables.composition.composing import weighted_sum
from trainables.composition.merging import MergingRule
from trainables.composition.networks.displaced import ComposedNetwork
from trainables.composition.saved import SavedVector
from trainables.config import Precision
from trainables.errors import InputError
from trainables.heads import Head


class TangentNetwork(ComposedNetwork):
    """theta_0, linearised there, and one composition of task vectors at a time; see `ComposedNetwork`.

    The kind of attention is ignored, because forward-mode derivatives need "plain".
    """

    displaces_weights = False

    def __init__(
        self,
        backbone: Backbone,
        device: torch.device,
        precision: Precision = "fp32",
        attention: AttentionKind = "plain",
    ) -> None:
        vit = backbone.load(device, attention="plain")
        none = torch.empty(0, vit.num_features, device=device), torch.empty(0, device=device)
        self.device = device
        self.linearised = LinearisedViT(vit, none, precision, device)
        self.theta_0 = {name: weight.detach() for name, weight in self.linearised.theta_0.items()}
        self._tau: dict[str, Tensor] = {}

    @property
    def width(self) -> int:
        """Number of features, d."""
        return self.linearised.vit.num_features

    def compose(
        self,
        vectors: Iterable[SavedVector],
        weights: Sequence[float],
        head: Head,
        rule: MergingRule | None = None,
    ) -> None:
        """Set tau to a weighted sum; the vectors are read twice.

        The head is ignored: the classifier is a part of the task vectors.

        Raises:
            InputError: If there is a rule: a model that is linear in tau has weighted sums alone.
        """
        if rule is not None:
            raise InputError(f"--rule {rule.name}: of tangents only weighted sums have a meaning; allowed: linear")
        rows = zip(*(vector.anchor for vector in vectors), strict=True)
        weight, bias = (torch.cat(part).to(self.device) for part in rows)
        self.linearised.head = (weight, bias)
        whole = {**self.theta_0, **dict(zip(CLASSIFIER, (weight, bias), strict=True))}
        self._tau = {}  # frees the last composition before the next is made
        self._tau = weighted_sum(whole, vectors, weights)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Name of a weight to its tau, the classifier's among them."""
        return self._tau

    def predict(self, images: Tensor) -> Tensor:
        """Return f_lin of all classes, `(b, c, h, w)` to `(b, C)`."""
        return self.linearised.logits(images, self._tau)
