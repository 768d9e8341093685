"""Checks of a curvature against the contract, for those that come with the tool and for anybody's own.

Each check builds the dense matrix H by products with unit displacements, in float64, so the weights must be few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from checked_input.fields import require_argument
from trainables.curvature.contract import Curvature, EstimatedCurvature, QuadraticForm, checked_estimate
from trainables.task_vectors.low_rank import LowRank, Matrices, dense
from trainables.user_code import as_breach, require_members

_RELATIVE, _ABSOLUTE = 1e-9, 1e-11  # differences that pass for rounding in float64


@as_breach()
def check_curvature(
    tasks: Sequence[Curvature],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    sums_exactly: bool = True,
    constant_memory: bool = True,
) -> None:
    """Check the curvatures of some tasks against the contract `Curvature`.

    Args:
        tasks: At least three different curvatures in float64, of the same few weights.
        shapes: The shape of each weight by name, in the curvature's order. At least two weights have the same shape.
        sums_exactly: Whether the curvature of two tasks is the exact sum of both, and not an approximation.
        constant_memory: Whether the sum of two tasks has as many numbers as each of them.

    Raises:
        AssertionError: If a curvature breaks the contract, or raises.
    """
    one, two, three, *_ = tasks
    before = [dense_matrix(task, shapes) for task in tasks]
    for task, matrix in zip(tasks, before, strict=True):
        _check_matrix(matrix, shapes)
        _check_form(task.form(), matrix, list(shapes.values()))
        _check_stacks(task, matrix, shapes)
        _check_saving(task, matrix, shapes)
    _check_arithmetic(one, before[0], shapes)
    _check_sums(one, two, three, shapes)
    if sums_exactly:
        _assert_equal(dense_matrix(one.plus(two, 0.3), shapes), before[0] + 0.3 * before[1], "plus(other, 0.3)")
    if constant_memory:
        assert _numbers(one.plus(two)) == _numbers(one), "the sum of two tasks has other tensors than one of them"
    for task, matrix in zip(tasks, before, strict=True):
        _assert_equal(dense_matrix(task, shapes), matrix, "a curvature after its methods were called")


def check_estimate(kind: type[EstimatedCurvature], *, sums_exactly: bool = True, constant_memory: bool = True) -> None:
    """Check what a curvature that a run can name estimates of a small network, for three sets of images.

    The arguments are those of `check_curvature`, which checks the three. The images come in batches that can be read
    once, with exact passes and with one random pass, as in a trial.

    Raises:
        AssertionError: If it breaks the contract or raises, images in two batches have another exact curvature than in
            one, or an estimate draws from torch's global generator or differs from that with an equal generator.
        InputError: If it is no class of a curvature, or a method takes other arguments.
    """
    require_argument(isinstance(kind, type) and hasattr(kind, "estimate"), "kind", "a class with `estimate`", kind)
    require_members(f"curvature {kind.__name__!r}", kind, EstimatedCurvature)
    with as_breach():
        _check_estimates(kind, sums_exactly, constant_memory)


def _check_estimates(kind: type[EstimatedCurvature], sums_exactly: bool, constant_memory: bool) -> None:
    network = _SmallNetwork()
    layers = {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.Linear)}
    shapes = {f"{name}.weight": tuple(layer.weight.shape) for name, layer in layers.items()}

    def drawn(*shape: int, seed: int) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def estimated(images: Tensor, sizes: int, passes: int | None = None) -> Curvature:
        head, generator = (drawn(4, 2, seed=8), drawn(4, seed=9)), torch.Generator()
        batches = iter(images.split(sizes))  # as in a trial they can be read once
        answer = kind.estimate(network, layers, head, batches, passes=passes, generator=generator)
        found, examples = checked_estimate(f"curvature {kind.__name__!r}", answer)
        assert examples == len(images), f"`estimate` counts {examples} of {len(images)} examples"
        return found

    tasks, state = [drawn(6, 1, 2, 3, seed=seed) for seed in range(3)], torch.get_rng_state()
    whole = [estimated(images, 6) for images in tasks]
    check_curvature(whole, shapes, sums_exactly=sums_exactly, constant_memory=constant_memory)
    parts = dense_matrix(estimated(tasks[0], 4), shapes)
    _assert_equal(parts, dense_matrix(whole[0], shapes), "`estimate` of images in two batches and in one")
    one, other = (dense_matrix(estimated(tasks[0], 4, passes=1), shapes) for _ in range(2))
    _assert_equal(one, other, "`estimate` with one pass, and the same again from an equal generator")
    assert torch.equal(torch.get_rng_state(), state), "`estimate` draws from torch's global generator"


class _SmallNetwork(nn.Module):
    """Two tokens of three numbers to two features; frozen, in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        generator = torch.Generator().manual_seed(7)
        self.double().eval()
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

    def forward(self, images: Tensor) -> Tensor:
        """Return features, `(b, 1, 2, 3)` to `(b, 2)`."""
        return self.last(self.second(self.first(images[:, 0]).tanh()).tanh()).mean(1)


