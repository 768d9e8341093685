"""Task vectors on disk: `task_<t>/task_vector.safetensors`, and for LoRA `task_<t>/adapter/` in PEFT's format.

The curvature of the task can lie beside them; see `curvatures`.

The file holds one tensor for each part of tau on each tuned weight (`<weight>.A`, `<weight>.B`, `<weight>.l`, or
`<weight>` alone where tau is dense or a tangent), `head.weight`, `head.bias`, `anchor.weight` and `anchor.bias`. Its
header has all other fields as text.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from safetensors import SafetensorError
from torch import Tensor

from trainables.composition.adapter import write_adapter
from trainables.composition.curvatures import CURVATURE_FILE, read_curvature_file, write_curvature
from trainables.composition.saved import PARTS, Origin, SavedVector
from trainables.curvature import TaskCurvature
from trainables.data import TransformSpec
from trainables.errors import InputError
from trainables.heads import Head, HeadUse
from trainables.task_names import class_names_fault
from trainables.task_vectors import Parametrisation
from trainables.tensor_files import read_weights, save_tensors, sealed

FORMAT_VERSION = 1
VECTOR_FILE = "task_vector.safetensors"
_ADAPTER = "adapter"
_LARGEST_SCALE = 1e6
_MOST_CLASSES = 200_000  # twice as many as there can be tasks
_FOLDER = re.compile(r"task_([1-9][0-9]*)")


def vector_folders(folder: Path) -> list[Path]:
    """Return the folders of a seed's task vectors, in the order of the tasks; an InputError if there are none."""
    paths = folder.iterdir() if folder.is_dir() else ()
    found = {match[1]: path for path in paths if (match := _FOLDER.fullmatch(path.name))}
    if not found:
        raise InputError(f"{folder}: holds no task vectors, which lie in folders task_1, task_2, ...")
    return [found[number] for number in sorted(found, key=int)]


def write_vector(
    folder: Path, vector: SavedVector, *, with_adapter: bool = True, curvature: TaskCurvature | None = None
) -> Path:
    """Return the folder `task_<t>` of the seed's folder, where a task vector is written whole or not at all.

    It replaces the folder of an earlier attempt. Missing folders are made. Of LoRA an adapter of PEFT is written, too,
    unless `with_adapter` is False. The curvature of the task is written beside the vector if it is given.
    """
    target = folder / f"task_{vector.origin.task}"
    for left in folder.glob(f".{target.name}.*.tmp"):  # by a crash
        shutil.rmtree(left, ignore_errors=True)
    unfinished, old = (folder / f".{target.name}.{uuid.uuid4().hex}.tmp" for _ in range(2))
    unfinished.mkdir(parents=True)
    try:
        header, tensors = packed(vector)
        save_tensors(unfinished / VECTOR_FILE, tensors, sealed(header, tensors))
        if with_adapter and vector.parametrisation == "lora":
            write_adapter(unfinished / _ADAPTER, vector.parameters, _usage(vector.origin))
        if curvature is not None:
            write_curvature(unfinished, curvature, vector.origin)
        with suppress(FileNotFoundError):
            target.rename(old)  # for a moment there may be no folder, but never half of one
        unfinished.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def read_vector(folder: Path) -> SavedVector:
    """Return the task vector in a folder `task_<t>`, mapped from the file; a missing or wrong one is an InputError."""
    path = folder / VECTOR_FILE
    try:
        tensors, header = read_weights(path)
        vector = unpacked(header, tensors)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read as a task vector ({str(error).splitlines()[0]})") from error
    except KeyError as error:
        raise InputError(f"{path}: is not a task vector ({error} is missing)") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: is not a task vector ({error})") from error
    curvature = folder / CURVATURE_FILE
    return replace(vector, curvature_file=curvature) if curvature.exists() else vector


def copy_vector(folder: Path, target: Path, *, with_adapter: bool = True) -> None:
    """Check a task vector's folder `task_<t>` and copy it, with the curvature and, if `with_adapter`, the adapter.

    Raises:
        InputError: If the vector or its curvature is damaged, or a path to them is a link, which may lead to anybody's
            files.
    """
    files = [folder / VECTOR_FILE]
    if (folder / CURVATURE_FILE).exists():
        files.append(folder / CURVATURE_FILE)
    if with_adapter and (folder / _ADAPTER).is_dir():
        files += sorted((folder / _ADAPTER).iterdir())
    for path in (folder.parent, folder, folder / _ADAPTER, *files):
        if path.is_symlink():
            raise InputError(f"{path}: is a link, which is not followed; replace it by a copy of its target")
    if (curvature := read_vector(folder).curvature_file) is not None:
        read_curvature_file(curvature)
    for path in files:
        copied = target / path.relative_to(folder)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)


