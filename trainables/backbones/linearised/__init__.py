"""A ViT linearised at its pre-trained weights: its features and outputs along task vectors, and their gradients.

Not here: what is learned with it (`methods.tmc`, `methods.tak`).
"""

from __future__ import annotations

from trainables.backbones.linearised.network import (
    CLASS_TOKEN,
    CLASSIFIER,
    LinearisedFeatures,
    LinearisedViT,
    Vector,
    tangent_layers,
    tangent_weights,
)

__all__ = [
    "CLASSIFIER",
    "CLASS_TOKEN",
    "LinearisedFeatures",
    "LinearisedViT",
    "Vector",
    "tangent_layers",
    "tangent_weights",
]
