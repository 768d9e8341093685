"""The contract tests of curvatures; they stand beside the curvatures, which do not know this package."""

from trainables.curvature.testing import check_curvature as check_curvature, check_estimate as check_estimate
