"""A state as a checkpoint: `state.safetensors`, beside files of constants that all checkpoints of the trial share.

The header of the file holds the values as JSON, the files of the constants, a digest of the tensors, and a digest of
the header itself. So `check_state` finds a checkpoint that was cut short without reading a tensor, and `damaged_files`
finds any changed byte by reading each byte once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from trainables.errors import InputError
from trainables.state.blobs import Blob, Manifest, is_damaged, on_cpu, read_blobs, write_blobs
from trainables.state.contents import JSON, State
from trainables.tensor_files import digest_of, replace_file

STATE_FILE = "state.safetensors"
_VERSION = "1"
_Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Header:
    """The header of a state file.

    Attributes:
        values: The state's values.
        manifest: The files of constants that lie outside the checkpoint.
        content: Digest of the tensors in the file.
    """

    values: dict[str, JSON]
    manifest: Manifest
    content: str

    def as_text(self, shapes: _Shapes) -> dict[str, str]:
        """Return the header as safetensors stores it, for a file with tensors of these names and shapes."""
        files = {
            blob.digest: {"bytes": blob.bytes, "names": [name for name, each in self.manifest.items() if each == blob]}
            for blob in self.manifest.values()
        }
        text = {"format": "pt", "version": _VERSION, "content": self.content}
        text |= {"values": json.dumps(self.values), "kept": json.dumps(files)}
        return text | {"digest": _digest(text, shapes)}

    @classmethod
    def of_text(cls, text: dict[str, str], shapes: _Shapes) -> _Header:
        """Return the header that `as_text` wrote.

        Raises:
            ValueError: If it is damaged, or has the format of another version.
        """
        if text.pop("digest", None) != _digest(text, shapes):
            raise ValueError("its header is damaged")
        if text["version"] != _VERSION:
            raise ValueError(f"format version {text['version']}, this version reads {_VERSION}")
        if not text.get("content"):
            raise ValueError("its header has no digest of the tensors: an older version wrote it")
        files: dict[str, Any] = json.loads(text["kept"])
        manifest = {name: Blob(digest, file["bytes"]) for digest, file in files.items() for name in file["names"]}
        return cls(json.loads(text["values"]), manifest, text["content"])


def write_state(folder: Path, state: State, blobs: Path | None = None, manifest: Manifest | None = None) -> Manifest:
    """Write a checkpoint whole or not at all.

    Args:
        folder: Folder of the checkpoint.
        state: The state to write.
        blobs: Folder for the constants of this trial; None writes them into every checkpoint.
        manifest: Manifest of the trial's last checkpoint. Other constants are written, unless a file of the very same
            content exists.

    Returns:
        The manifest of this checkpoint.
    """
    now = {} if blobs is None else write_blobs(blobs, state.constant, manifest or {})
    inside = {name: tensor for name, tensor in state.constant.items() if name not in now}
    tensors = on_cpu((State(state.tensors).within("tensors") | State(inside).within("constant")).tensors)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    header = _Header(dict(state.values), now, digest_of(tensors))
    replace_file(folder / STATE_FILE, tensors, header.as_text(shapes))
    return now


def read_state(folder: Path, blobs: Path | None = None) -> State:
    """Return the state of a checkpoint; its tensors are mapped from the files, so each is read when it is used.

    Raises:
        InputError: If there is no checkpoint, or it is damaged; one line that names the file.
        OSError: If the storage fails.
    """
    path = folder / STATE_FILE
    try:
        header = _read_header(path)
        inside = State(load_file(path))
        constants = read_blobs(blobs, header.manifest)
    except (FileNotFoundError, SafetensorError, ValueError) as error:
        raise InputError(f"checkpoint {path}: cannot be read ({str(error).splitlines()[0]})") from error
    return State(inside.part("tensors").tensors, {**inside.part("constant").tensors, **constants}, header.values)


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a checkpoint that `read_state` has read."""
    return _read_header(folder / STATE_FILE).manifest


def check_state(folder: Path, blobs: Path | None = None) -> bool:
    """Whether `read_state` would read a checkpoint, judged by headers and file lengths; no tensor is read."""
    try:
        header = _read_header(folder / STATE_FILE)
    except (OSError, SafetensorError, ValueError):
        return False
    return all(blob.exists_in(blobs) for blob in header.manifest.values())


def damaged_files(folder: Path, blobs: Path | None = None) -> list[Path]:
    """Return a checkpoint's files that are damaged, cut short or gone; every byte is read.

    Raises:
        OSError: If the storage fails.
    """
    path = folder / STATE_FILE
    try:
        header = _read_header(path)
        whole = digest_of(load_file(path)) == header.content
    except (FileNotFoundError, SafetensorError, ValueError):
        whole = False
    if not whole:
        return [path]
    constants = set(header.manifest.values())
    return [(blobs or folder) / blob.name for blob in constants if blobs is None or is_damaged(blobs, blob)]


def _read_header(path: Path) -> _Header:
    # The framework is numpy because torch would map the whole file as writable memory.
    with safe_open(path, framework="np") as file:  # refuses a file that is shorter or longer than its header says
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # not a dict
        return _Header.of_text(dict(file.metadata() or {}), shapes)


def _digest(text: dict[str, str], shapes: _Shapes) -> str:
    return hashlib.sha256(json.dumps([text, sorted(shapes.items())], sort_keys=True).encode()).hexdigest()
