"""Images of every kind come out right: RGB, 8 bits, upright; what cannot is named."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainables.data.disk.decoding import as_pixels, decode, encode_png, size
from trainables.errors import InputError

H, W = 6, 9
RED, GREEN = (250, 10, 20), (20, 240, 30)


def picture() -> Image.Image:
    """Red above, green in the lower left corner."""
    image = Image.new("RGB", (W, H), RED)
    image.paste(GREEN, (0, 3, 4, 6))
    return image


def file(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def test_rgb_is_itself() -> None:
    decoded = decode(file(picture()), "x")
    assert decoded.dtype == torch.uint8 and decoded.shape == (3, H, W)
    assert decoded[:, 0, 0].tolist() == list(RED) and decoded[:, 5, 0].tolist() == list(GREEN)
    assert torch.equal(decode(encode_png(decoded), "x"), decoded)
    assert size(file(picture()), "x") == (H, W)


def test_transparent_pixels_show_white_and_half_transparent_ones_a_mixture() -> None:
    image = picture().convert("RGBA")
    image.putpixel((0, 0), (*RED, 0))
    image.putpixel((1, 0), (*RED, 128))
    decoded = decode(file(image), "x")
    assert decoded[:, 0, 0].tolist() == [255, 255, 255]
    assert decoded[:, 0, 1].tolist() == pytest.approx([(255 + c) / 2 for c in RED], abs=1)
    assert decoded[:, 0, 2].tolist() == list(RED)


def test_palette_and_sixteen_bits_with_and_without_transparency() -> None:
    image = picture().quantize(2)
    plain = decode(file(image), "x")
    assert plain[:, 0, 0].tolist() == pytest.approx(list(RED), abs=2)
    grey = Image.fromarray(np.full((H, W), 257 * 7, np.uint16))
    grey.putpixel((0, 0), 0)
    assert decode(file(grey, transparency=0), "x")[:, 0, :2].tolist() == [[255, 7]] * 3
    assert decode(file(picture(), transparency=RED), "x")[:, 0, 0].tolist() == [255] * 3
    background = image.getpixel((8, 0))
    decoded = decode(file(image, transparency=background), "x")
    assert decoded[:, 0, 0].tolist() == [255, 255, 255]
    assert decoded[:, 5, 0].tolist() == pytest.approx(list(GREEN), abs=2)
    assert decode(file(image, "GIF"), "x").shape == (3, H, W)


def test_grey_and_sixteen_bits() -> None:
    ramp = np.linspace(0, 255, H * W).round().astype(np.uint8).reshape(H, W)
    grey = decode(file(Image.fromarray(ramp)), "x")
    assert torch.equal(grey, torch.from_numpy(ramp).expand(3, -1, -1))
    deep = Image.fromarray(ramp.astype(np.uint16) * 257)
    for form in ("PNG", "TIFF"):
        assert torch.equal(decode(file(deep, form), "x"), grey)
    assert torch.equal(decode(file(Image.fromarray(ramp.astype(np.int32) * 257), "TIFF"), "x"), grey)
    alpha = Image.merge("LA", (Image.fromarray(ramp), Image.new("L", (W, H), 255)))
    assert torch.equal(decode(file(alpha), "x"), grey)


@pytest.mark.parametrize("mode", ["1", "CMYK", "YCbCr"])
def test_other_modes(mode: str) -> None:
    image = picture().convert(mode)
    decoded = decode(file(image, "JPEG" if mode != "1" else "PNG"), "x")
    assert decoded.shape == (3, H, W) and decoded.max() > 200


def test_an_image_that_is_given_is_rotated_and_stays_as_it_is() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    given = Image.open(io.BytesIO(file(picture(), "PNG", exif=exif)))
    before = np.asarray(given)
    assert torch.equal(as_pixels(given, "x"), decode(file(picture(), "PNG", exif=exif), "x"))
    assert np.array_equal(np.asarray(given), before) and given.getexif()[0x0112] == 6


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(orientation: int) -> None:
    transposes = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # which of Pillow's transposes undoes the rotation
    stored = picture() if orientation == 1 else picture().transpose(Image.Transpose(transposes[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    decoded = decode(file(stored, "PNG", exif=exif), "x")
    assert torch.equal(decoded, decode(file(picture()), "x"))


def test_what_is_no_image_is_named() -> None:
    whole = file(picture().resize((200, 200)), "JPEG")
    for content, reason in ((b"", "not an image"), (b"text", "not an image"), (whole[: len(whole) // 2], "truncated")):
        with pytest.raises(InputError, match=f"image cats/7.jpg: cannot be read .*{reason}"):
            decode(content, "cats/7.jpg")
    with pytest.raises(InputError, match="not an image"):
        decode(file(picture(), "EPS"), "x.png")  # Pillow would run Ghostscript on it
    with pytest.raises(InputError, match=r"image x: cannot be read \(floating-point pixels"):
        decode(file(Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF"), "x")
    for value in (-1, 65536):
        with pytest.raises(InputError, match=r"outside 16 bits"):
            decode(file(Image.fromarray(np.full((2, 2), value, np.int32)), "TIFF"), "x")
