"""The paper's seven benchmarks: their layouts on disk and their protocols.

Not here: their images, which the user gets, and the reading of files and archives (`data.disk`).
"""

from __future__ import annotations

from trainables.data.published.caltech256 import CALTECH256
from trainables.data.published.cifar100 import CIFAR100
from trainables.data.published.cropdisease import CROPDISEASE
from trainables.data.published.cub200 import CUB200
from trainables.data.published.imagenet_r import IMAGENET_R
from trainables.data.published.mit67 import MIT67
from trainables.data.published.publication import (
    PAPER_BACKBONE as PAPER_BACKBONE,
    PAPER_BATCH as PAPER_BATCH,
    Expected as Expected,
    Publication as Publication,
)
from trainables.data.published.resisc45 import RESISC45

PUBLISHED: dict[str, Publication] = {
    publication.name: publication
    for publication in (IMAGENET_R, CIFAR100, CUB200, CALTECH256, MIT67, RESISC45, CROPDISEASE)
}
