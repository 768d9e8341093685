"""Hyperparameters of TAK, and what is refused before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainables.errors import InputError
from trainables.methods.contract import Scenario, require_blocks
from trainables.methods.hyperparameters import Count, NonNegative, Positive, PositiveCount, ProbingConfig, Share
from trainables.methods.tak.generic import read_generic
from trainables.methods.tak.references import FeatureReferences


@dataclass(frozen=True, kw_only=True)
class TAKConfig(ProbingConfig):
    """Hyperparameters of TAK."""

    lr: Positive  # of AdamW, the highest
    strength: NonNegative  # lambda of the penalty
    affine: NonNegative = 10.0  # c: strength of norms and class token relative to that of the layers
    alpha: Positive = 1.0  # coefficient of the sum of task vectors
    decay: NonNegative = 0.1  # weight decay of AdamW on tau
    warm_up: Share = 0.1  # share of a task's steps in which the learning rate rises
    draws: PositiveCount | Literal["all"] = 1  # backward passes per batch of the curvature; "all" is exact
    references: Literal["past", "generic"] = "past"  # whose curvature holds tau: past tasks', or other images'
    factors: str = ""  # the file of the generic references
    regularise: Literal["all", "none"] = "all"  # "none" is an ablation
    head: Literal["frozen", "trained"] = "frozen"  # h0_t as it is, or trained with tau
    lr_pre: Positive = 0.01  # of linear probing
    epochs_pre: Count = 3  # of linear probing

    @property
    def past(self) -> FeatureReferences:
        """The curvature of the tasks so far; a task is held by that of the task before."""
        return FeatureReferences(feature_draws=None if self.draws == "all" else self.draws)


def validate(config: TAKConfig, scenario: Scenario) -> None:
    """Refuse a backbone without blocks, generic references without a right file, and a file without need."""
    require_blocks("tak", scenario)
    if config.references == "generic":
        if not config.factors:
            raise InputError(
                "tak: references=generic needs its factors: make them once with"
                " `python -m trainables.methods.tak.make_generic FILE` and give --set factors=FILE"
            )
        read_generic(config.factors, scenario.backbone)
    elif config.factors:
        raise InputError(f"tak: factors={config.factors}: is for references=generic, got {config.references}")
