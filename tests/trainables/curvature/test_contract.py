"""The contract of a curvature, for each that comes with the tool, and that the contract notices what breaks it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from trainables.curvature import DiagonalCurvature, Factors, KroneckerCurvature
from trainables.curvature.diagonal import DiagonalForm
from trainables.curvature.testing import check_curvature, check_estimate
from trainables.errors import InputError

SHAPES = {"a": (3, 2), "b": (2, 2), "c": (3, 2), "d": (3,)}


def diagonals(kind: type[DiagonalCurvature] = DiagonalCurvature) -> list[DiagonalCurvature]:
    generator = torch.Generator().manual_seed(5)
    return [
        kind({name: torch.rand(shape, generator=generator).double() for name, shape in SHAPES.items()})
        for _ in range(3)
    ]


def test_the_diagonal_keeps_the_contract() -> None:
    check_curvature(diagonals(), SHAPES)


def test_kronecker_factors_keep_the_contract() -> None:
    generator = torch.Generator().manual_seed(6)
    shapes = {name: shape for name, shape in SHAPES.items() if len(shape) == 2}

    def factor(size: int) -> Tensor:
        root = torch.randn(1, size, size - 1, generator=generator, dtype=torch.float64)
        return root @ root.mT

    tasks = [
        KroneckerCurvature({name: Factors(factor(i), factor(o)) for name, (o, i) in shapes.items()}) for _ in range(3)
    ]
    check_curvature(tasks, shapes, sums_exactly=False)
    with pytest.raises(AssertionError, match="plus"):
        check_curvature(tasks, shapes)  # averages are not exact
    tensors = tasks[0].tensors() | {"apart": torch.ones(())}
    with pytest.raises(InputError, match="kept apart"):
        KroneckerCurvature.from_tensors(tensors)


def test_what_both_estimate_keeps_the_contract_and_an_estimate_of_the_first_batch_alone_does_not() -> None:
    check_estimate(DiagonalCurvature)
    check_estimate(KroneckerCurvature, sums_exactly=False)

    class FirstBatch(DiagonalCurvature):
        @classmethod
        def estimate(cls, *args: Any, **how: Any) -> Any:
            *before, batches = args
            found, _ = DiagonalCurvature.estimate(*before, [next(iter(batches))], **how)
            return found, 6

    with pytest.raises(AssertionError, match="two batches"):
        check_estimate(FirstBatch)


def estimating(answer: Callable[[Any], Any]) -> type[DiagonalCurvature]:
    """Return a curvature whose `estimate` answers with something made of what the diagonal's answers."""

    class Own(DiagonalCurvature):
        @classmethod
        def estimate(cls, *args: Any, **how: Any) -> Any:
            return answer(DiagonalCurvature.estimate(*args, **how))

    return Own


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda found: found[0], r"curvature 'Own': estimate must return \(curvature, number of examples\), got Diag"),
        (lambda found: None, r"curvature 'Own': estimate must return \(curvature, number of examples\), got nothing$"),
        (lambda found: (found[0], 6.0), r"curvature 'Own': estimate must return the number of examples, got 6\.0$"),
        (lambda found: (*found, 1), r"curvature 'Own': estimate must return \(curvature, .*, got tuple$"),
        (lambda found: (found[0], True), r"curvature 'Own': estimate must return the number of examples, got True$"),
        (lambda found: (found[0], 0), r"curvature 'Own': estimate must return the number of examples, got 0$"),
        (lambda found: (3, found[1]), r"curvature 'Own': estimate: the class int lacks plus\(\), scaled\(\)"),
        (lambda found: (found[0].scaled(math.nan), found[1]), "H is not finite$"),
        (lambda found: (found[0].scaled(-1.0), found[1]), "H has the negative eigenvalue -"),
        (lambda found: (found[0].scaled(0.0), found[1]), "the curvature is zero, so nothing can be checked$"),
        (lambda found: 1 / 0, rf"ZeroDivisionError: division by zero in {re.escape(__file__)}, line \d+$"),
        (lambda found: torch.testing.assert_close(1, 2), rf"AssertionError: .* in {re.escape(__file__)}, line \d+$"),
    ],
)
def test_what_an_estimate_breaks_is_said_in_plain_words(answer: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(AssertionError, match=f"^{said}"):
        check_estimate(estimating(answer))


def _exact_alone(how: dict[str, Any]) -> None:
    if how["passes"] is not None:
        raise NotImplementedError("exact alone")


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (lambda batches, how: _exact_alone(how), r"NotImplementedError: exact alone in "),
        (lambda batches, how: list(batches), ".*needs at least one example"),
        (lambda batches, how: how["generator"].seed(), "`estimate` with one pass, and the same again from an equal "),
        (lambda batches, how: torch.rand(1), "`estimate` draws from torch's global generator$"),
    ],
)
def test_an_estimate_that_no_trial_could_use_is_noticed(before: Callable[[Any, Any], Any], said: str) -> None:
    class Own(DiagonalCurvature):
        @classmethod
        def estimate(cls, *args: Any, **how: Any) -> Any:
            before(args[-1], how)
            return DiagonalCurvature.estimate(*args, **how)

    with pytest.raises(AssertionError, match=f"^{said}"):
        check_estimate(Own)


