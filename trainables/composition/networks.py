"""The networks that evaluate compositions: one of composed weights, and two linearised ones, for TMC and TAK."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.backbones import AttentionKind, Backbone, tuned_layers
from trainables.backbones.linearised.network import CLASSIFIER, LinearisedFeatures, LinearisedViT
from trainables.composition.chosen_rules import ChosenRule
from trainables.composition.merging import composed, merged, shared_sum, weighted_sum
from trainables.composition.saved import SavedVector
from trainables.config import Precision
from trainables.errors import InputError
from trainables.heads import Head
from trainables.precision import features
from trainables.task_vectors import Parametrisation


class ComposedNetwork:
    """theta_0, and one composition at a time: two sets of weights, however many task vectors are composed.

    The precision is that of forward passes. Attention "plain" has derivatives of any order; see `Backbone.load`.

    `theta_0` and `weights` have the pre-trained and the composed value `(out, in)` of each tuned weight.
    """

    displaces_weights = True  # a composition is a set of weights, so that other libraries can run it
    adds_up = False  # equal weights stand for the sum of the vectors, not for their mean

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
        self.weights = self.theta_0
        self.width: int = self.model.num_features
        self._head: Head | None = None

    def compose(
        self,
        vectors: Iterable[SavedVector],
        weights: Sequence[float],
        head: Head,
        rule: ChosenRule | None = None,
    ) -> None:
        """Set the weights to a composition, and the classifier to the rows of all classes, `(C, d)` and `(C,)`.

        Weights may be negative or 0. The vectors are read one by one, unless a merging rule replaces the weighted sum.
        """
        self.require_allowed(rule)
        self.weights = {}  # frees the last composition before the next is made
        self._head = (head[0].to(self.device), head[1].to(self.device))
        if rule is None:
            self.weights = self._sum(vectors, weights)
        else:
            self.weights = merged(self.theta_0, list(vectors), weights, rule)

    def require_allowed(self, rule: ChosenRule | None) -> None:
        """Refuse a merging rule in place of the weighted sum if the network is linear in tau, by an InputError."""
        if rule is not None and not self.displaces_weights:
            raise InputError(f"--rule {rule.name}: of tangents only weighted sums have a meaning; allowed: linear")

    def _sum(self, vectors: Iterable[SavedVector], weights: Sequence[float]) -> dict[str, Tensor]:
        return composed(self.theta_0, vectors, weights)

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits of all classes, `(b, c, h, w)` to `(b, C)`."""
        assert self._head is not None, "compose before predict"
        read = features(lambda x: self.features_at(self.weights, x), images, self.precision, self.device)
        return F.linear(read, *self._head)

    def features_at(self, weights: dict[str, Tensor], images: Tensor) -> Tensor:
        """Return features for the given tuned weights, `(b, c, h, w)` to `(b, d)`; differentiable in the weights."""
        return torch.func.functional_call(self.model, weights, (images,), tie_weights=False)  # as they were trained


class _LinearisedNetwork(ComposedNetwork):
    """A network that is linearised at theta_0; `weights` has the sum of the tau of each weight."""

    displaces_weights = False

    def __init__(self, linearised: LinearisedFeatures) -> None:
        self.device = linearised.device
        self.theta_0 = {name: weight.detach() for name, weight in linearised.theta_0.items()}
        self.weights = {}
        self.width = linearised.vit.num_features
        self._head = None


class TangentNetwork(_LinearisedNetwork):
    """f_lin(x; sum_t w_t tau_t): one network, linearised at theta_0, and one sum of task vectors.

    The classifier is a part of tau: a composition has W + sum_t w_t tau_{t,W}, with W the random classifier that all
    tasks of a run share. So leaving a task out also undoes the training of its classifier rows, and the head that
    `compose` is given is ignored. The vectors are read twice.
    """

    def __init__(self, backbone: Backbone, device: torch.device, precision: Precision) -> None:
        vit, empty = backbone.load(device, attention="plain"), torch.empty(0)  # with forward-mode derivatives
        self.linearised = LinearisedViT(vit, (empty, empty), precision, device)  # `compose` sets the classifier
        super().__init__(self.linearised)

    def _sum(self, vectors: Iterable[SavedVector], weights: Sequence[float]) -> dict[str, Tensor]:
        rows = zip(*(vector.anchor for vector in vectors), strict=True)
        weight, bias = (torch.cat(part).to(self.device) for part in rows)
        self.linearised.head = (weight, bias)
        return weighted_sum({**self.theta_0, **dict(zip(CLASSIFIER, (weight, bias), strict=True))}, vectors, weights)

    def predict(self, images: Tensor) -> Tensor:
        """Return f_lin of all classes, `(b, c, h, w)` to `(b, C)`."""
        return self.linearised.logits(images, self.weights)


class FeatureTangentNetwork(_LinearisedNetwork):
    """phi_lin(x; n sum_t w_t tau_t), read by the heads of all tasks: the features alone are linearised.

    The task vectors add up, so that equal weights 1/n of n vectors stand for their sum; see `shared_sum`.
    """

    adds_up = True

    def __init__(self, backbone: Backbone, device: torch.device, precision: Precision) -> None:
        vit = backbone.load(device, attention="plain")  # with forward-mode derivatives
        self.linearised = LinearisedFeatures(vit, precision, device, class_token=True)
        super().__init__(self.linearised)

    def _sum(self, vectors: Iterable[SavedVector], weights: Sequence[float]) -> dict[str, Tensor]:
        return shared_sum(self.theta_0, vectors, weights)

    def predict(self, images: Tensor) -> Tensor:
        """Return logits of all classes, `(b, c, h, w)` to `(b, C)`."""
        assert self._head is not None, "compose before predict"
        return F.linear(self.linearised.features(images, self.weights), *self._head)


NETWORKS: dict[Parametrisation, type[ComposedNetwork]] = {
    **dict.fromkeys(("full", "lora", "ia3"), ComposedNetwork),  # all displace weights
    "tangent": TangentNetwork,
    "feature-tangent": FeatureTangentNetwork,
}


def network_for(
    vectors: Iterable[SavedVector], backbone: Backbone, device: torch.device, precision: Precision = "fp32"
) -> ComposedNetwork:
    """Return a new network for compositions of the vectors; an InputError if they need different networks."""
    kinds = {vector.parametrisation: NETWORKS[vector.parametrisation] for vector in vectors}
    if len(set(kinds.values())) > 1:
        raise InputError(f"task vectors of the kinds {', '.join(kinds)} cannot be composed with each other")
    return next(iter(kinds.values()))(backbone, device, precision)
