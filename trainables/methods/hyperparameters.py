"""Types of hyperparameters that several methods share; a config is checked against them when it is parsed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LARGEST = 1e30  # well within float32
MOST = 1_000_000  # passes, rows, images

Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MOST)]
PositiveCount = Annotated[int, Field(ge=1, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
