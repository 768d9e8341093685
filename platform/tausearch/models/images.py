"""A user's images: paths, folders, Pillow images, arrays, tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from checked_input.names import counted
from trainables.data.disk.decoding import MOST_BYTES, as_pixels, read_image_file
from trainables.data.disk.listing import is_image
from trainables.data.disk.tree import files_below
from trainables.data.transforms.normalisation import Images, Transform
from trainables.errors import InputError
from trainables.task_names import listed

_NAMED = 5  # unreadable images in one error
_ONE = (str, Path, Image.Image, np.ndarray, Tensor)


@dataclass(frozen=True)
class UserImage:
    """One image to classify: its path or position from 0, and a function that reads it.

    `read` returns the pixels, uint8 `(c, h, w)`, or raises an `InputError`.
    """

    name: str
    read: Callable[[], Tensor]


@dataclass(frozen=True)
class OfPixels:
    """The transform of test images, for images that a user gives; it refuses floats, which it would scale once more."""

    transform: Transform

    def __call__(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        """Transform uint8 images as `Transform` does; refuse others, and none."""
        if isinstance(images, Tensor):
            ndim, several = 4, [images]
        else:
            ndim, several = 3, list(images) if isinstance(images, Sequence) else [images]
        wrong = [each for each in several if not _are_pixels(each, ndim)]
        if wrong or not several:
            raise InputError(
                "images must be a uint8 tensor (b, c, h, w), or a list of uint8 tensors (c, h, w), with values from 0"
                f" to 255 and 1 or 3 channels, got {_kind(wrong[0]) if wrong else 'none'}"
            )
        return self.transform(images, generator)


def find_user_images(
    images: Any, max_image_bytes: int = MOST_BYTES, left_out: list[str] | None = None
) -> list[UserImage]:
    """Return a user's images in their order, without reading files; see `Model.predict` for what may be given.

    `left_out` gets a line for each folder with files that are no images. What is no image is refused.
    """
    if isinstance(images, Tensor | np.ndarray) and images.ndim == 4:
        images = list(images)
    several = images if isinstance(images, Iterable) and not isinstance(images, _ONE) else [images]
    found: list[UserImage] = []
    for each in several:
        if isinstance(each, str | Path):
            paths = image_paths([each], left_out)
            found += [UserImage(str(path), partial(read_image_file, path, max_image_bytes)) for path in paths]
        else:
            found.append(_in_memory(each, str(len(found))))
    return found


def image_paths(paths: Sequence[str | Path], left_out: list[str] | None = None) -> list[Path]:
    """Return image files, each once; a folder stands for all in and below it, sorted by path, without hidden ones.

    `left_out` gets a line for each folder with files whose ending is not that of an image.

    Raises:
        InputError: If a path is empty or does not exist, or a folder has no image or cannot be listed whole.
    """
    if "" in paths:
        raise InputError("images: a path must not be empty")
    found: list[Path] = []
    for path in (Path(os.path.expanduser(each)) for each in paths):
        if os.path.isdir(path):  # the name may be too long for `Path.is_dir`
            files = sorted(path / below for below, _ in files_below(path))
            seen = [each for each in files if is_image(each.name)]
            if not seen:
                raise InputError(f"{path}: no image in this folder")
            others = [each.name for each in files if not is_image(each.name)]
            if others and left_out is not None:
                files_left = counted(len(others), "file")
                left_out.append(f"{path}: {files_left} not named as an image, left out: {listed(others)}")
            found += seen
        elif os.path.isfile(path):
            found.append(path)
        else:
            raise InputError(f"{path}: {'is no regular file' if os.path.exists(path) else 'no such file or folder'}")
    once: dict[Path, Path] = {}
    for each in found:
        absolute = Path(os.path.abspath(each))
        is_itself = os.path.expanduser(each) == str(each)  # else `~/a.png` of this folder would be read in the home
        once.setdefault(absolute, each if is_itself else absolute)  # links to one file are several images
    return list(once.values())


def read_images(
    images: Sequence[UserImage], skip_broken: bool, left_out: list[str]
) -> Iterator[tuple[UserImage, Tensor]]:
    """Yield images with pixels; an unreadable one is an error, or with `skip_broken` a line in `left_out`."""
    looks = ((each, _pixels_or_fault(each)) for each in images)
    for each, look in looks:
        if isinstance(look, Tensor):
            yield each, look
        elif skip_broken:
            left_out.append(look)
        else:
            faults = [look, *(later for _, later in looks if isinstance(later, str))]
            more = [f"{len(faults) - _NAMED} more cannot be read"] if len(faults) > _NAMED else []
            raise InputError("; ".join([*faults[:_NAMED], *more, "--skip-broken leaves out what cannot be read"]))


def _pixels_or_fault(image: UserImage) -> Tensor | str:
    try:
        return image.read()
    except InputError as error:
        return str(error)


def _in_memory(image: Any, name: str) -> UserImage:
    kind = _kind(image)
    if isinstance(image, Image.Image):
        return UserImage(name, lambda: as_pixels(image, name))
    if isinstance(image, np.ndarray) and image.ndim in (2, 3) and image.dtype == np.uint8:
        channels_last = image if image.ndim == 3 else image[..., None]
        image = torch.from_numpy(np.array(channels_last)).permute(2, 0, 1)
    if _are_pixels(image, ndim=3):
        return UserImage(name, lambda: image)
    raise InputError(
        f"image {name}: must be a path, a Pillow image, a uint8 array (h, w) or (h, w, c) or a uint8 tensor"
        f" (c, h, w) with 1 or 3 channels, got {kind}"
    )


def _are_pixels(images: Any, ndim: int) -> bool:
    fits = isinstance(images, Tensor) and images.dtype == torch.uint8 and images.ndim == ndim
    return fits and images.shape[-3] in (1, 3) and images.numel() > 0


def _kind(image: Any) -> str:
    """Return what an error says of a thing that is no image."""
    return f"{type(image).__name__} {tuple(image.shape)} {image.dtype}" if hasattr(image, "shape") else repr(image)
