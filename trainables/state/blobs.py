"""The constants of a trial: files named by the digest of their content, which all checkpoints of the trial share.

Each task adds one file. A continued trial that computes a constant again finds its file. Where the numbers differ in
any bit, it writes another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from trainables.tensor_files import digest_of, replace_file


@dataclass(frozen=True)
class Blob:
    """A file of constants."""

    digest: str  # of its tensors, see `digest_of`; also its file name
    bytes: int

    @property
    def name(self) -> str:
        """Name of the file in its folder."""
        return f"{self.digest}.safetensors"

    def exists_in(self, folder: Path | None) -> bool:
        """Whether the folder has the file at its full length; its content is not read."""
        with suppress(OSError):
            return folder is not None and (folder / self.name).stat().st_size == self.bytes
        return False


Manifest = Mapping[str, Blob]  # name of a constant to the file that holds it


def write_blobs(folder: Path, constants: Mapping[str, Tensor], manifest: Manifest) -> Manifest:
    """Return the manifest of all constants; those that the last checkpoint's manifest lacks go into one new file.

    The folder is made when there is something to write.
    """
    found = {name: manifest[name] for name in constants if name in manifest and manifest[name].exists_in(folder)}
    new = {name: tensor for name, tensor in constants.items() if name not in found}
    return {**found, **dict.fromkeys(new, _write(folder, on_cpu(new)))} if new else found


def read_blobs(folder: Path | None, manifest: Manifest) -> dict[str, Tensor]:
    """Return constants by name, mapped from their files.

    Raises:
        ValueError: If there are constants, but no folder was given.
    """
    if folder is None:
        if manifest:
            raise ValueError("its constants lie in a folder that was not named")
        return {}
    constants: dict[str, Tensor] = {}
    for blob in sorted(set(manifest.values()), key=lambda each: each.digest):
        with safe_open(folder / blob.name, framework="pt") as file:
            constants |= {name: file.get_tensor(name) for name, place in manifest.items() if place == blob}
    return constants


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors writes them: on the CPU, contiguous, and no two in the same memory."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        there = tensor.detach().cpu().contiguous()
        memory = there.untyped_storage().data_ptr()
        found[name] = there.clone() if memory in seen else there
        seen.add(memory)
    return found


def is_damaged(folder: Path, blob: Blob) -> bool:
    """Return whether a file of constants is damaged, cut short or gone; every byte is read.

    Raises:
        OSError: If the storage fails.
    """
    try:
        return digest_of(load_file(folder / blob.name)) != blob.digest
    except (FileNotFoundError, SafetensorError):
        return True


def _write(folder: Path, tensors: dict[str, Tensor]) -> Blob:
    digest = digest_of(tensors)
    path = folder / Blob(digest, 0).name
    if not _is_whole(path):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, tensors, {"format": "pt"})
    return Blob(digest, path.stat().st_size)


def _is_whole(path: Path) -> bool:
    """Whether a file exists and is as long as its header says; no tensor is read."""
    with suppress(OSError, SafetensorError), safe_open(path, framework="np"):
        return True
    return False
