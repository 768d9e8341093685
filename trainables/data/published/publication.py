"""A published dataset and the paper's benchmark on this dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trainables.data.disk.listing import Listing
from trainables.data.disk.tree import Tree
from trainables.data.splits import Part
from trainables.data.transforms.recipes import Recipe

PAPER_BACKBONE = "vit_base_patch16_224.augreg_in21k"
PAPER_BATCH = 128


@dataclass(frozen=True)
class Expected:
    """Numbers of classes and images in a whole copy of a published dataset."""

    classes: int
    images: Mapping[Part, int] = field(default_factory=dict)  # of each part, where the publication fixes them
    total: int | None = None  # of both parts together, where only their sum is fixed


@dataclass(frozen=True)
class Publication:
    """A published dataset as a benchmark."""

    name: str  # of the benchmark and of the dataset's folder under the data root
    tasks: int
    epochs: int  # the paper's passes over a task's images in fine-tuning
    recipe: Recipe  # the transforms of the authors' code
    expected: Mapping[str, Expected]  # by variant, the default first
    find: Callable[[Tree, str], Listing | None]  # from files and variant; None without a known layout
    looks_for: str  # the layouts known to `find`, in words
    source: str  # address of the dataset

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of its variants, the default first."""
        return tuple(self.expected)