def test_an_estimate_that_takes_other_arguments_is_refused_as_in_a_run() -> None:
    class Short(DiagonalCurvature):
        @classmethod
        def estimate(cls, model: object, layers: object) -> Any: ...  # type: ignore[override]

    with pytest.raises(
        InputError, match=r"^curvature 'Short': Short.estimate must take \(model, layers, head, batches"
    ):
        check_estimate(Short)
    with pytest.raises(InputError, match="^kind must be a class with `estimate`, got "):
        check_estimate(DiagonalCurvature({}))  # type: ignore[arg-type]


class Replaced(DiagonalCurvature):
    """A diagonal whose methods return its own class, so that a method can be replaced."""

    def _each(self, change: Callable[[Tensor], Tensor]) -> Replaced:
        return type(self)({name: change(value) for name, value in self.values.items()})

    def plus(self, other: DiagonalCurvature, weight: float = 1.0) -> Replaced:
        return type(self)(super().plus(other, weight).values)


class HalfForm(DiagonalForm):
    def value(self, displacements: Sequence[Tensor]) -> Tensor:
        return super().value(displacements) / 2


class InPlaceForm(DiagonalForm):
    def product(self, displacements: Sequence[Tensor]) -> list[Tensor]:
        torch._foreach_mul_(list(displacements), self.values)
        return list(displacements)


class TraceForm(DiagonalForm):
    def largest_eigenvalue(self) -> float:
        return float(sum(value.sum() for value in self.values))


class NegativeForm(DiagonalForm):
    def __init__(self, values: list[Tensor]) -> None:
        super().__init__([-value for value in values])


def with_form(kind: type[DiagonalForm]) -> tuple[str, Callable[..., Any]]:
    return "form", lambda self, stacks=None: kind(DiagonalCurvature.form(self, stacks).values)


def in_place(self: Replaced, other: Replaced, weight: float = 1.0) -> Replaced:
    self.values["a"].add_(other.values["a"])
    return self


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "none": ("plus", Replaced.plus),
    "scaled": ("scaled", lambda self, factor: self._each(lambda value: value * factor**2)),
    "mean_over": ("mean_over", lambda self, examples: self._each(lambda value: value / (examples - 1))),
    "shifted": ("shifted", lambda self, amount: self),
    "weight of a sum": ("plus", lambda self, other, weight=1.0: Replaced.plus(self, other)),
    "order of a sum": ("plus", lambda self, other, weight=1.0: Replaced.plus(self.scaled(0.5), other, weight)),
    "in place": ("plus", in_place),
    "saving": ("tensors", lambda self: {name: value.float() for name, value in self.values.items()}),
    "stacks": ("form", lambda self, stacks=None: DiagonalCurvature.form(self, stacks and [s[::-1] for s in stacks])),
    "order in a stack": (
        "form",
        lambda self, stacks=None: DiagonalCurvature.form(self, stacks and [tuple(sorted(names)) for names in stacks]),
    ),
    "half": with_form(HalfForm),
    "displacement": with_form(InPlaceForm),
    "eigenvalue": with_form(TraceForm),
    "negative": with_form(NegativeForm),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_contract_notices_a_fault_in_one_method(fault: str) -> None:
    name, replacement = FAULTS[fault]
    tasks = diagonals(type("Faulty", (Replaced,), {name: replacement}))
    if fault == "none":
        check_curvature(tasks, SHAPES)
        return
    with pytest.raises(AssertionError):
        check_curvature(tasks, SHAPES)


def test_a_curvature_with_one_negative_eigenvalue_is_refused() -> None:
    tasks = diagonals()
    tasks[1].values["a"][0, 0] = -0.1  # the others are up to 1
    with pytest.raises(AssertionError, match=r"H has the negative eigenvalue -0\.1"):
        check_curvature(tasks, SHAPES)


def test_the_contract_needs_weights_that_can_be_stacked() -> None:
    with pytest.raises(AssertionError, match="no stack can be checked"):
        check_curvature([DiagonalCurvature({"a": torch.eye(2).double()})] * 3, {"a": (2, 2)})
