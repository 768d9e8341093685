"""Curvature of the loss in the weights: one contract, and the diagonal Fisher behind it.

Not here: the strengths of the regularisers that use a curvature (`methods`), and when it is estimated
(`preconsolidation`).
"""

from __future__ import annotations

from trainables.curvature.contract import Curvature, QuadraticForm
from trainables.curvature.diagonal import DiagonalCurvature
from trainables.curvature.fisher import head_fisher, layer_fisher

__all__ = ["Curvature", "DiagonalCurvature", "QuadraticForm", "head_fisher", "layer_fisher"]
