"""Choose a merging rule by name, with its parameters, and run it on saved task vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checked_input.names import choices
from checked_input.text_files import shown
from trainables.composition.builtin_rules import RULES
from trainables.composition.curvatures import SavedCurvatures, require_curvature
from trainables.composition.rules import Merging, MergingRule, Parameter
from trainables.composition.saved import SavedVector
from trainables.curvature import KINDS, CurvatureKind
from trainables.errors import InputError, faults_of
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
        """Return the merged tau by tuned weight name, in theta_0's precision, on the CPU.

        Raises:
            InputError: If the rule fails, or returns other names or shapes, or numbers that are not finite floats; or
                if it reads curvatures, and a vector lacks one.
        """
        rule, what = rule_called(self.name), f"rule {self.name!r}"
        self.require_curvatures(vectors)
        merging = Merging(
            taus=[DenseVector(vector, theta_0) for vector in vectors],
            weights=tuple(weights),
            curvatures=SavedCurvatures(vectors, theta_0, curvatures_of(rule)),
            parameters=self.parameters,
            seed=self.seed,
        )
        return checked_merge(what, rule, merging, theta_0)

    @property
    def reads_curvatures(self) -> bool:
        """Whether the rule reads the curvature of each task."""
        return bool(curvatures_of(rule_called(self.name)))

    def require_curvatures(self, vectors: Iterable[SavedVector]) -> None:
        """Refuse vectors without a curvature of the kinds that the rule reads, if it reads any, by an InputError."""
        kinds = curvatures_of(rule_called(self.name))
        for vector in vectors if kinds else ():
            with faults_of(f"rule {self.name!r} reads curvatures"):
                require_curvature(vector, kinds)


def rule_called(name: str) -> MergingRule:
    """Return a rule of ours, of an installed package or of `MODULE:NAME`; an InputError for none or a wrong one."""
    return checked_rule(f"rule {name!r}", find("rule", name, RULES, type))


def checked_rule(what: str, make: Callable[[], MergingRule]) -> MergingRule:
    """Return a rule; one that does not satisfy `MergingRule` is an InputError that begins with `what`."""
    rule = called(what, make)
    require_members(what, type(rule), MergingRule)
    if fault := _declaration_fault(rule):
        raise InputError(f"{what}: {fault}")
    return rule


def checked_merge(what: str, rule: MergingRule, merging: Merging, theta_0: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a rule merges in theta_0's precision; a failure or wrong result is an InputError with `what`."""
    found = called(what, lambda: rule.merge(merging))
    if fault := _fault(found, theta_0):
        raise InputError(f"{what}: {fault}")
    return {name: value.detach().to(theta_0[name].dtype) for name, value in found.items()}


def _declaration_fault(rule: MergingRule) -> str | None:
    """Return the first fault of what a rule declares; None without a fault."""
    declared, kinds = getattr(rule, "parameters", None), curvatures_of(rule)
    if declared is None:
        return "parameters is missing; write {} for none"
    if not isinstance(declared, Mapping) or not all(isinstance(each, Parameter) for each in declared.values()):
        return "parameters must map each name to a Parameter"
    for key, each in declared.items():
        if fault := each.fault(each.default):
            return f"the default of {key} {fault}"
    if not isinstance(kinds, tuple) or not all(kind in tuple(KINDS) for kind in kinds):
        return f"curvatures must be a tuple of {' or '.join(map(repr, KINDS))}, got {shown(kinds, 40)}"
    return None


def curvatures_of(rule: MergingRule) -> tuple[CurvatureKind, ...]:
    """Return the kinds of curvature that a rule can read; empty for one that reads none."""
    kinds: tuple[CurvatureKind, ...] = getattr(rule, "curvatures", ())
    return kinds


def choose_rule(name: str, given: Mapping[str, Any], seed: int = 0) -> ChosenRule:
    """Return a rule with the given parameters and its defaults; an unknown or wrong parameter is an InputError."""
    declared = rule_called(name).parameters
    for key, value in given.items():
        if key not in declared:
            raise InputError(f"rule {name!r}: unknown parameter {key!r}; {choices(key, declared)}")
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
        if not value.is_floating_point():
            return f"merge must return floats for {name!r}, got {value.dtype}"
        if not bool(torch.isfinite(value.to(weight.dtype)).all()):
            return f"merge returned numbers for {name!r} that are not finite"
    return None
