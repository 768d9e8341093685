"""The curvature of the features on the images of past tasks, prepared task by task and shared through the cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.curvature import FeatureCurvature, feature_curvature
from trainables.data import Task
from trainables.preconsolidation.preparation import Basis
from trainables.randomness import make_generator

CURVATURE_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class FeatureReferences:
    """The curvature on the images of tasks 1 to t: a function of theta_0 and of these images, without augmentation."""

    feature_draws: int | None = 1  # backward passes per batch; None: exact

    def prepare(self, task: Task, previous: FeatureCurvature | None, basis: Basis) -> dict[str, Tensor]:
        """Return the tensors of the curvature on tasks 1 to t."""
        batches = task.unaugmented.batches(CURVATURE_BATCH, None, shuffle=False, device=basis.device)
        own = feature_curvature(
            basis.theta_0,
            (batch.x for batch in batches),
            draws=self.feature_draws,
            generator=make_generator(basis.seed, "feature-draws", task.index),
        ).to(torch.device("cpu"))
        return (own if previous is None else previous.plus(own)).tensors()

    def read(self, tensors: dict[str, Tensor], task: Task, previous: FeatureCurvature | None) -> FeatureCurvature:
        """Return the curvature from its tensors."""
        return FeatureCurvature.from_tensors(tensors)