def dense_matrix(curvature: Curvature, shapes: Mapping[str, tuple[int, ...]]) -> Tensor:
    """Return H as a matrix `(m, m)` of all m weights, in the order of `shapes`, from products with unit vectors."""
    form, size = curvature.form(), sum(torch.Size(shape).numel() for shape in shapes.values())
    columns = [_flat(form.product(_split(unit, list(shapes.values())))) for unit in torch.eye(size).double()]
    return torch.stack(columns, dim=1)


def _check_matrix(matrix: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that H is symmetric, positive semidefinite, not zero, and block-diagonal."""
    assert matrix.isfinite().all(), "H is not finite"
    assert matrix.any(), "the curvature is zero, so nothing can be checked"
    _assert_equal(matrix, matrix.T, "the matrix and its transpose")
    values = torch.linalg.eigvalsh(matrix)
    assert values[0] > -1e-9 * values.abs().max(), f"H has the negative eigenvalue {float(values[0]):.3g}"
    within = torch.block_diag(*(torch.ones(2 * (torch.Size(shape).numel(),)) for shape in shapes.values()))
    assert not matrix[within == 0].any(), "H has entries between different weights"


def _check_form(form: QuadraticForm, matrix: Tensor, shapes: Sequence[tuple[int, ...]]) -> None:
    """Check value, product and eigenvalue against the matrix, and the product against autograd of the value."""
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(len(matrix), generator=generator, dtype=torch.float64)
    parts = [part.clone().requires_grad_() for part in _split(flat, shapes)]
    value = form.value(parts)
    assert value.shape == (), f"`value` returns a tensor of shape {tuple(value.shape)}; must be a scalar"
    _assert_equal(value.detach(), flat @ matrix @ flat, "`value` and delta^T H delta")
    gradients = torch.autograd.grad(value / 2, parts)
    detached = [part.detach() for part in parts]
    products = list(map(dense, form.product(detached)))
    assert [each.shape for each in products] == [part.shape for part in parts], "`product` changes shapes"
    for got, want in zip(products, gradients, strict=True):
        _assert_equal(got, want, "`product` and the gradient of `value` / 2")
    _assert_equal(_flat(detached), flat, "the displacement after `product`")
    largest = torch.linalg.eigvalsh(matrix)[-1]
    _assert_equal(torch.tensor(form.largest_eigenvalue(), dtype=torch.float64), largest, "`largest_eigenvalue`")


def _check_stacks(curvature: Curvature, matrix: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the form of stacks, in another order than the names, against the matrix."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, shape in reversed(list(shapes.items())):
        alike.setdefault(tuple(shape), []).append(name)
    assert max(map(len, alike.values())) > 1, "no two weights have one shape, so no stack can be checked"
    stacks = [tuple(names) for names in alike.values()]
    numbers = torch.arange(len(matrix)).split([torch.Size(shape).numel() for shape in shapes.values()])
    places = dict(zip(shapes, numbers, strict=True))
    order = torch.cat([places[name] for names in stacks for name in names])
    stacked = [(len(names), *shape) for shape, names in alike.items()]
    _check_form(curvature.form(stacks), matrix[order][:, order], stacked)
    _check_low_rank(curvature.form(stacks), stacked)


def _check_low_rank(form: QuadraticForm, shapes: Sequence[tuple[int, ...]]) -> None:
    """Check that stacks of matrices that come as factors of rank 1 are worth their dense form."""
    generator = torch.Generator().manual_seed(1)
    narrow: list[Matrices] = []
    for shape in shapes:
        draw = torch.randn(shape, generator=generator, dtype=torch.float64)
        narrow.append(LowRank(draw[..., :1], draw[..., :1, :]) if len(shape) == 3 else draw)
    whole = list(map(dense, narrow))
    _assert_equal(_flat(form.product(narrow)), _flat(form.product(whole)), "`product` of a `LowRank` and of its matrix")
    _assert_equal(form.value(narrow), form.value(whole), "`value` of a `LowRank` and of its matrix")


def _check_saving(curvature: Curvature, matrix: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that `from_tensors` takes back copies of what `tensors` gives."""
    copies = {name: value.clone().contiguous() for name, value in curvature.tensors().items()}
    again = type(curvature).from_tensors(copies)
    assert torch.equal(dense_matrix(again, shapes), matrix), "`from_tensors` does not take back what `tensors` gives"


def _check_arithmetic(curvature: Curvature, matrix: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check scaling, means and shifts, in any order."""
    identity = torch.eye(len(matrix)).double()
    cpu = torch.device("cpu")
    for what, got, want in (
        ("scaled(3)", curvature.scaled(3.0), 3 * matrix),
        ("scaled(0)", curvature.scaled(0.0), 0 * matrix),
        ("mean_over(7)", curvature.mean_over(7), matrix / 7),
        ("shifted(0.5)", curvature.shifted(0.5), matrix + 0.5 * identity),
        ("scaled(0).shifted(0.5)", curvature.scaled(0.0).shifted(0.5), 0.5 * identity),
        ("shifted(0.5).mean_over(7)", curvature.shifted(0.5).mean_over(7), (matrix + 0.5 * identity) / 7),
        ("shifted(0.5).scaled(3)", curvature.shifted(0.5).scaled(3.0), 3 * matrix + 1.5 * identity),
        ("to(cpu)", curvature.to(cpu), matrix),
    ):
        _assert_equal(dense_matrix(got, shapes), want, what)
        if float(want.abs().max()):
            _check_form(got.form(), want, list(shapes.values()))


def _check_sums(one: Curvature, two: Curvature, three: Curvature, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that sums do not depend on the order of tasks and add equal tasks exactly."""
    left, right = one.plus(two).plus(three), three.plus(two).plus(one)
    _assert_equal(dense_matrix(left, shapes), dense_matrix(right, shapes), "sums of tasks in another order")
    _assert_equal(dense_matrix(one.plus(one), shapes), 2 * dense_matrix(one, shapes), "the sum of a task with itself")
    _check_matrix(dense_matrix(left, shapes), shapes)
    _check_form(left.form(), dense_matrix(left, shapes), list(shapes.values()))
    _check_saving(left, dense_matrix(left, shapes), shapes)


def _numbers(curvature: Curvature) -> int:
    return sum(value.numel() for value in curvature.tensors().values())


def _split(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    sizes = [torch.Size(shape).numel() for shape in shapes]
    return [part.reshape(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


def _flat(parts: Sequence[Matrices]) -> Tensor:
    return torch.cat([dense(part).flatten() for part in parts])


def _assert_equal(got: Tensor, want: Tensor, what: str) -> None:
    torch.testing.assert_close(got, want, rtol=_RELATIVE, atol=_ABSOLUTE, msg=lambda text: f"{what}: {text}")
