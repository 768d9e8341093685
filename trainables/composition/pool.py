"""The task vectors of one seed, one for each task of a benchmark, read from disk on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainables.backbones.linearised.network import CLASSIFIER
from trainables.composition.files import read_vector
from trainables.composition.saved import SavedVector
from trainables.errors import InputError
from trainables.heads import Head
from trainables.task_names import same_letters


@dataclass(frozen=True)
class VectorPool:
    """Task vectors on disk, in the order of their tasks; iterating reads one at a time."""

    folders: tuple[Path, ...]  # `task_<t>` of each task; runs may differ

    def __len__(self) -> int:
        return len(self.folders)

    def __iter__(self) -> Iterator[SavedVector]:
        return map(read_vector, self.folders)

    @property
    def empty(self) -> frozenset[int]:
        """The tasks, from 1, whose tau is 0 because it has been taken out."""
        return frozenset()

    def head(self) -> Head:
        """Return the classifier of all tasks, `(C, d)` and `(C,)`, as the run that trained it has evaluated it."""
        return _stacked([vector.rows(len(self)) for vector in self])

    def anchor(self) -> Head:
        """Return the classifier of the pre-trained model, h0, as each task was anchored to it; `(C, d)` and `(C,)`."""
        return _stacked([vector.anchor for vector in self])

    def require_fit(
        self,
        classes: Sequence[range],
        theta_0: dict[str, Tensor],
        width: int,
        backbone_digest: str,
        class_names: Sequence[tuple[str, ...]],
    ) -> None:
        """Check that the vectors belong to a benchmark and to a backbone of `width` d.

        `classes` and `class_names` are those of each task; vectors without names fit any. `theta_0` has the pre-trained
        value `(out, in)` of each tuned weight.

        Raises:
            InputError: If a vector does not belong to them; names the first.
        """
        for task, (folder, vector, wanted) in enumerate(zip(self.folders, self, classes, strict=True), start=1):
            origin = vector.origin
            if origin.backbone_digest != backbone_digest:
                raise InputError(
                    f"{folder}: was learned on another backbone, {origin.backbone} with digest"
                    f" {origin.backbone_digest[:12]}; must be {backbone_digest[:12]}"
                )
            if origin.task != task:
                raise InputError(f"{folder}: is of task {origin.task}, but lies in the place of task {task}")
            if origin.classes != wanted:
                got, must = (f"classes {each.start} to {each.stop - 1}" for each in (origin.classes, wanted))
                raise InputError(f"{folder}: is of {got}, but this task of the benchmark has {must}")
            if vector.head[0].shape[1] != width:
                raise InputError(
                    f"{folder}: its head reads {vector.head[0].shape[1]} features, the backbone has {width}"
                )
            _require_shapes(folder, vector, theta_0)
            for got, name in zip(origin.class_names, class_names[task - 1], strict=False):
                if same_letters(got, [name]) != name:
                    raise InputError(f"{folder}: names other classes, {got!r} where there must be {name!r}")


def _require_shapes(folder: Path, vector: SavedVector, theta_0: dict[str, Tensor]) -> None:
    wanted = next(iter(theta_0.values())).dtype
    for value in (*vector.head, *(value for parts in vector.parameters.values() for value in parts.values())):
        if value.dtype != wanted:
            raise InputError(f"{folder}: holds {value.dtype}, but the backbone {wanted}")
    if vector.parameters.keys() - set(CLASSIFIER) != theta_0.keys():
        raise InputError(f"{folder}: does not have the tuned weights of the backbone")
    for name, weight in theta_0.items():
        if (got := vector.shape(name, weight)) != weight.shape:
            raise InputError(f"{folder}: {name!r} is {tuple(got)}, but the backbone's is {tuple(weight.shape)}")


def _stacked(rows: Sequence[Head]) -> Head:
    return torch.cat([weight for weight, _ in rows]), torch.cat([bias for _, bias in rows])
