from .reading import METHODS_WITH_SPACE, far_off, for_own_images, load_space, paper_benchmarks, paper_points
from .schema import Choices, Dimension, Range, ResolvedSpace, SpaceFile
from .values import Scalar, parse_assignments

__all__ = [
    "Choices",
    "Dimension",
    "METHODS_WITH_SPACE",
    "Range",
    "ResolvedSpace",
    "Scalar",
    "SpaceFile",
    "far_off",
    "for_own_images",
    "load_space",
    "paper_benchmarks",
    "paper_points",
    "parse_assignments",
]
