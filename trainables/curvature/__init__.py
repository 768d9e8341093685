"""Curvature of the loss in the weights: one contract, behind it the diagonal Fisher and Kronecker factors.

Not here: the strengths of the regularisers that use a curvature (`methods`), and when it is estimated
(`preconsolidation`).
"""

from __future__ import annotations

from typing import Literal

from trainables.curvature.contract import Curvature, QuadraticForm, TaskCurvature
from trainables.curvature.diagonal import DiagonalCurvature
from trainables.curvature.factors import layer_factors
from trainables.curvature.features import FeatureCurvature, feature_curvature
from trainables.curvature.fisher import head_fisher, layer_fisher
from trainables.curvature.kronecker import Factors, KroneckerCurvature

CurvatureKind = Literal["diagonal", "kronecker"]
KINDS: dict[CurvatureKind, type[DiagonalCurvature] | type[KroneckerCurvature]] = {
    "diagonal": DiagonalCurvature,
    "kronecker": KroneckerCurvature,
}

__all__ = [
    "KINDS",
    "Curvature",
    "CurvatureKind",
    "DiagonalCurvature",
    "Factors",
    "FeatureCurvature",
    "KroneckerCurvature",
    "QuadraticForm",
    "TaskCurvature",
    "feature_curvature",
    "head_fisher",
    "layer_factors",
    "layer_fisher",
]
