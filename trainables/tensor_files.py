"""Safetensors files: written whole or not at all, read as written; storage errors are raised as `OSError`.

No other format is read: torch's own formats can carry code.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from checked_input.whole_files import replacing
from trainables.errors import InputError

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CONTENT = "content digest"  # in the header; files of other programs have none
_OS_ERROR = re.compile(r"os error (\d+)")  # an error of the operating system, in a message of safetensors
Shapes = Mapping[str, Sequence[int]]  # name of a tensor to its shape


def replace_file(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file whole or not at all; tensors must be contiguous and on the CPU."""
    with replacing(path) as unfinished:
        save_tensors(unfinished, tensors, header)


def sealed(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return a header with the digest of the file's tensors, which `read_sealed` checks."""
    return {**header, _CONTENT: digest_of(tensors)}


def read_sealed(path: Path, shapes: Shapes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file, memory-mapped, and its header without the digest, which is checked if there is one.

    The tensors must have the names and shapes of `shapes`, which is checked before any is read; None allows any.

    Raises:
        OSError: If the file does not exist, or the storage fails.
        SafetensorError: If it is no safetensors file.
        ValueError: If its content is not what was written, or its tensors are not those of `shapes`.
    """
    require_file(path)
    with safe_open(path, framework="pt") as file:
        names = file.keys()
        if shapes is not None and (fault := misfit(shapes, {name: file.get_slice(name).get_shape() for name in names})):
            raise ValueError(fault)
        tensors = {name: file.get_tensor(name) for name in names}
        header = dict(file.metadata() or {})
    written = header.pop(_CONTENT, None)
    if written is not None and digest_of(tensors) != written:
        raise ValueError("its content is not what was written")
    return tensors, header


def require_file(path: Path) -> os.stat_result:
    """Return a file's status; anything but a regular file is an OSError, because opening a FIFO would block forever."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("is not a regular file")
    return found


def read_weights(path: Path, shapes: Shapes | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return what `read_sealed` returns, for weights; other values than finite floats are a ValueError, too."""
    tensors, header = read_sealed(path, shapes)
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype not in _FLOATS:
            raise ValueError(f"{name!r} holds {str(tensor.dtype).removeprefix('torch.')}, must hold floats")
        # In pieces, because the check takes several times the memory of its input.
        if not all(bool(torch.isfinite(piece).all()) for piece in tensor.reshape(-1).split(2**22)):
            raise ValueError(f"{name!r} holds values that are not finite")
    return tensors, header


def weights_given(path: Path, what: str) -> dict[str, Tensor]:
    """Return a user's tensors, memory-mapped; an unreadable or wrong file is an InputError that names `what`."""
    try:
        return read_weights(path)[0]
    except FileNotFoundError as error:
        raise InputError(f"{what} {path}: there is no such file") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{what} {path}: cannot be read as safetensors ({error})") from error


@contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Have a file that cannot be read, or has other content than it must, be an InputError; it is read as `what`."""
    try:
        yield
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as {what} ({str(error).splitlines()[0]})") from error


def misfit(wanted: Shapes, given: Shapes) -> str | None:
    """Return the first difference between wanted and given tensors, in words; None without one."""
    for name in sorted(wanted.keys() | given.keys()):
        if name not in given:
            return f"{name!r} is missing"
        if name not in wanted:
            return f"{name!r} is not a part of it"
        if tuple(given[name]) != tuple(wanted[name]):
            return f"{name!r} is {tuple(given[name])}, must be {tuple(wanted[name])}"
    return None


def header_of(path: Path) -> dict[str, str]:
    """Return a file's header without its digest; errors are those of `read_sealed`, but no tensor is read."""
    require_file(path)
    with safe_open(path, framework="pt") as file:
        return {name: text for name, text in (file.metadata() or {}).items() if name != _CONTENT}


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 over names, dtypes, shapes and values of tensors on the CPU, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(bytes_of(tensor).numpy().data)
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor in the order of its values, uint8 `(n,)`; a view of a contiguous one."""
    flat = tensor.reshape(-1)
    if flat.stride() != (1,):  # one value of a matrix's column counts as contiguous, and has the matrix's stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file with the mode of the umask; tensors must be contiguous and on the CPU.

    Raises:
        OSError: If the storage fails; safetensors itself raises an error of its own for that.
        SafetensorError: If it cannot be written for another reason.
    """
    path.unlink(missing_ok=True)  # an existing file keeps its mode
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        save_file(dict(tensors), path, metadata=dict(header))
        if stat.S_IMODE(path.stat().st_mode) != mode:  # safetensors writes 0600
            path.chmod(mode)
    except SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
