"""The contract of curvatures; it stands beside the curvatures, which do not know this package."""

from trainables.curvature.testing import check_curvature as check_curvature
