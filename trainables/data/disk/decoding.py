"""Image files of any format to upright RGB pixels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from trainables.errors import InputError
from trainables.tensor_files import require_file

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jfif"})

# Pillow's readers of pixels. Its reader of EPS, for example, would let Ghostscript run the file.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")

MOST_PIXELS = 50_000_000  # of one image: ten times a large photograph
MOST_RATIO = 200  # of an image's sides
MOST_BYTES = 2**28  # of one image file: more than MOST_PIXELS take without compression


def require_size(count: int, name: str, most: int = MOST_BYTES) -> None:
    """Refuse an image file of more than `most` bytes with an InputError."""
    if count > most:
        raise InputError(f"image {name}: has {count:,} bytes, at most {most:,} are read")


def read_image_file(path: Path, most: int = MOST_BYTES) -> Tensor:
    """Return `decode` of a regular file of at most `most` bytes; another file is an InputError."""
    try:
        require_size(require_file(path).st_size, str(path), most)
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"image {path}: cannot be read ({error.strerror or error})") from error
    return decode(content, str(path))


def decode(content: bytes, name: str) -> Tensor:
    """Return the pixels of an image file's content, uint8 `(3, h, w)`; error messages have `name`.

    Transparent pixels are laid over white, 16-bit values are scaled to 8 bits, and the rotation of EXIF is applied. An
    animation gives its first frame. A broken image, or one of floating-point pixels, is an InputError.
    """
    with _as_input_error(name), _opened(content) as image:
        return _pixels(image)


def as_pixels(image: Image.Image, name: str) -> Tensor:
    """Return the pixels of a Pillow image, as `decode`; a broken image is an InputError."""
    with _as_input_error(name):
        return _pixels(image.copy())


def size(content: bytes, name: str) -> tuple[int, int]:
    """Return height and width of an image before its EXIF rotation, from the file's head; see `decode`."""
    with _as_input_error(name), _opened(content) as image:
        return image.height, image.width


@contextmanager
def _as_input_error(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Pillow's readers raise many kinds; each means "not a readable image"
        raise InputError(f"image {name}: cannot be read ({_reason(error)})") from error


@contextmanager
def _opened(content: bytes) -> Iterator[Image.Image]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of odd metadata, which changes no pixel
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _require_bounded(image)
            yield image


def encode_png(image: Tensor) -> bytes:
    """Encode uint8 `(c, h, w)` without loss."""
    pixels = image[0] if image.shape[0] == 1 else image.permute(1, 2, 0)
    target = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(target, "PNG")
    return target.getvalue()


def _require_bounded(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:  # a file of a few kilobytes can decode to gigabytes
        raise ValueError(f"has {image.width:,} x {image.height:,} pixels, at most {MOST_PIXELS:,} are read")
    if max(image.size) > MOST_RATIO * min(image.size):  # transforms resize the shorter side first
        raise ValueError(f"is {image.width:,} x {image.height:,}; a side may be {MOST_RATIO} times the other")


def _pixels(image: Image.Image) -> Tensor:
    """Return the pixels of an image, which is rotated as its EXIF says."""
    ImageOps.exif_transpose(image, in_place=True)  # each copy that is saved lets other threads read sooner
    return torch.from_numpy(np.array(_as_rgb(image))).permute(2, 0, 1)


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16 bits; as 32-bit integers in some formats
        values = np.asarray(image, dtype=np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("values outside 16 bits")
        values = np.where(values == image.info.get("transparency", -1), 65535, values)  # a PNG may declare one value
        return Image.fromarray((values / 257).round().astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no defined white")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    if not text or "cannot identify image file" in text[0]:
        return "not an image" if text else type(error).__name__
    return text[0]
