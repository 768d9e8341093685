"""Hyperparameters that ITA and IEL share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trainables.data.few_images import OwnImages, Unsuited
from trainables.data.sources import epochs_of
from trainables.heads import HeadUse
from trainables.methods.contract import Scenario
from trainables.methods.hyperparameters import Count, Positive, PositiveCount, ProbingConfig
from trainables.preconsolidation import PreconsolidationConfig

Formulation = Literal["paper", "official"]

_LR_PRE, _WIDTH = 0.01, 768  # of the paper's ViT
_FEW = 4  # images of a component, below which its variances say little
_STEPS_PRE = 100  # of probing a task; the paper's have between 40 (CUB-200, MIT-67) and 220 (RESISC45)


@dataclass(frozen=True, kw_only=True)
class ComposableConfig(ProbingConfig):
    """Hyperparameters that ITA and IEL share."""

    lr: Positive  # of AdamW, for tau and head
    lr_pre: Positive = 0.01  # of linear probing
    epochs_pre: Count = 3  # of linear probing
    fisher_passes: PositiveCount | Literal["all"] = 8  # backward passes per batch of the Fisher; "all" is exact
    curvature: str = "diagonal"  # of the tuned weights: the Fisher's diagonal, "kronecker", or code of the user
    formulation: Formulation = "paper"  # the equations, or the authors' code where it departs from them
    regularise: Literal["all", "head", "none"] = "all"  # "head" and "none" are ablations
    heads: HeadUse = "concatenated"  # h_t as trained, or as in `averaged_heads`

    @property
    def preconsolidation(self) -> PreconsolidationConfig:
        """The hyperparameters of pre-consolidation."""
        passes = None if self.fisher_passes == "all" else self.fisher_passes
        return PreconsolidationConfig(
            lr_pre=self.lr_pre, epochs_pre=self.epochs_pre, fisher_passes=passes, curvature=self.curvature
        )


def own_data_probing(scenario: Scenario, steps: int) -> dict[str, float | int]:
    """Return `lr_pre` (two digits) and `epochs_pre` for images without tuned defaults, given the batches per epoch.

    Features leave a layer norm, so their norm is about the root of the width d, and the step size is the paper's times
    sqrt(768 / d). Longer probing costs accuracy: it makes logits large, and the gradient of alignment, which has to
    balance the tasks afterwards, falls with their norm. docs/how-to/few-images.md has the measured values.
    """
    lr = float(f"{_LR_PRE * math.sqrt(_WIDTH / scenario.backbone.shape.width):.1e}")
    return {"lr_pre": lr, "epochs_pre": epochs_of(steps, ComposableConfig.epochs_pre, _STEPS_PRE)}


def unsuited_probing(config: ProbingConfig, images: OwnImages) -> Iterator[Unsuited]:
    """Say whether probing as long as in the paper, and mixtures as large as there, suit few images."""
    usual = ComposableConfig.epochs_pre
    wanted, now = epochs_of(images.steps, usual, _STEPS_PRE), config.epochs_pre
    if wanted > usual:
        instead = f"{now} is used" if now != usual else f"--set epochs_pre={wanted} makes {wanted * images.steps}"
        yield Unsuited("epochs_pre", f"{usual} would make {usual * images.steps} steps of probing a task", instead)
    components = config.preconsolidation.components
    if images.per_class is not None and images.per_class < _FEW * components:
        each = f"{max(1.0, images.per_class / components):.2g}"
        reason = f"of {components} Gaussians a class have on average {each} images each, so draws repeat these images"
        yield Unsuited("mixtures", reason, "their number cannot be set: more images help")
