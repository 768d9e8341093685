"""Image files of any kind to RGB pixels, upright."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from trainables.errors import InputError
from trainables.tensor_files import require_file

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jfif"})

# Of Pillow's readers those that read pixels; that of EPS, for one, would hand the file to Ghostscript to run.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")

MOST_PIXELS = 50_000_000  # of one image; ten times a large photograph's

MOST_RATIO = 200  # of an image's sides
MOST_BYTES = 2**28  # of one image file; what so many pixels take without compression is less


def require_size(count: int, name: str, most: int = MOST_BYTES) -> None:
    """Make sure that an image file is small enough to be read into memory.

    Args:
        count: Bytes of the file.
        name: What to call the file in an error.
        most: Bytes that it may have.

    Raises:
        InputError: If it has more.
    """
    if count > most:
        raise InputError(f"image {name}: has {count:,} bytes, at most {most:,} are read")


def read_image_file(path: Path, most: int = MOST_BYTES) -> Tensor:
    """Read and decode an image file; see `decode`.

    Args:
        path: The file, or a link to it.
        most: Bytes that it may have.

    Returns:
        The image, uint8 `(3, h, w)`.

    Raises:
        InputError: If it is no regular file, cannot be read, is too large, or is no image.
    """
    try:
        require_size(require_file(path).st_size, str(path), most)
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"image {path}: cannot be read ({error.strerror or error})") from error
    return decode(content, str(path))


def decode(content: bytes, name: str) -> Tensor:
    """Decode the content of an image file to RGB pixels.

    Transparent pixels are laid over white, 16-bit values scaled to 8 bits, the rotation of EXIF applied; of an
    animation the first frame is taken.

    Args:
        content: The bytes of the image file.
        name: What to call the file in an error.

    Returns:
        The image, uint8 `(3, h, w)`.

    Raises:
        InputError: If the content is no image, broken, or of a kind whose brightness is not defined.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata, which changes no pixel
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                _require_bounded(image)
                return _pixels(image)
    except Exception as error:  # Pillow's readers raise many kinds; each means "not a readable image"
        raise InputError(f"image {name}: cannot be read ({_reason(error)})") from error


def as_pixels(image: Image.Image, name: str) -> Tensor:
    """Return a picture of Pillow as `decode` returns one that is read from a file.

    Raises:
        InputError: If it is broken, or of a kind whose brightness is not defined.
    """
    try:
        return _pixels(image)
    except Exception as error:  # a picture that was opened is read here, see above
        raise InputError(f"image {name}: cannot be read ({_reason(error)})") from error


def size(content: bytes, name: str) -> tuple[int, int]:
    """Read an image file's head, without decoding it.

    Returns:
        Height and width of the stored image, before any rotation of EXIF.

    Raises:
        InputError: If the content is no image.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                _require_bounded(image)
                return image.height, image.width
    except Exception as error:
        raise InputError(f"image {name}: cannot be read ({_reason(error)})") from error


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
    pixels = np.asarray(_as_rgb(ImageOps.exif_transpose(image)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits; as 32-bit integers in some formats
        values = np.asarray(image, dtype=np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("values outside 16 bits")
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
