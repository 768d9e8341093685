"""A membership test: whether a loss tells training images from test images of the same class."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.optimize import brentq
from torch import Tensor

from tausearch.models.removal.report import Separation

_Z = 1.959963984540054  # 97.5 % point of the normal distribution


def separation(train: list[Tensor], test: list[Tensor]) -> Separation:
    """Return the area under the curve of `loss is low` as a sign of training, the mean over seeds, with its interval.

    `train` and `test` have for each seed the losses of the same images, `(n,)` and `(m,)`. The interval is that of one
    seed: seeds share their images, so more of them need not make it narrower.
    """
    wins = [_wins(low.double().numpy(), high.double().numpy()) for low, high in zip(train, test, strict=True)]
    auc = float(np.mean(wins))
    low, high = interval(auc, *wins[0].shape)
    return Separation(auc=auc, low=low, high=high)


def interval(auc: float, train: int, test: int) -> tuple[float, float]:
    """Return the 95 % interval of an area under the curve, within 0 to 1, from so many training and test images.

    Its ends are the areas theta with |auc - theta| = z sqrt(V(theta)), where V is the variance of Hanley and McNeil
    with the mean of both numbers. As with Wilson's interval of a share, it has a width at areas of 0 and 1 and where
    all losses are equal, where a bootstrap draws the same area each time.

    Source: Newcombe 2006, Confidence intervals for an effect size measure based on the Mann-Whitney statistic, part 2,
    Statistics in Medicine 25(4), method 5; Hanley and McNeil 1982, Radiology 143(1).
    """
    others = (train + test) / 2 - 1

    def excess(theta: float) -> float:
        spread = 1 + others * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return abs(auc - theta) - _Z * sqrt(theta * (1 - theta) * spread / (train * test))

    low = 0.0 if auc == 0 else brentq(excess, 0.0, auc if auc < 1 else 1 - 1e-12)
    high = 1.0 if auc == 1 else brentq(excess, auc if auc > 0 else 1e-12, 1.0)
    return float(low), float(high)


def _wins(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return 1 where the training image has the lower loss, 1/2 where the losses are equal, otherwise 0: `(n, m)`."""
    return (train[:, None] < test) + 0.5 * (train[:, None] == test)
