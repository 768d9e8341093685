"""DualGPM: the authors' bases, regimes and A on the same second moments, and what must hold of any."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.methods.inflora.dualgpm import SCALE, ProtectedSpace, design_a, protect, threshold

ORACLES = Path(__file__).parent / "oracles"
FILES = ("inflora_dualgpm.npz", "inflora_dualgpm_d64.npz")


def moment(width: int, rank: int, seed: int) -> Tensor:
    rows = torch.randn(rank, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows.T @ rows / rank


def projector(basis: Tensor) -> Tensor:
    return basis @ basis.T


@pytest.mark.parametrize("file", FILES)
def test_bases_regimes_and_designs_are_those_of_the_authors_code(file: str) -> None:
    found: Any = np.load(ORACLES / file, allow_pickle=False)
    tasks, rank, width = int(found["T"]), int(found["rank"]), len(found["H_t0_l0"])
    layers = sum(name.startswith("H_t0_") for name in found.files)
    regimes, designs = set(), 0
    for layer in range(layers):
        space: ProtectedSpace | None = None
        for t in range(tasks):
            here = f"t{t}_l{layer}"
            h = torch.from_numpy(found[f"H_{here}"])
            a = design_a(h, space, rank)
            if space is None or space.free().shape[1] >= rank:  # below, the original returns what its SVD left there
                wanted = torch.from_numpy(found[f"A_{here}"])
                torch.testing.assert_close(a.T @ a, wanted.T @ wanted, rtol=0, atol=1e-9)
                designs += 1
            share = threshold(float(found["lamb"]), t + 1, tasks)
            assert share == pytest.approx(float(found[f"threshold_t{t}"]), abs=1e-15)
            space = protect(h, space, share)
            assert (space.regime, space.basis.shape) == (
                str(found[f"type_{here}"]),
                (width, int(found[f"cols_{here}"])),
            )
            torch.testing.assert_close(projector(space.basis), torch.from_numpy(found[f"P_{here}"]), rtol=0, atol=1e-9)
            regimes.add(space.regime)
    assert regimes == {"remove", "retain"} and designs > layers * tasks / 2


def test_a_in_full_is_that_of_the_authors_code_up_to_signs() -> None:
    found: Any = np.load(ORACLES / FILES[0], allow_pickle=False)
    a, wanted = design_a(torch.from_numpy(found["H_t0_l1"]), None, 3), torch.from_numpy(found["A_t0_l1"])
    torch.testing.assert_close(a * (a * wanted).sum(1, keepdim=True).sign(), wanted, rtol=0, atol=1e-9)
    torch.testing.assert_close(a.T @ a, torch.from_numpy(found["AtA_t0_l1"]), rtol=0, atol=1e-9)
    basis, kept = torch.from_numpy(found["M_t3_l0"]), torch.from_numpy(found["P_t3_l0"])
    torch.testing.assert_close(projector(basis), kept, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [6, 7])
def test_what_is_protected_grows_stays_orthonormal_and_holds_its_share(width: int) -> None:
    space: ProtectedSpace | None = None
    before, seen = torch.zeros(width, width, dtype=torch.float64), set()
    for t in range(1, 6):
        h, share = moment(width, 3, t), threshold(0.7, t, 5)
        space = protect(h, space, share)
        count = space.basis.shape[1]
        torch.testing.assert_close(space.basis.T @ space.basis, torch.eye(count, dtype=torch.float64))
        free = space.free()
        torch.testing.assert_close(free.T @ free, torch.eye(free.shape[1], dtype=torch.float64))
        assert count <= width / 2 and free.shape[1] == (count if space.regime == "retain" else width - count)
        protected = torch.eye(width, dtype=torch.float64) - projector(free)
        torch.testing.assert_close(protected @ before, before)  # all that was protected still is
        covered = (protected @ h).square().sum() / h.square().sum()
        assert t == 1 or covered >= share - 1e-12
        before, seen = protected, seen | {space.regime}
    assert seen == {"remove", "retain"}


def test_the_first_task_stops_before_the_direction_that_reaches_the_share_and_later_tasks_after_it() -> None:
    h = torch.diag(torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0, 0.0], dtype=torch.float64)).sqrt()  # energies 4, 3, 2, 1
    first = protect(h, None, 0.75)  # 4 + 3 are 0.7 of 10, 4 + 3 + 2 are 0.9
    torch.testing.assert_close(projector(first.basis), torch.diag(torch.tensor([1.0, 1, 0, 0, 0, 0]).double()))
    assert protect(h, None, 0.1).basis.shape[1] == 1  # but at least one
    later = protect(h, first, 0.75)
    torch.testing.assert_close(projector(later.basis), torch.diag(torch.tensor([1.0, 1, 1, 0, 0, 0]).double()))
    assert protect(h, later, 0.75) is later


def test_a_first_task_that_spans_more_than_half_keeps_its_complement() -> None:
    h = torch.eye(6, dtype=torch.float64) + torch.diag(torch.arange(6.0).double())
    space = protect(h, None, 0.99)
    assert space.regime == "retain"
    protected = torch.eye(6, dtype=torch.float64) - projector(space.basis)
    assert (protected @ h).square().sum() / h.square().sum() > 0.9
    assert (space.basis.T @ h).square().sum() / h.square().sum() < 0.1


@pytest.mark.parametrize("regime", ["remove", "retain"])
def test_a_reads_nothing_of_the_protected_space_and_has_equal_orthogonal_rows(regime: str) -> None:
    directions = torch.linalg.qr(moment(8, 8, 1)).Q
    protected, free = (directions[:, :3], directions[:, 3:]) if regime == "remove" else directions.split([5, 3], 1)
    space = ProtectedSpace(protected, "remove") if regime == "remove" else ProtectedSpace(free, "retain")
    a = design_a(moment(8, 8, 2), space, 2)
    torch.testing.assert_close(a @ protected, torch.zeros(2, protected.shape[1], dtype=torch.float64))
    torch.testing.assert_close(a @ a.T, torch.eye(2, dtype=torch.float64) / 3)
    assert pytest.approx(1 / math.sqrt(3)) == SCALE


@pytest.mark.parametrize("inputs", [8, 2])
def test_where_fewer_directions_are_free_than_the_rank_the_other_rows_are_zero(inputs: int) -> None:
    directions = torch.linalg.qr(moment(8, 8, 1)).Q
    a = design_a(moment(8, inputs, 2), ProtectedSpace(directions[:, 6:], "retain"), 5)
    assert a.shape == (5, 8) and a[2:].count_nonzero() == 0
    torch.testing.assert_close(a @ directions[:, :6], torch.zeros(5, 6, dtype=torch.float64))
    nothing = ProtectedSpace(directions[:, 8:], "retain")
    assert design_a(moment(8, 8, 2), nothing, 5).count_nonzero() == 0
    assert protect(moment(8, 8, 3), nothing, 0.9) is nothing


def test_inputs_that_span_less_than_the_rank_leak_no_protected_direction_into_a() -> None:
    directions = torch.linalg.qr(moment(8, 8, 1)).Q
    a = design_a(moment(8, 2, 2), ProtectedSpace(directions[:, :3], "remove"), 5)
    torch.testing.assert_close(a @ directions[:, :3], torch.zeros(5, 3, dtype=torch.float64))


def test_bases_are_in_the_precision_of_the_moments() -> None:
    space = protect(moment(8, 3, 1).float(), None, 0.9)
    assert space.basis.dtype == design_a(moment(8, 3, 1).float(), space, 2).dtype == torch.float32
