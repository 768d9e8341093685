"""DualGPM: the directions of a layer's inputs that past tasks have used, and the free directions for the next task.

Notation: d width of the layer's input, H = mean over tokens of x x^T `(d, d)`, M `(d, k)` an orthonormal basis of the
protected space and Q `(d, d - k)` one of its complement, the free space. E(v) = |H v|^2 is the energy of a direction;
the energies of an orthonormal basis of all directions sum to |H|_F^2.

DualGPM keeps M while k <= d/2 ("remove": project M out) and Q beyond ("retain": project onto Q). The original's two
computations are the same, seen from either side, so here there is one, on the free space. The eigenvectors of Q^T H H Q
are the left singular vectors of the projected H. Those with the most energy become protected until the protected energy
reaches the threshold.

Source: Liang and Li 2024 (InfLoRA), https://arxiv.org/abs/2404.00228; Liang and Li, CVPR 2023 (adaptive
plasticity improvement), for the dual form.
Follows the authors' code, github.com/liangyanshuo/InfLoRA: the singular values are those of H, itself a second moment,
so that energies are fourth powers of activations. The first task protects the directions before the one that reaches
the threshold, later tasks that direction too.
Departs from the code: a first task that spans more than d/2 keeps its complement (the code keeps the space itself and
takes it for the complement). Rows of A without a free direction are zero (the code takes the singular value
decomposition's null space, with protected directions in it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Regime = Literal["remove", "retain"]
SCALE = 1 / math.sqrt(3)  # of A, in the authors' code; their learning rates go with it


@dataclass(frozen=True)
class ProtectedSpace:
    """The protected directions of one layer, stored as the smaller of their space and its complement."""

    basis: Tensor  # orthonormal columns: M (d, k) if the regime is "remove", Q (d, d - k) if it is "retain"
    regime: Regime

    def free(self) -> Tensor:
        """Return Q, float64 `(d, d - k)`."""
        basis = self.basis.double()
        return basis if self.regime == "retain" else torch.linalg.qr(basis, mode="complete").Q[:, basis.shape[1] :]


def threshold(epsilon: float, task: int, tasks: int) -> float:
    """Return the share of the energy protected after task t of T: from epsilon at t = 1, linearly towards 1."""
    return epsilon + (1 - epsilon) * (task - 1) / tasks


def design_a(moment: Tensor, space: ProtectedSpace | None, rank: int) -> Tensor:
    """Return A, `(r, d)`: the free directions with the most energy in the new task's inputs, times 1/sqrt(3).

    Rows are zero where fewer directions are free. `moment` is H of the new task, `(d, d)`, on the CPU; `space` is None
    before the first task.
    """
    _, directions = _by_energy(moment, space)
    leading = directions[:, :rank].T.to(moment.dtype)
    return SCALE * torch.cat([leading, leading.new_zeros(rank - len(leading), len(moment))])


def protect(moment: Tensor, space: ProtectedSpace | None, share: float) -> ProtectedSpace:
    """Return the protected space after a task, its basis in the precision of `moment`.

    Args:
        moment: H of the finished task under its trained model, `(d, d)`, on the CPU.
        space: The protected space before the task; None after the first task.
        share: The share of the energy to protect, from `threshold`.
    """
    energies, directions = _by_energy(moment, space)
    shares = energies / moment.double().square().sum()
    if space is None:
        count = max(int((shares.cumsum(0) < share).sum()), 1)
    else:
        before = 1 - shares.sum() + shares.cumsum(0) - shares  # protected share before each direction
        count = int((before < share).sum())
    if count == 0 and space is not None:
        return space
    free = directions[:, count:].to(moment.dtype)
    if free.shape[1] < len(moment) / 2:
        return ProtectedSpace(free, "retain")
    used = directions[:, :count].to(moment.dtype)
    return ProtectedSpace(used if space is None else torch.cat([space.basis, used], 1), "remove")


def _by_energy(moment: Tensor, space: ProtectedSpace | None) -> tuple[Tensor, Tensor]:
    """Return energies `(f,)`, largest first, and their free directions `(d, f)`, in float64."""
    moment = moment.double()
    free = torch.eye(len(moment), dtype=torch.float64) if space is None else space.free()
    seen = moment @ free
    energies, vectors = torch.linalg.eigh(seen.T @ seen)
    return energies.flip(0).clamp_min(0), free @ vectors.flip(1)
