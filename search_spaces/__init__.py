"""What may be tried: one YAML file per method, and the code that reads and checks them."""

from __future__ import annotations

from search_spaces.reading import METHODS_WITH_SPACE, load_space, paper_benchmarks, paper_points
from search_spaces.schema import Choices, Dimension, Range, ResolvedSpace, Scalar, SpaceError, SpaceFile
from search_spaces.values import parse_assignment

__all__ = [
    "METHODS_WITH_SPACE",
    "Choices",
    "Dimension",
    "Range",
    "ResolvedSpace",
    "Scalar",
    "SpaceError",
    "SpaceFile",
    "load_space",
    "paper_benchmarks",
    "paper_points",
    "parse_assignment",
]
