"""The contract of merging rules: what they declare, see and return.

Ours are in `builtin_rules` and `curvature_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from checked_input.text_files import shown
from trainables.curvature import TaskCurvature
from trainables.randomness import make_generator


@dataclass(frozen=True)
class Parameter:
    """A number that a merging rule takes, declared like a hyperparameter.

    Attributes:
        default: The value where none is given.
        low: The smallest allowed value.
        high: The largest allowed value.
        low_excluded: Whether `low` itself is refused.
        log: Whether a search draws its logarithm evenly; for ranges over orders of magnitude.

    Raises:
        ValueError: If `low` is not below `high`, or `log` is set and `low` is not above 0.
    """

    default: float
    low: float
    high: float
    low_excluded: bool = False
    log: bool = False

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"low must be below high, both finite, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 where log is set, got {self.low}")

    @property
    def lowest(self) -> float:
        """The smallest value that a search tries: `low`, or a thousandth of the range above it if it is excluded."""
        return self.low + 1e-3 * (self.high - self.low) if self.low_excluded else self.low

    def fault(self, value: object) -> str | None:
        """Return the fault of a value, such as `must be above 0 and at most 1, got 0`; None without a fault."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and self.low <= value <= self.high and not (self.low_excluded and value == self.low):  # type: ignore[operator]
            return None
        low = f"above {self.low:g}" if self.low_excluded else f"at least {self.low:g}"
        return f"must be {low} and at most {self.high:g}, got {shown(value, 40)}"


@dataclass(frozen=True, kw_only=True)
class Merging:
    """What a merging rule sees.

    Attributes:
        taus: For each task vector, tuned weight name to tau `(out, in)`, on the CPU. Reading makes a new tensor.
        weights: The weight of each task vector: any number but 0.
        curvatures: The curvature of each task, read from its file when it is first asked for. A rule that asks must
            declare which kinds it reads.
        parameters: The value of each parameter that the rule declares.
        seed: The seed of the task vectors.
    """

    taus: Sequence[Mapping[str, Tensor]]
    weights: tuple[float, ...]
    curvatures: Sequence[TaskCurvature] = ()
    parameters: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the tuned weights."""
        return list(self.taus[0])

    def generator(self, weight_name: str) -> torch.Generator:
        """Return the generator of the draws on one weight; it depends on the seed and the name alone."""
        return make_generator(self.seed, "merge", weight_name)


class MergingRule(Protocol):
    """A class, made without arguments, that merges several task vectors into one.

    A rule that reads curvature also has `curvatures`, a tuple of the kinds that it can read: `("diagonal",)`. Vectors
    without such a curvature are then refused before any work.

    Attributes:
        parameters: The numbers that the rule takes, by name.
    """

    parameters: ClassVar[Mapping[str, Parameter]]

    def merge(self, merging: Merging) -> Mapping[str, Tensor]:
        """Return the merged tau of each tuned weight, `(out, in)`, finite; the model is theta_0 plus it."""
