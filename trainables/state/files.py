"""A state as a checkpoint: `state.safetensors`, beside files of constants that all checkpoints of the trial share.

The header of the state file holds the values as JSON, the files of the constants, a digest of the tensors, and a digest
of the header itself. So `check_state` finds a checkpoint that was cut short without reading a tensor, and
`damaged_files` finds any changed byte by reading each byte once.

A file of constants is named by the digest of its tensors, and each task adds one. A continued trial that computes a
constant again finds its file. Where the numbers differ in any bit, it writes another file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from trainables.errors import InputError
from trainables.state.contents import JSON, State
from trainables.tensor_files import digest_of, replace_file

STATE_FILE = "state.safetensors"
_VERSION = "1"
_TENSORS = "tensors"  # begins the names in a state file


class Blob(NamedTuple):
    """A file of constants."""

    digest: str  # of its tensors, see `digest_of`; also its file name
    bytes: int

    def path_in(self, folder: Path) -> Path:
        """Return the path of the file in its folder."""
        return folder / f"{self.digest}.safetensors"

    def exists_in(self, folder: Path) -> bool:
        """Whether the folder has the file at its full length; its content is not read."""
        with suppress(FileNotFoundError):
            return self.path_in(folder).stat().st_size == self.bytes
        return False


Manifest = Mapping[str, Blob]  # name of a constant to the file that holds it


class _Header(NamedTuple):
    values: dict[str, JSON]
    manifest: Manifest
    content: str  # digest of the tensors in the state file


def write_state(folder: Path, state: State, blobs: Path, manifest: Manifest | None = None) -> Manifest:
    """Return the manifest of a checkpoint, which is written whole or not at all.

    Constants go into the trial's folder `blobs`. Those in the manifest of the trial's last checkpoint, or in a file of
    the very same content, are not written again.
    """
    now = _write_blobs(blobs, state.constant, manifest or {})
    tensors = _on_cpu(State(state.tensors).within(_TENSORS).tensors)
    files = {
        blob.digest: {"bytes": blob.bytes, "names": [name for name, each in now.items() if each == blob]}
        for blob in now.values()
    }
    text = {"format": "pt", "version": _VERSION, "content": digest_of(tensors)}
    text |= {"values": json.dumps(dict(state.values)), "kept": json.dumps(files)}
    text["digest"] = _digest(text, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    replace_file(folder / STATE_FILE, tensors, text)
    return now


def read_state(folder: Path, blobs: Path) -> State:
    """Return a checkpoint's state, each tensor read when it is used; a missing or damaged file is an InputError."""
    path = folder / STATE_FILE
    try:
        header = _read_header(path)
        tensors = State(load_file(path)).part(_TENSORS).tensors
        constants = _read_blobs(blobs, header.manifest)
    except (FileNotFoundError, SafetensorError, ValueError) as error:
        raise InputError(f"checkpoint {path}: cannot be read ({str(error).splitlines()[0]})") from error
    return State(tensors, constants, header.values)


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint that `read_state` has read."""
    return _read_header(folder / STATE_FILE).manifest


def check_state(folder: Path, blobs: Path) -> bool:
    """Return whether `read_state` would read a checkpoint, by headers and file lengths; no tensor is read."""
    path = folder / STATE_FILE
    try:
        if not path.is_file():
            return False
        header = _read_header(path)
    except (FileNotFoundError, SafetensorError, ValueError):
        return False
    return all(blob.exists_in(blobs) for blob in header.manifest.values())


def damaged_files(folder: Path, blobs: Path) -> list[Path]:
    """Return a checkpoint's files that are damaged, cut short or gone; every byte is read."""
    path = folder / STATE_FILE
    try:
        header = _read_header(path)
        whole = _has_content(path, header.content)
    except (FileNotFoundError, SafetensorError, ValueError):
        whole = False
    if not whole:
        return [path]
    constants = {blob.path_in(blobs): blob for blob in header.manifest.values()}
    return [path for path, blob in constants.items() if not _has_content(path, blob.digest)]


def _has_content(path: Path, digest: str) -> bool:
    try:
        return digest_of(load_file(path)) == digest
    except (FileNotFoundError, SafetensorError):
        return False


def _read_header(path: Path) -> _Header:
    """Return the header of a state file; a ValueError if it is damaged, or has the format of another version."""
    # The framework is numpy because torch would map the whole file as writable memory.
    with safe_open(path, framework="np") as file:  # refuses a file that is shorter or longer than its header says
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # not a dict
        text = dict(file.metadata() or {})
    if text.pop("digest", None) != _digest(text, shapes):
        raise ValueError("its header is damaged")
    if text["version"] != _VERSION:
        raise ValueError(f"format version {text['version']}, this version reads {_VERSION}")
    files = json.loads(text["kept"])
    manifest = {name: Blob(digest, file["bytes"]) for digest, file in files.items() for name in file["names"]}
    return _Header(json.loads(text["values"]), manifest, text["content"])


def _digest(text: dict[str, str], shapes: Mapping[str, tuple[int, ...]]) -> str:
    return hashlib.sha256(json.dumps([text, sorted(shapes.items())], sort_keys=True).encode()).hexdigest()


def _write_blobs(folder: Path, constants: Mapping[str, Tensor], manifest: Manifest) -> Manifest:
    """Return the manifest of all constants; those that the last checkpoint's manifest lacks go into one new file.

    The folder is made when there is something to write.
    """
    found = {name: manifest[name] for name in constants if name in manifest and manifest[name].exists_in(folder)}
    new = _on_cpu({name: tensor for name, tensor in constants.items() if name not in found})
    if not new:
        return found
    digest = digest_of(new)
    path = Blob(digest, 0).path_in(folder)
    try:
        with safe_open(path, framework="np"):  # it exists, and is as long as its header says
            pass
    except (OSError, SafetensorError):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, new, {"format": "pt"})
    return {**found, **dict.fromkeys(new, Blob(digest, path.stat().st_size))}


def _read_blobs(folder: Path, manifest: Manifest) -> dict[str, Tensor]:
    """Return constants by name, mapped from their files."""
    constants: dict[str, Tensor] = {}
    for blob in sorted(set(manifest.values())):
        with safe_open(blob.path_in(folder), framework="pt") as file:
            constants |= {name: file.get_tensor(name) for name, place in manifest.items() if place == blob}
    return constants


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors writes them: on the CPU, contiguous, and no two in the same memory."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        there = tensor.detach().cpu().contiguous()
        memory = there.untyped_storage().data_ptr()
        found[name] = there.clone() if memory in seen else there
        seen.add(memory)
    return found
