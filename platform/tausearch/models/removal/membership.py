"""A membership test: whether a loss tells training images from test images of the same class."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from tausearch.models.removal.report import Separation

DRAWS = 2000  # of the bootstrap
_SEED = 0  # the interval of a result is the same on every call


def separation(train: list[Tensor], test: list[Tensor]) -> Separation:
    """Return the area under the curve of `loss is low` as a sign of training, the mean over seeds.

    `train` and `test` have for each seed the losses of the same images, `(n,)` and `(m,)`. The bootstrap draws training
    and test images apart, n and m of them.
    """
    wins = np.mean(
        [_wins(low.double().numpy(), high.double().numpy()) for low, high in zip(train, test, strict=True)], 0
    )
    generator = np.random.default_rng(_SEED)
    rows, columns = (generator.multinomial(size, np.full(size, 1 / size), DRAWS) / size for size in wins.shape)
    low, high = np.percentile(((rows @ wins) * columns).sum(1), [2.5, 97.5])
    return Separation(auc=float(wins.mean()), low=float(low), high=float(high))


def _wins(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return 1 where the training image has the lower loss, 1/2 where the losses are equal, otherwise 0: `(n, m)`."""
    return (train[:, None] < test) + 0.5 * (train[:, None] == test)
