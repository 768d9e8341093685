"""Safetensors files: written whole or not at all, read as written; an error of the storage is known for one.

Nothing else is read: formats of torch that can carry code are not opened.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CONTENT = "content digest"  # in the header; files of older versions have none
_OS_ERROR = re.compile(r"os error (\d+)")  # how safetensors names what the operating system said


def replace_file(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file whole or not at all.

    Args:
        path: The file; what was there is replaced.
        tensors: Name to tensor, on the CPU and contiguous.
        header: Names and texts for its header.
    """
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        save_tensors(unfinished, tensors, header)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def sealed(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return a header with the digest of what is written below it, which `read_sealed` holds it against."""
    return {**header, _CONTENT: digest_of(tensors)}


def read_sealed(path: Path, shapes: Mapping[str, torch.Size] | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file; its digest, if it has one, is checked.

    Args:
        path: The file.
        shapes: Name to shape of all tensors that it must have, checked before any of them is read; None for any.

    Returns:
        Name to tensor, memory-mapped, and the header without the digest.

    Raises:
        OSError: If it is not there, or the storage fails.
        SafetensorError: If it is no safetensors file.
        ValueError: If its content is not what was written, or its tensors are not those of `shapes`.
    """
    require_file(path)
    with safe_open(path, framework="pt") as file:
        if shapes is not None and (fault := _misfit(shapes, file)):
            raise ValueError(fault)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        header = dict(file.metadata() or {})
    written = header.pop(_CONTENT, None)
    if written is not None and digest_of(tensors) != written:
        raise ValueError("its content is not what was written")
    return tensors, header


def require_file(path: Path) -> None:
    """Make sure that a path leads to a regular file: whoever opens a FIFO waits for ever.

    Raises:
        OSError: If it does not.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("is not a regular file")


def read_weights(
    path: Path, shapes: Mapping[str, torch.Size] | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Do what `read_sealed` does with weights, which are finite floating-point numbers.

    Returns:
        What `read_sealed` returns.

    Raises:
        ValueError: As `read_sealed`; also if a value is something else.
    """
    tensors, header = read_sealed(path, shapes)
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype not in _FLOATS:
            raise ValueError(f"{name!r} holds {str(tensor.dtype).removeprefix('torch.')}, must hold floats")
        # Piece by piece: it takes several times the memory of what it looks at.
        if not all(bool(torch.isfinite(piece).all()) for piece in tensor.reshape(-1).split(2**22)):
            raise ValueError(f"{name!r} holds values that are not finite")
    return tensors, header


def _misfit(shapes: Mapping[str, torch.Size], file: Any) -> str | None:
    """Say which tensor of an open file is not as it must be; none is read."""
    there = set(file.keys())
    for name in sorted(shapes.keys() | there):
        if name not in there:
            return f"{name!r} is missing"
        if name not in shapes:
            return f"{name!r} is not a part of it"
        shape = tuple(file.get_slice(name).get_shape())
        if shape != tuple(shapes[name]):
            return f"{name!r} is {shape}, must be {tuple(shapes[name])}"
    return None


def header_of(path: Path) -> dict[str, str]:
    """Return a file's header without its digest; raises as `read_sealed` does, but looks at no tensor."""
    require_file(path)
    with safe_open(path, framework="pt") as file:
        return {name: text for name, text in (file.metadata() or {}).items() if name != _CONTENT}


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 over names, kinds, shapes and values of tensors on the CPU, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file.

    Args:
        path: The file.
        tensors: Name to tensor, on the CPU and contiguous.
        header: Names and texts for its header.

    Raises:
        OSError: If the storage fails; safetensors has an error of its own for that, which nobody would know for one.
        SafetensorError: If it cannot be written for another reason.
    """
    try:
        save_file(dict(tensors), path, metadata=dict(header))
    except SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
