"""Choose a merging rule by name, with its parameters, and run it on saved task vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainables.composition.builtin_rules import RULES
from trainables.composition.rules import Merging, MergingRule, Parameter
from trainables.composition.saved import SavedVector
from trainables.errors import InputError
from trainables.user_code import called, find, require_members

_CPU = torch.device("cpu")


class DenseVector(Mapping[str, Tensor]):
    """A whole task vector: tuned weight name to tau `(out, in)`, on the CPU, made anew each time it is read.

    A rule that goes from weight to weight has the task vectors of one weight in memory.
    """

    def __init__(self, vector: SavedVector, theta_0: Mapping[str, Tensor]) -> None:
        self._vector, self._theta_0 = vector, theta_0

    def __getitem__(self, name: str) -> Tensor:
        return self._vector.dense(name, self._theta_0[name].to(_CPU))

    def __iter__(self) -> Iterator[str]:
        return iter(self._theta_0)

    def __len__(self) -> int:
        return len(self._theta_0)


@dataclass(frozen=True)
class ChosenRule:
    """A merging rule with a value of each of its parameters, for the task vectors of one seed; see `choose_rule`."""

    name: str
    parameters: Mapping[str, float]
    seed: int = 0

    def merge(
        self, theta_0: Mapping[str, Tensor], vectors: Sequence[SavedVector], weights: Sequence[float]
    ) -> dict[str, Tensor]:
        """Return the merged tau by tuned weight name, on the CPU; vectors and weights are one or more.

        Raises:
            InputError: If the rule fails, or returns other names or shapes, or numbers that are not finite.
        """
        rule, what = rule_called(self.name), f"rule {self.name!r}"
        taus = [DenseVector(vector, theta_0) for vector in vectors]
        merging = Merging(taus=taus, weights=weights, parameters=self.parameters, seed=self.seed)
        found = called(what, lambda: rule.merge(merging))
        if fault := _fault(found, theta_0):
            raise InputError(f"{what}: {fault}")
        return dict(found)


def rule_called(name: str) -> MergingRule:
    """Return a rule of ours, of an installed package or of `MODULE:NAME`.

    Raises:
        InputError: If there is none, or it is not a class that satisfies `MergingRule`.
    """
    what, found = f"rule {name!r}", find("rule", name, RULES, type)
    require_members(what, found, MergingRule)
    rule: MergingRule = called(what, found)
    declared = getattr(rule, "parameters", None)
    if not isinstance(declared, Mapping) or not all(isinstance(each, Parameter) for each in declared.values()):
        raise InputError(f"{what}: parameters must map each name to a Parameter")
    for key, each in declared.items():
        if fault := each.fault(each.default):
            raise InputError(f"{what}: the default of {key} {fault}")
    return rule


def choose_rule(name: str, given: Mapping[str, Any], seed: int = 0) -> ChosenRule:
    """Return a rule with the given parameters, and the defaults of the others.

    Raises:
        InputError: If there is no such rule, or a parameter is unknown or out of range.
    """
    declared = rule_called(name).parameters
    for key, value in given.items():
        if key not in declared:
            allowed = ", ".join(declared) or "none"
            raise InputError(f"rule {name!r}: unknown parameter {key!r}; allowed: {allowed}")
        if fault := declared[key].fault(value):
            raise InputError(f"rule {name!r}: {key} {fault}")
    return ChosenRule(name, {key: float(given.get(key, each.default)) for key, each in declared.items()}, seed)


def _fault(found: object, theta_0: Mapping[str, Tensor]) -> str | None:
    """Return the first fault of what a rule returned; None without a fault."""
    if not isinstance(found, Mapping):
        return f"merge must return a mapping of tensors, got {type(found).__name__}"
    if other := sorted(map(str, found.keys() ^ theta_0.keys())):
        return (
            f"merge must return each tuned weight once; {other[0]!r} is {'unknown' if other[0] in found else 'missing'}"
        )
    for name, weight in theta_0.items():
        value = found[name]
        if not isinstance(value, Tensor) or value.shape != weight.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            return f"merge must return {tuple(weight.shape)} for {name!r}, got {got}"
        if not bool(torch.isfinite(value).all()):
            return f"merge returned numbers for {name!r} that are not finite"
    return None
