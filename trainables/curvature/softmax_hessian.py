"""The Hessian of the softmax cross-entropy by the logits, diag(p) - p p^T, as a sum of few outer products.

Each vector of the sum starts one backward pass of the Fisher. The leading vectors are the columns of a Cholesky
factorisation that takes the likeliest classes first. For a softmax they have a closed form: a multinomial draw is a
chain of binomial draws, so after k classes the remainder is again such a Hessian, of the classes that are left.
Random signs over that remainder stand for all of it, without bias.

Notation: b examples, C classes, P passes, K leading columns, S = P - K random passes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def hessian_square_root(probabilities: Tensor, passes: int | None, generator: torch.Generator) -> Tensor:
    """Return P vectors per example, `(P, b, C)`; their outer products sum to diag(p) - p p^T in expectation.

    Rows of p, `(b, C)`, sum to 1. The sum is exact if P >= C - 1; there are C - 1 vectors at most, and None asks for
    all. Otherwise K and S = P - K are the split with the smallest variance for this batch. The generator is on the CPU.

    Source: the factorisation of a multinomial covariance is Tanabe and Sagae 1992 (J. R. Stat. Soc. B 54); random
    signs over a factor are Hutchinson's estimator, as in Martens et al. 2012, https://arxiv.org/abs/1206.6464.
    """
    classes = probabilities.shape[1]
    ordered, order = probabilities.sort(dim=1, descending=True)
    mass = ordered.flip(1).cumsum(1).flip(1)  # [b, C], of each class and all after it; small ones are added first
    if passes is None or passes >= classes - 1:
        found = _columns(ordered, mass, classes - 1)
    else:
        leading = split(ordered, mass, passes)
        rest = _random(ordered[:, leading:], mass[:, leading], passes - leading, generator)
        found = torch.cat([_columns(ordered, mass, leading), torch.nn.functional.pad(rest, (leading, 0))])
    return torch.zeros_like(found).scatter_(2, order.expand_as(found), found)


def split(ordered: Tensor, mass: Tensor, passes: int) -> int:
    """Return K, the number of leading columns, for P passes, P < C - 1.

    The variance of the random part is about the squared trace of the remainder over S, summed over examples. `ordered`
    has the likeliest class first, `(b, C)`; `mass` sums each class's probability and all after it, `(b, C)`.
    """
    after = (ordered**2).flip(1).cumsum(1).flip(1)
    traces = (mass - after / mass.clamp_min(_tiny(mass)))[:, :passes]  # [b, P], after k = 0 ... P - 1 columns
    shares = torch.arange(passes, 0, -1, device=mass.device)
    return int(((traces**2).sum(0) / shares).argmin())


def _columns(ordered: Tensor, mass: Tensor, count: int) -> Tensor:
    """Column k is sqrt(p_k / (m_k m_{k+1})) times (m_{k+1} at k, -p_j at every j after k)."""
    here, following = mass[:, :count], mass[:, 1 : count + 1]  # [b, K]
    scale = (ordered[:, :count] / (here * following).clamp_min(_tiny(mass))).sqrt()
    below = torch.ones(count, ordered.shape[1], dtype=ordered.dtype, device=ordered.device).triu(1)
    columns = -below[:, None, :] * ordered  # [K, b, C]
    columns.diagonal(dim1=0, dim2=2).copy_(following)
    return columns * scale.T[:, :, None]


def _random(p: Tensor, mass: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return `(S, b, R)`: random signs through the factor diag(sqrt p) - p sqrt(p)^T / m of the remainder."""
    signs = torch.randint(0, 2, (len(p), count, p.shape[1]), generator=generator)  # example by example
    spread = p.sqrt() * (2 * signs - 1).to(p).transpose(0, 1)  # [S, b, R]
    centre = p * (spread.sum(2) / mass.clamp_min(_tiny(mass)))[:, :, None]
    return (spread - centre) / count**0.5


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny
