"""A network of composed weights: it classifies images after task vectors have been composed on theta_0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.backbones import AttentionKind, Backbone, tuned_layers
from trainables.composition.composing import composed
from trainables.composition.merging import MergingRule, merged
from trainables.composition.saved import SavedVector
from trainables.config import Precision
from trainables.heads import Head
from trainables.precision import features


class ComposedNetwork:
    """theta_0, and one composition at a time: two sets of weights, however many task vectors are composed.

    The precision is that of forward passes. Attention "plain" has derivatives of any order; see `Backbone.load`.

    Attributes:
        theta_0: Tuned weight name to its pre-trained value `(out, in)`.
        displaces_weights: Whether a composition is a set of weights, so that other libraries can run it.
    """

    displaces_weights = True

    def __init__(
        self,
        backbone: Backbone,
        device: torch.device,
        precision: Precision = "fp32",
        attention: AttentionKind = "fused",
    ) -> None:
        self.device = device
        self.precision = precision
        self.model = backbone.load(device, attention=attention).requires_grad_(False)
        self.theta_0 = {f"{name}.weight": layer.weight.detach() for name, layer in tuned_layers(self.model).items()}
        self._weights = self.theta_0
        self._head: Head | None = None

    def compose(
        self,
        vectors: Iterable[SavedVector],
        weights: Sequence[float],
        head: Head,
        rule: MergingRule | None = None,
    ) -> None:
        """Set the weights to a composition, and the classifier to the rows of all classes, `(C, d)` and `(C,)`.

        Weights may be negative or 0. The vectors are read one by one, unless a merging rule replaces the weighted sum.
        """
        self._weights = self.theta_0  # frees the last composition before the next is made
        self._head = (head[0].to(self.device), head[1].to(self.device))
        if rule is None:
            self._weights = composed(self.theta_0, vectors, weights)
        else:
            self._weights = merged(self.theta_0, list(vectors), weights, rule)

    @property
    def width(self) -> int:
        """Number of features, d."""
        return self.model.num_features

    @property
    def weights(self) -> dict[str, Tensor]:
        """Tuned weight name to its composed value `(out, in)`."""
        return self._weights

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits of all classes, `(b, c, h, w)` to `(b, C)`."""
        assert self._head is not None, "compose before predict"
        return F.linear(features(self._forward, images, self.precision, self.device), *self._head)

    def _forward(self, images: Tensor) -> Tensor:
        return self.features_at(self._weights, images)

    def features_at(self, weights: dict[str, Tensor], images: Tensor) -> Tensor:
        """Return features for the given tuned weights, `(b, c, h, w)` to `(b, d)`; differentiable in the weights."""
        return torch.func.functional_call(self.model, weights, (images,))
