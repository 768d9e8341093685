"""What is known of a published dataset and of the benchmark that the paper makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trainables.data.disk.listing import Listing
from trainables.data.disk.tree import Tree
from trainables.data.parts import Part
from trainables.data.transforms.recipes import Recipe

PAPER_BACKBONE = "vit_base_patch16_224.augreg_in21k"
PAPER_BATCH = 128


@dataclass(frozen=True)
class Expected:
    """What a whole copy of a published dataset has.

    Attributes:
        classes: Number of classes.
        images: Number of images of each part, where the publication fixes it.
        total: Number of images of both parts together, where only that is fixed.
    """

    classes: int
    images: Mapping[Part, int] = field(default_factory=dict)
    total: int | None = None


@dataclass(frozen=True)
class Publication:
    """A published dataset as a benchmark.

    Attributes:
        name: Name of the benchmark, and of the dataset's folder under the data root.
        tasks: Number of tasks, T.
        epochs: Passes over a task's images in fine-tuning (the paper's).
        recipe: The transforms of its images (those of the authors' code).
        expected: For each variant, what a whole copy has; the first variant is the default.
        find: Function that lists the dataset, given what lies in the folder and a variant; None if nothing of it
            is recognised.
        looks_for: The layouts that `find` recognises, in words.
        source: Address where the dataset can be had.
    """

    name: str
    tasks: int
    epochs: int
    recipe: Recipe
    expected: Mapping[str, Expected]
    find: Callable[[Tree, str], Listing | None]
    looks_for: str
    source: str

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of its variants, the default first."""
        return tuple(self.expected)
