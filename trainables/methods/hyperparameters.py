"""Types of hyperparameters that several methods share; a config is checked against them when it is parsed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainables.preconsolidation import PreconsolidationConfig

LARGEST = 1e30  # well within float32
MOST = 1_000_000  # passes, rows, images

Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MOST)]
PositiveCount = Annotated[int, Field(ge=1, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ProbingConfig:
    """A config of a method that begins with linear probing; it declares both hyperparameters among its own."""

    lr_pre: Positive
    epochs_pre: Count

    @property
    def preconsolidation(self) -> PreconsolidationConfig:
        """The hyperparameters of pre-consolidation, in which no curvature of the network is estimated."""
        return PreconsolidationConfig(lr_pre=self.lr_pre, epochs_pre=self.epochs_pre, fisher_passes=0)
