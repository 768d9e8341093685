"""A composition of any task vectors and weights is their weighted sum by hand, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainables.composition import Origin, SavedVector, composed
from trainables.task_vectors import Parametrisation

SHAPES = {"qkv.weight": (6, 4), "fc.weight": (3, 5)}
ORIGIN = Origin(method="any", task=1, classes=range(2), backbone="any", backbone_digest="abc")
EXACT = {"rtol": 1e-12, "atol": 1e-12}

kinds = st.sampled_from(["full", "lora", "ia3"])
weights_ = st.floats(-4, 4).filter(lambda w: w == 0 or abs(w) > 1e-3)


def theta_0() -> dict[str, Tensor]:
    return {name: torch.randn(shape, generator=made(99), dtype=torch.float64) for name, shape in SHAPES.items()}


def made(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vector(kind: Parametrisation, seed: int) -> SavedVector:
    """A task vector of random parameters, of any of the three kinds."""
    generator = made(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    parts = {}
    for name, (rows, columns) in SHAPES.items():
        forms = {
            "full": {"tau": draw(rows, columns)},
            "lora": {"A": draw(2, columns), "B": draw(rows, 2)},
            "ia3": {"l": draw(rows)},
        }
        parts[name] = forms[kind]
    head = (draw(2, 5), draw(2))
    return SavedVector(parametrisation=kind, parameters=parts, head=head, anchor=head, origin=ORIGIN)


def by_hand(vectors: Sequence[SavedVector], weights: Sequence[float]) -> dict[str, Tensor]:
    """theta_0 + sum_t w_t tau_t, with tau_t written out for each kind."""
    found = {name: start.clone() for name, start in theta_0().items()}
    for each, weight in zip(vectors, weights, strict=True):
        for name, parts in each.parameters.items():
            tau = parts.get("tau")
            if "B" in parts:
                tau = torch.einsum("or,ri->oi", parts["B"], parts["A"])
            if "l" in parts:
                tau = torch.diag(parts["l"] - 1) @ theta_0()[name]
            assert tau is not None
            found[name] += weight * tau
    return found


mixes = st.lists(st.tuples(kinds, st.integers(0, 10**6), weights_), max_size=5)


def unpacked(mix: Sequence[tuple[Parametrisation, int, float]]) -> tuple[list[SavedVector], list[float]]:
    return [vector(kind, seed) for kind, seed, _ in mix], [weight for *_, weight in mix]


@settings(max_examples=50)
@given(mixes)
def test_it_is_the_weighted_sum(mix: list[tuple[Parametrisation, int, float]]) -> None:
    vectors, weights = unpacked(mix)
    torch.testing.assert_close(composed(theta_0(), vectors, weights), by_hand(vectors, weights), **EXACT)
