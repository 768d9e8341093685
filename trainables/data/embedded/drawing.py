"""Draw characters of matplotlib's fonts as small noisy images.

One drawing is a character in one face after a random affine map, blur, contrast and noise. The images of the benchmarks
glyphs and letters and of the small embedded ViT's pre-training are from this module. The pre-training has other
characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from trainables.data.embedded.sheets import IMAGE_SIZE

TRAIN_FACES = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
)
HELD_OUT_FACES = ("DejaVuSansMono-Oblique", "DejaVuSerif-Italic", "STIXGeneralBolIta")

_CANVAS = 64  # side of the clean rendering, pixels; twice the drawing so that the affine map only ever shrinks
_FONT_SIZE = 50  # the tallest characters still fit the canvas


def render(characters: str, faces: tuple[str, ...]) -> Tensor:
    """Return each character in each of matplotlib's faces, centred, uint8 `(characters, faces, 64, 64)`, ink 255."""
    import matplotlib  # takes a second to import, which trials on other images save

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = [ImageFont.truetype(str(folder / f"{face}.ttf"), _FONT_SIZE) for face in faces]
    canvases = torch.zeros(len(characters), len(faces), _CANVAS, _CANVAS, dtype=torch.uint8)
    for i, character in enumerate(characters):
        for j, font in enumerate(fonts):
            image = Image.new("L", (_CANVAS, _CANVAS))
            ImageDraw.Draw(image).text((_CANVAS // 2, _CANVAS // 2), character, font=font, fill=255, anchor="mm")
            pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
            if not pixels.any():
                raise ValueError(f"face {faces[j]!r} draws nothing for {character=}")
            canvases[i, j] = pixels.view(_CANVAS, _CANVAS)
    return canvases


def draw(rendered: Tensor, labels: Tensor, generator: torch.Generator, turn: float = math.pi / 15) -> Tensor:
    """Return one distorted image per label in a random face, uint8 `(n, 1, 32, 32)`.

    All processors draw the same uniform numbers, and all later steps are float64. So two processors disagree only on a
    grey level within some 1e-12 of a half. In the shipped images the nearest level is 1e-7 away.

    `rendered` is the output of `render`, `labels` are its rows, int64 `(n,)`, and `turn` is the largest rotation in
    either direction, radians.
    """
    n = len(labels)
    faces = torch.randint(rendered.shape[1], (n,), generator=generator)
    clean = rendered[labels, faces].double().div_(255).unsqueeze(1)  # [n, 1, 64, 64]
    ink = _blur(_warp(clean, generator, turn), generator)
    contrast = _uniform((n, 1, 1, 1), 0.5, 1.0, generator)
    background = _uniform((n, 1, 1, 1), 0.0, 0.3, generator)
    images = background + ink * contrast * (1 - background)
    images += _normal(images.shape, generator) * _uniform((n, 1, 1, 1), 0.0, 0.08, generator)
    return images.clamp_(0, 1).mul_(255).round_().to(torch.uint8)


def _uniform(shape: Sequence[int], low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator).double()


def _normal(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Return normal numbers by Box and Muller's transform, in pairs from 16 uniform numbers, as torch's `randn`."""
    first, second = torch.rand(shape, generator=generator).double().view(-1, 2, 8).unbind(1)
    radius, angle = (-2 * torch.log1p(-first)).sqrt(), 2 * math.pi * second
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1).view(shape)


def _warp(images: Tensor, generator: torch.Generator, turn: float) -> Tensor:
    """Rotate by up to `turn`, scale 0.85 to 1.25, shear and shift a little; `(n, 1, 64, 64)` to `(n, 1, 32, 32)`."""
    n = len(images)
    angle = _uniform((n,), -turn, turn, generator)
    zoom = _uniform((n,), 0.85, 1.25, generator)
    shear = _uniform((n,), -0.15, 0.15, generator)
    shift = _uniform((n, 2), -0.12, 0.12, generator)
    cos, sin = angle.cos() / zoom, angle.sin() / zoom
    rows = torch.stack([cos, shear * cos - sin, shift[:, 0], sin, shear * sin + cos, shift[:, 1]], dim=1)
    grid = F.affine_grid(rows.view(n, 2, 3), [n, 1, IMAGE_SIZE, IMAGE_SIZE], align_corners=False)
    return F.grid_sample(F.avg_pool2d(images, 2), grid, align_corners=False)


def _blur(images: Tensor, generator: torch.Generator) -> Tensor:
    """Gaussian blur, its standard deviation drawn per image from 0.2 to 0.9 pixels."""
    n = len(images)
    sigma = _uniform((n, 1), 0.2, 0.9, generator)
    kernel = torch.exp(-(torch.arange(-2, 3).double() ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum(1, keepdim=True)).view(n, 1, 1, 5)
    rows = F.conv2d(images.transpose(0, 1), kernel, padding=(0, 2), groups=n)
    return F.conv2d(rows, kernel.transpose(2, 3), padding=(2, 0), groups=n).transpose(0, 1)
