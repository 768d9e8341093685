"""The curvature with Kronecker factors: G (x) A for each weight.

Notation: a weight is `(out, in)`, and so is its displacement D; S is 1, a dimension that files have.

    H vec(D) = vec(sum_s G_s D A_s + shift D)

Tasks are added up in constant memory: A is the sum of A_t, and G the mean of G_t over tasks, exact for equal tasks.

With a the inputs of a linear layer (n tokens of an example) and g the gradients of all backward passes by its outputs,
the factors of the generalised Gauss-Newton matrix at theta_0 are

    H = sum over examples of J^T (diag(p) - p p^T) J  ~  N G (x) A,     (G (x) A) vec(D) = vec(G D A),
    A = 1/N sum_examples 1/n sum_tokens a a^T,         G = 1/N sum_examples sum_tokens sum_passes g g^T.

They are exact for layers that see one token, where N = 1, or where G of an example does not depend on it. Tokens count
as independent of each other, so that their cross terms are left out.

Source: Martens and Grosse 2015, https://arxiv.org/abs/1503.05671; for layers that many tokens share ("expand"),
Eschenhagen et al. 2023, https://arxiv.org/abs/2311.00636. The averages over tasks are those of TAK,
https://arxiv.org/abs/2602.17385, which sums G_t over tasks instead, so that its penalty is larger by their number, and
has G / n for G.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from trainables.curvature.passes import add_passes
from trainables.errors import InputError
from trainables.heads import Head
from trainables.task_vectors.low_rank import LowRank, Matrices, dense


@dataclass(frozen=True)
class Factors:
    """The factors of one weight, or of a stack of L weights."""

    inputs: Tensor  # A `(S, in, in)`; of a stack `(L, S, in, in)`
    outputs: Tensor  # G `(S, out, out)`; of a stack `(L, S, out, out)`


@dataclass(frozen=True)
class KroneckerCurvature:
    """H = sum_s G_s (x) A_s + shift I for each weight. See `Curvature`."""

    factors: dict[str, Factors]  # weight name to its factors
    shift: float = 0.0  # the multiple of the identity
    tasks: float = 1.0  # number of tasks in the averages, each with its weight in a sum

    @classmethod
    def estimate(
        cls,
        model: nn.Module,
        layers: dict[str, nn.Linear],
        head: Head,
        batches: Iterable[Tensor],
        *,
        passes: int | None,
        generator: torch.Generator,
    ) -> tuple[KroneckerCurvature, int]:
        """Return the factors of the sum over examples; see `EstimatedCurvature.estimate`."""
        inputs_sums = {name: layer.weight.new_zeros(2 * (layer.in_features,)) for name, layer in layers.items()}
        gradient_sums = {name: layer.weight.new_zeros(2 * (layer.out_features,)) for name, layer in layers.items()}

        def add(name: str, inputs: Tensor, gradients: Tensor, first: bool) -> None:
            if first:
                flat = inputs.flatten(0, 1)  # [b n, in]
                inputs_sums[name].addmm_(flat.T, flat, alpha=1 / inputs.shape[1])
            flat = gradients.flatten(0, 2)  # [P b n, out]
            gradient_sums[name].addmm_(flat.T, flat)

        examples = add_passes(model, layers, head, batches, add, passes=passes, generator=generator)
        factors = {
            f"{name}.weight": Factors(inputs_sums[name].detach()[None], gradient_sums[name].detach()[None] / examples)
            for name in layers
        }
        return cls(factors), examples

    def plus(self, other: KroneckerCurvature, weight: float = 1.0) -> KroneckerCurvature:
        """Return H + weight * H', with averaged factors."""
        tasks = self.tasks + weight * other.tasks

        def joined(own: Factors, new: Factors) -> Factors:
            outputs = (self.tasks * own.outputs + weight * other.tasks * new.outputs) / tasks
            return Factors(torch.add(own.inputs, new.inputs, alpha=weight), outputs)

        factors = {name: joined(own, other.factors[name]) for name, own in self.factors.items()}
        return replace(self, factors=factors, shift=self.shift + weight * other.shift, tasks=tasks)

    def scaled(self, factor: float) -> KroneckerCurvature:
        """Return factor * H."""
        return self._each(lambda f: Factors(factor * f.inputs, f.outputs), factor * self.shift)

    def mean_over(self, examples: int) -> KroneckerCurvature:
        """Return H / examples."""
        return self._each(lambda f: Factors(f.inputs / examples, f.outputs), self.shift / examples)

    def shifted(self, amount: float) -> KroneckerCurvature:
        """Return H + amount * I."""
        return replace(self, shift=self.shift + amount)

    def to(self, device: torch.device) -> KroneckerCurvature:
        """Return H on a device."""
        return self._each(lambda f: Factors(f.inputs.to(device), f.outputs.to(device)), self.shift)

    def form(self, stacks: Sequence[tuple[str, ...]] | None = None) -> KroneckerForm:
        """Return H as a quadratic form; see `Curvature.form`."""
        if stacks is None:
            return KroneckerForm(list(self.factors.values()), self.shift)
        return KroneckerForm([_stacked([self.factors[name] for name in names]) for names in stacks], self.shift)

    def tensors(self) -> dict[str, Tensor]:
        """Return the factors by `A/<weight>` and `G/<weight>`, and the numbers."""
        numbers = {"shift": self.shift, "tasks": self.tasks, "apart": 0.0}  # the last is for readers of older versions
        return {
            **{name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()},
            **{f"A/{name}": each.inputs for name, each in self.factors.items()},
            **{f"G/{name}": each.outputs for name, each in self.factors.items()},
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> KroneckerCurvature:
        """Return the curvature that `tensors` describes; an InputError for tasks that are kept apart."""
        if tensors["apart"]:
            raise InputError("its tasks are kept apart, which this version does not read")
        names = [name.removeprefix("A/") for name in tensors if name.startswith("A/")]
        factors = {name: Factors(tensors[f"A/{name}"], tensors[f"G/{name}"]) for name in names}
        return cls(factors, float(tensors["shift"]), float(tensors["tasks"]))

    def _each(self, change: Callable[[Factors], Factors], shift: float) -> KroneckerCurvature:
        return replace(self, factors={name: change(each) for name, each in self.factors.items()}, shift=shift)


def _stacked(factors: list[Factors]) -> Factors:
    if len(factors) == 1:  # needs no copy
        return Factors(factors[0].inputs[None], factors[0].outputs[None])
    return Factors(torch.stack([each.inputs for each in factors]), torch.stack([each.outputs for each in factors]))


@dataclass(frozen=True)
class KroneckerForm:
    """A curvature with Kronecker factors as a quadratic form; see `QuadraticForm`."""

    factors: list[Factors]  # of each stack
    shift: float  # the multiple of the identity

    def product(self, displacements: Sequence[Matrices]) -> list[Matrices]:
        """Return sum_s G_s D A_s + shift D; the product of a `LowRank` is one, of S or S + 1 times its rank."""
        return [self._product(each, delta) for each, delta in zip(self.factors, displacements, strict=True)]

    def _product(self, factors: Factors, delta: Matrices) -> Matrices:
        if isinstance(delta, LowRank):
            return self._narrow_product(factors, delta)
        found = (factors.outputs @ delta.unsqueeze(-3) @ factors.inputs).sum(-3)
        return found.add_(delta, alpha=self.shift) if self.shift else found

    def _narrow_product(self, factors: Factors, delta: LowRank) -> LowRank:
        left = (factors.outputs @ delta.left.unsqueeze(-3)).transpose(-3, -2).flatten(-2)  # [..., out, S r]
        right = (delta.right.unsqueeze(-3) @ factors.inputs).flatten(-3, -2)  # [..., S r, in]
        if self.shift:
            left = torch.cat([left, self.shift * delta.left], dim=-1)
            right = torch.cat([right, delta.right], dim=-2)
        return LowRank(left, right)

    def value(self, displacements: Sequence[Matrices]) -> Tensor:
        """Return sum D * (H D)."""
        pairs = zip(displacements, self.product(displacements), strict=True)
        return torch.stack([(dense(delta) * dense(product)).sum() for delta, product in pairs]).sum()

    def largest_eigenvalue(self) -> float:
        """Return the largest eigenvalue: that of A times that of G, plus the shift."""
        eigvalsh = torch.linalg.eigvalsh
        pairs = (zip(each.inputs.flatten(0, -3), each.outputs.flatten(0, -3), strict=True) for each in self.factors)
        return max(float(eigvalsh(a)[-1] * eigvalsh(g)[-1]) for each in pairs for a, g in each) + self.shift
