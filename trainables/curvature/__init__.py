"""Curvature of the loss in the weights: one contract, behind it the diagonal Fisher and Kronecker factors.

Not here: the strengths of the regularisers that use a curvature (`methods`), and when it is estimated
(`preconsolidation`).
"""

from __future__ import annotations

from typing import Literal

from trainables.curvature.contract import (
    Curvature as Curvature,
    EstimatedCurvature as EstimatedCurvature,
    QuadraticForm as QuadraticForm,
    TaskCurvature as TaskCurvature,
    checked_estimate as checked_estimate,
)
from trainables.curvature.diagonal import DiagonalCurvature as DiagonalCurvature, head_fisher as head_fisher
from trainables.curvature.features import FeatureCurvature as FeatureCurvature, feature_curvature as feature_curvature
from trainables.curvature.kronecker import Factors as Factors, KroneckerCurvature as KroneckerCurvature
from trainables.curvature.passes import add_passes as add_passes
from trainables.user_code import find, require_members

CurvatureKind = Literal["diagonal", "kronecker"]
KINDS: dict[CurvatureKind, type[DiagonalCurvature] | type[KroneckerCurvature]] = {
    "diagonal": DiagonalCurvature,
    "kronecker": KroneckerCurvature,
}


def curvature_called(name: str) -> type[EstimatedCurvature]:
    """Return a curvature of ours, of a package or of `MODULE:NAME`; none, or a wrong class, is an InputError."""
    ours = {str(kind): curvature for kind, curvature in KINDS.items()}
    found: type[EstimatedCurvature] = find("curvature", name, ours, type)
    require_members(f"curvature {name!r}", found, EstimatedCurvature)
    return found
