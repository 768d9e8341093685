"""How good the embedded backbone is: a joint linear probe on its frozen features, tested.

Logistic regression (scikit-learn, C = 1, standardised features) on the whole training set without augmentation.
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from trainables.backbones import Backbone
from trainables.data import BENCHMARKS, ImageSet, Normalise, build_benchmark, concatenate


@torch.no_grad()
def _features(images: ImageSet) -> Tensor:
    assert isinstance(images.images, Tensor)
    backbone, normalise = Backbone().load(), Normalise()
    return torch.cat([backbone(normalise(part)) for part in images.images.split(500)])


def run() -> list[dict[str, Any]]:
    """Probe every embedded benchmark."""
    rows = []
    for name, spec in BENCHMARKS.items():
        benchmark = build_benchmark(spec, "final")
        train, test = benchmark.merged().train, concatenate(benchmark.evaluation)
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        probe.fit(_features(train), train.labels)
        accuracy = 100 * probe.score(_features(test), test.labels)
        rows.append({"benchmark": name, "test images": len(test), "accuracy in percent": accuracy})
    return rows
