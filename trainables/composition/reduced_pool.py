"""A pool of task vectors without some classes: neither their vectors nor their rows or names can be read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from trainables.backbones.linearised.network import CLASSIFIER
from trainables.composition.files import read_vector
from trainables.composition.pool import VectorPool
from trainables.composition.saved import SavedVector
from trainables.data import Removal
from trainables.errors import InputError
from trainables.heads import Head

Parameters = dict[str, dict[str, Tensor]]
_NEUTRAL = {"l": 1.0}  # part of a tau to its value at tau = 0, where that is not 0


@dataclass(frozen=True)
class ReducedPool(VectorPool):
    """What a removal leaves of a pool; tasks and classes are numbered anew.

    A task with a class to take out has tau = 0. Its other classes have their rows of h0: their trained rows belong to
    the tau that is gone, and have learned from all pictures of the task. Averaged heads keep the share of the whole
    run, so a removal changes no row that is left.
    """

    removal: Removal

    @staticmethod
    def of(pool: VectorPool, removal: Removal) -> ReducedPool:
        """Return what a removal leaves of a pool; an InputError for tangents that lose some classes of a task alone."""
        folders: tuple[Path, ...] = tuple(pool.folders[task - 1] for task in removal.tasks)
        for task in removal.partial:
            if read_vector(pool.folders[task - 1]).parametrisation == "tangent":
                raise InputError(
                    f"--forget: of TMC whole tasks alone, because the rows of a task are a part of its vector; name"
                    f" task:{task} to forget all of its classes"
                )
        return ReducedPool(folders, removal)

    @property
    def empty(self) -> frozenset[int]:
        """The tasks whose vector is gone, numbered anew."""
        return frozenset(self.removal.tasks.index(task) + 1 for task in self.removal.partial)

    def __iter__(self) -> Iterator[SavedVector]:
        return map(self._reduced, map(read_vector, self.folders))

    def _reduced(self, vector: SavedVector) -> SavedVector:
        origin, removal = vector.origin, self.removal
        places = [c - origin.classes.start for c in removal.left_of(origin.task)]
        gone = origin.task in removal.touched
        anchor = _rows(vector.anchor, places)  # and again below: files hold no tensor twice
        return replace(
            vector,
            parameters=_zero(vector.parameters) if gone else _narrowed(vector.parameters, removal.rows),
            head=_rows(vector.anchor, places) if gone else vector.rows(len(removal.task_classes)),
            anchor=anchor,
            heads="concatenated",
            origin=replace(
                origin,
                task=removal.tasks.index(origin.task) + 1,
                classes=removal.renumbered(origin.task),
                class_names=tuple(origin.class_names[place] for place in places) if origin.class_names else (),
            ),
            curvature_file=None,  # it was estimated with the rows of all classes
        )


def _rows(head: Head, places: Sequence[int]) -> Head:
    return head[0][places], head[1][places]


def _zero(parameters: Parameters) -> Parameters:
    return {
        name: {part: torch.full_like(value, _NEUTRAL.get(part, 0.0)) for part, value in parts.items()}
        for name, parts in parameters.items()
    }


def _narrowed(parameters: Parameters, rows: Sequence[int]) -> Parameters:
    """Return the parameters without the rows of other classes, which only tangents have."""
    return {
        name: {part: value[rows] for part, value in parts.items()} if name in CLASSIFIER else parts
        for name, parts in parameters.items()
    }
