"""Gram-Schmidt against a QR, and against the rule written as loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainables.methods.prompts.orthogonal import orthogonal_rows
from trainables.randomness import make_generator

EXACT = {"rtol": 1e-9, "atol": 1e-11}


def random(*shape: int, label: str = "rows") -> Tensor:
    return torch.randn(*shape, generator=make_generator(0, label), dtype=torch.float64)


def by_qr(rows: Tensor) -> Tensor:
    """Orthonormal rows `(n, d)` with the signs of Gram-Schmidt."""
    q, r = torch.linalg.qr(rows.T)
    return (q * r.diagonal().sign()).T


def test_it_is_a_qr_where_nothing_was_there() -> None:
    draws = random(3, 4, 7)
    got = orthogonal_rows(torch.empty(3, 0, 7, dtype=torch.float64), draws)
    torch.testing.assert_close(got, torch.stack([by_qr(layer) for layer in draws]), **EXACT)


def test_it_is_a_qr_after_rows_that_are_orthogonal_of_any_length() -> None:
    past, draws = torch.stack([by_qr(random(2, 7))] * 3), random(3, 4, 7, label="draws")
    got = orthogonal_rows(past * torch.tensor([[0.5], [3.0]]), draws)
    wanted = torch.stack([by_qr(torch.cat(pair))[2:] for pair in zip(past, draws, strict=True)])
    torch.testing.assert_close(got, wanted, **EXACT)


def test_trained_rows_are_taken_out_as_they_are() -> None:
    past, draws = random(2, 3, 7), random(2, 2, 7, label="draws")
    for layer, got in enumerate(orthogonal_rows(past, draws)):
        rows = list(past[layer])
        for draw in draws[layer]:
            rows.append(draw - sum((draw @ row) / (row @ row) * row for row in rows))
        wanted = torch.stack([row / row.norm() for row in rows[3:]])
        torch.testing.assert_close(got, wanted, **EXACT)
        assert (got @ past[layer].T).abs().max() > 0.01  # what the authors' code does, too


@pytest.mark.parametrize("taken", [7, 6])
def test_where_no_direction_is_left_new_rows_are_orthogonal_among_themselves(taken: int) -> None:
    past, draws = by_qr(random(taken, 7))[None], random(1, 3, 7, label="draws")
    got = orthogonal_rows(past, draws)[0]
    torch.testing.assert_close(got @ got.T, torch.eye(3, dtype=torch.float64), **EXACT)
    if taken == 6:
        assert (got[0] @ past[0].T).abs().max() < 1e-9


def test_it_does_not_matter_how_long_draws_are() -> None:
    past, draws = torch.stack([by_qr(random(3, 7))] * 2), random(2, 2, 7, label="draws")
    for scale in (1e-9, 1e9):
        torch.testing.assert_close(orthogonal_rows(past, draws * scale), orthogonal_rows(past, draws), **EXACT)
