"""The curvature of a task, on disk beside its task vector: `task_<t>/curvature.safetensors`.

The file holds the tensors of `Curvature.tensors`, those of the mean over the task's training images. Its header says
of what kind it is, over how many images, and of which task and theta_0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from trainables.composition.saved import Origin, SavedVector
from trainables.curvature import KINDS, CurvatureKind, DiagonalCurvature, TaskCurvature
from trainables.errors import InputError, faults_of
from trainables.tensor_files import Shapes, header_of, read_weights, readable, save_tensors, sealed

CURVATURE_FILE = "curvature.safetensors"
FORMAT_VERSION = "1"
_MOST_EXAMPLES = 10**9


def write_curvature(folder: Path, curvature: TaskCurvature, origin: Origin) -> None:
    """Write the curvature of a task into the folder of its vector; one of user code is a TypeError."""
    kind = next((kind for kind, each in KINDS.items() if isinstance(curvature.mean, each)), None)
    if kind is None:
        raise TypeError(f"a curvature of {' or '.join(KINDS)} can be saved, got {type(curvature.mean).__name__}")
    header = {
        "format": "pt",
        "version": FORMAT_VERSION,
        "kind": kind,
        "examples": str(curvature.examples),
        "task": str(origin.task),
        "backbone": origin.backbone,
        "backbone_digest": origin.backbone_digest,
    }
    tensors = {name: value.to("cpu").contiguous() for name, value in curvature.mean.tensors().items()}
    save_tensors(folder / CURVATURE_FILE, tensors, sealed(header, tensors))


def require_curvature(vector: SavedVector, kinds: Sequence[CurvatureKind]) -> CurvatureKind:
    """Return the kind of a vector's curvature, by the file's header alone; none, or a wrong one, is an InputError."""
    path, origin = vector.curvature_file, vector.origin
    if path is None:
        raise InputError(
            f"the task vector of task {origin.task} was saved without its curvature; train with --save-curvature"
        )
    with readable(path, "a curvature"):
        header = header_of(path)
    kind = next((kind for kind in KINDS if kind == header.get("kind")), None)
    if header.get("version") != FORMAT_VERSION or kind is None:
        raise InputError(f"{path}: is not a curvature that this version reads")
    if kind not in kinds:
        raise InputError(f"{path}: is a curvature of the kind {kind}, must be {' or '.join(kinds)}")
    if header.get("backbone_digest") != origin.backbone_digest:
        raise InputError(
            f"{path}: was estimated on another backbone, {header.get('backbone')} with digest"
            f" {header.get('backbone_digest', '')[:12]}; must be {origin.backbone_digest[:12]}"
        )
    if header.get("task") != str(origin.task):
        raise InputError(f"{path}: is of task {header.get('task')}, but the vector beside it of task {origin.task}")
    return kind


def read_curvature(
    vector: SavedVector, theta_0: Mapping[str, Tensor], kinds: Sequence[CurvatureKind] = get_args(CurvatureKind)
) -> TaskCurvature:
    """Return the curvature beside a vector; its tensors are mapped from the file, and its digest is checked.

    `theta_0` has the pre-trained value `(out, in)` of each tuned weight, by name.

    Raises:
        InputError: If there is none, it does not belong to the vector, or it cannot be read.
    """
    kind, path = require_curvature(vector, kinds), vector.curvature_file
    assert path is not None, "so it was required"
    shapes = _shapes(kind, theta_0)
    tensors, examples = read_curvature_file(path, shapes)
    with faults_of(str(path)):
        mean = KINDS[kind].from_tensors({name: tensors[name] for name in shapes})
    if isinstance(mean, DiagonalCurvature) and any(bool((value < 0).any()) for value in mean.values.values()):
        raise InputError(f"{path}: cannot be read as a curvature (a diagonal has no negative entries)")
    return TaskCurvature(mean, examples)


def read_curvature_file(path: Path, shapes: Shapes | None = None) -> tuple[dict[str, Tensor], int]:
    """Return tensors and number of images of a curvature's file; it is an InputError if damaged or of other shapes."""
    with readable(path, "a curvature"):
        tensors, header = read_weights(path, shapes)
        examples = int(header["examples"])
    if not 1 <= examples <= _MOST_EXAMPLES:
        raise InputError(f"{path}: cannot be read as a curvature (it is over {examples} images)")
    return tensors, examples


@dataclass(eq=False)
class SavedCurvatures(Sequence[TaskCurvature]):
    """The curvature of each task vector, read from its file the first time that it is asked for."""

    vectors: Sequence[SavedVector]
    theta_0: Mapping[str, Tensor]  # the pre-trained value (out, in) of each tuned weight, by name
    kinds: Sequence[CurvatureKind]  # those that the rule declares; without any it must not ask
    _known: dict[int, TaskCurvature] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        if not self.kinds:
            raise TypeError("a rule that reads curvatures must declare their kinds: curvatures = ('diagonal',)")
        number = range(len(self))[place]
        if number not in self._known:
            self._known[number] = read_curvature(self.vectors[number], self.theta_0, self.kinds)
        return self._known[number]


def _shapes(kind: CurvatureKind, theta_0: Mapping[str, Tensor]) -> Shapes:
    """Return the shapes of the tensors of a curvature, in the order of the weights."""
    if kind == "diagonal":
        return {name: tuple(weight.shape) for name, weight in theta_0.items()}
    numbers: dict[str, tuple[int, ...]] = {name: () for name in ("shift", "tasks", "apart")}
    inputs = {f"A/{name}": (1, weight.shape[1], weight.shape[1]) for name, weight in theta_0.items()}
    return {**numbers, **inputs, **{f"G/{name}": (1, len(weight), len(weight)) for name, weight in theta_0.items()}}
