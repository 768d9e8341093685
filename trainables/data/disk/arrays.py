"""Datasets published as numpy arrays or Python pickles, read without letting them run code."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import threading
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.data.disk.tree import DiskFile, Entry
from trainables.data.images import PixelImages
from trainables.errors import InputError

# All that the unpickling of arrays of numbers or of arrays needs.
_HARMLESS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("_codecs", "encode"),
}

MOST_ARRAY = 2**33  # bytes of an array in an npz file, which is read as a whole; 6,000 images of 500 x 400 take 3.6 GB

_READS = threading.Lock()


class _ArrayKind:
    """What a pickle gets for `numpy.ndarray`, which it could call to take any amount of memory."""


def _empty_array(*_: Any) -> np.ndarray:
    return np.empty(0, np.uint8)  # the pickle then fills it with values of its own, as many as its shape says


class _HarmlessUnpickler(pickle._Unpickler):  # Pickle's C code takes memory for any number of a memo
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no array needs")
        if name == "ndarray":
            return _ArrayKind
        return _empty_array if name == "_reconstruct" else super().find_class(module, name)


def unpickle(content: bytes, name: str) -> Any:
    """Return numbers, texts, arrays or containers of them, Python 2's texts as bytes; other content: InputError."""
    try:
        return _HarmlessUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a broken pickle raises many kinds
        raise InputError(f"{name}: cannot be read as a pickle of arrays ({error})") from error


def read_npz(entry: Entry, member: str, name: str) -> np.ndarray:
    """Return one array of an npz file; a missing, too large or unreadable member is an InputError."""
    try:
        source = entry.path if isinstance(entry, DiskFile) else io.BytesIO(_content(entry))
        with zipfile.ZipFile(source) as archive, archive.open(f"{member}.npy") as file:
            _require_bounded(archive.getinfo(f"{member}.npy").file_size)
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            rest = file.read() if dtype.hasobject else file.read(math.prod(shape) * dtype.itemsize)
        if dtype.hasobject:
            return np.asarray(unpickle(rest, name), dtype=object).reshape(shape)
        return np.frombuffer(rest, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    except InputError:
        raise
    except Exception as error:  # a broken archive raises many kinds
        raise InputError(f"{name}: cannot be read ({error})") from error


def _content(entry: Entry) -> bytes:
    _require_bounded(entry.size)
    return entry.read()


def _require_bounded(size: int) -> None:
    if size > MOST_ARRAY:
        raise OSError(f"has {size:,} bytes, at most {MOST_ARRAY:,} are read")


@dataclass(frozen=True)
class NpzImages(PixelImages):
    """Some rows of an npz file's array `data`, each the pixels of an image; the first access reads the whole array."""

    path: str  # in error messages
    entry: Entry
    count: int  # images that the file must have
    rows: np.ndarray  # int64 (n,)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """Digest of the file's name, size and time of change."""
        return hashlib.sha256(repr((self.path, self.entry.size, self.entry.modified)).encode()).hexdigest()

    @property
    def _arrays(self) -> np.ndarray:
        with _READS:  # a `cached_property` of Python 3.12 has no lock, so each thread would read the whole file
            if "_kept" not in self.__dict__:
                self.__dict__["_kept"] = self._read()
            kept: np.ndarray = self.__dict__["_kept"]
            return kept

    def _read(self) -> np.ndarray:
        arrays = read_npz(self.entry, "data", self.path)
        if arrays.ndim == 0:
            raise InputError(f"{self.path}: 'data' is one value, must be a list of images")
        if len(arrays) != self.count:
            raise InputError(f"{self.path}: has {self.count} labels but {len(arrays)} images")
        return arrays[self.rows]

    def name(self, row: int) -> str:
        """Return file and row number of an image, from 0."""
        return f"{self.path} row {self.rows[row]}"

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        pixels = np.asarray(self._arrays[row])
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
            raise InputError(f"image {self.name(row)}: must be uint8 (h, w, 3), got {pixels.dtype} {pixels.shape}")
        return torch.from_numpy(np.repeat(pixels, 3 // pixels.shape[2], axis=2)).permute(2, 0, 1)

    def take(self, rows: Tensor) -> NpzImages:
        """Return the images of some rows alone; see `StoredImages`."""
        return replace(self, rows=self.rows[rows.numpy()])