def packed(vector: SavedVector) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return a task vector as the header and the tensors of its file."""
    header = {
        "format": "pt",  # by convention, the library whose tensors these are
        "version": str(FORMAT_VERSION),
        "parametrisation": vector.parametrisation,
        "scale": repr(vector.scale),
        "classes": f"{vector.origin.classes.start}-{vector.origin.classes.stop}",
        "heads": vector.heads,
        **_usage(vector.origin),
    }
    tensors = {
        _name(weight, part): value for weight, parts in vector.parameters.items() for part, value in parts.items()
    }
    for name, (weight, bias) in {"head": vector.head, "anchor": vector.anchor}.items():
        tensors |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return header, {name: value.contiguous() for name, value in tensors.items()}


def _name(weight: str, part: str) -> str:
    return weight if part == "tau" else f"{weight}.{part}"


def _usage(origin: Origin) -> dict[str, str]:
    """Return the header fields that a user of the file alone needs."""
    found = {
        "method": origin.method,
        "task": str(origin.task),
        "backbone": origin.backbone,
        "backbone_digest": origin.backbone_digest,
    }
    if origin.class_names:
        found["class_names"] = json.dumps(origin.class_names, ensure_ascii=False)
    if origin.transform is not None:
        found["transform"] = json.dumps(origin.transform.as_plain())
    return found


def unpacked(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> SavedVector:
    """Return the vector of a `packed` header and tensors; a missing part is a KeyError, a wrong one a ValueError."""
    version = header.get("version", "unknown")
    if version != str(FORMAT_VERSION):
        raise ValueError(f"format version {version}, this version reads {FORMAT_VERSION}")
    parametrisation, origin = cast(Parametrisation, header["parametrisation"]), _origin(header)
    if parametrisation not in PARTS:
        raise ValueError(f"parametrisation {parametrisation!r} is not known")
    left = dict(tensors)
    head, anchor = _pop_rows(left, "head"), _pop_rows(left, "anchor")
    if origin.class_names and len(origin.class_names) != len(origin.classes):
        raise ValueError(f"{len(origin.class_names)} names for {len(origin.classes)} classes")
    if len(origin.classes) != len(head[0]):
        raise ValueError(f"{len(origin.classes)} classes, but the head has {len(head[0])} rows")
    heads = cast(HeadUse, header.get("heads", "concatenated"))  # files of earlier versions do not say it
    if heads not in get_args(HeadUse):
        raise ValueError(f"heads {heads!r} is not known")
    scale = float(header["scale"])
    if not 0 < abs(scale) <= _LARGEST_SCALE:
        raise ValueError(f"scale {header['scale']} is not a finite number other than 0")
    return SavedVector(
        parametrisation=parametrisation,
        parameters=_parameters(left, parametrisation),
        scale=scale,
        head=head,
        anchor=anchor,
        heads=heads,
        origin=origin,
    )


def _pop_rows(tensors: dict[str, Tensor], name: str) -> Head:
    weight, bias = tensors.pop(f"{name}.weight"), tensors.pop(f"{name}.bias")
    if weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise ValueError(f"{name} is {tuple(weight.shape)} and {tuple(bias.shape)}, must be (c, d) and (c,)")
    return weight, bias


def _origin(header: Mapping[str, str]) -> Origin:
    start, stop = map(int, header["classes"].split("-"))
    if not 0 <= start < stop <= _MOST_CLASSES:
        raise ValueError(f"classes {header['classes']!r}")
    names = json.loads(header.get("class_names", "[]"))
    if not isinstance(names, list) or class_names_fault(names):
        raise ValueError("class_names is not a list of names")
    return Origin(
        method=header["method"],
        task=int(header["task"]),
        classes=range(start, stop),
        backbone=header["backbone"],
        backbone_digest=header["backbone_digest"],
        class_names=tuple(names),
        transform=TransformSpec.from_plain(json.loads(header["transform"])) if "transform" in header else None,
    )


def _parameters(tensors: dict[str, Tensor], parametrisation: Parametrisation) -> dict[str, dict[str, Tensor]]:
    parts = PARTS[parametrisation]
    ending = "" if parts == ("tau",) else f".{parts[0]}"
    weights = [name.removesuffix(ending) for name in tensors if name.endswith(ending)]
    found = {weight: {part: tensors.pop(_name(weight, part)) for part in parts} for weight in weights}
    if not found or tensors:
        raise ValueError(f"{next(iter(tensors))!r} is no part of one" if tensors else "no tuned weight in it")
    taus = {"tangent": (1, 2), "feature-tangent": (1, 2, 3)}.get(parametrisation, (2,))  # a class token has three
    dimensions = {"tau": taus, "A": (2,), "B": (2,), "l": (1,)}
    for weight, values in found.items():
        fits = all(value.ndim in dimensions[part] for part, value in values.items())
        if not fits or ("A" in values and len(values["A"]) != values["B"].shape[1]):
            shapes = ", ".join(f"{part} {tuple(value.shape)}" for part, value in values.items())
            raise ValueError(f"{weight!r} has {shapes}")
    return found
