"""A test transform as plain values, which are saved with the trained model and build the transform again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from trainables.backbones.inputs import LARGEST_SIDE
from trainables.data.transforms.cropping import Interpolation, ResizeCenterCrop
from trainables.data.transforms.normalisation import Images, Normalise, Transform, with_channels


@dataclass(frozen=True, kw_only=True)
class TransformSpec:
    """A test transform: resize, cut out the middle, scale to [0, 1], subtract `mean`, divide by `std`."""

    channels: int  # of the network's input: 1 for grey, 3 for RGB
    size: int  # pixels of each side of the network's input
    mean: tuple[float, ...]  # per channel
    std: tuple[float, ...]  # per channel
    resize: int | None = None  # pixels before the cut; None where all images of the benchmark have `size`
    keep_ratio: bool = False  # whether `resize` is the shorter side, or both sides
    interpolation: Interpolation = "bicubic"  # with antialiasing

    @property
    def fault(self) -> str | None:
        """The fault of the values in a few words, or None."""
        sides = [self.size, *([] if self.resize is None else [self.resize])]
        if self.channels not in (1, 3) or not self.channels == len(self.mean) == len(self.std):
            return f"mean and std must have a value for each of 1 or 3 channels, have {len(self.mean)}, {len(self.std)}"
        if not all(map(math.isfinite, (*self.mean, *self.std))) or min(self.std) <= 0:
            return "mean and std must be finite, std above 0"
        if min(sides) < 1 or max(sides) > LARGEST_SIDE or sides[-1] < self.size:
            return f"size must be from 1 to {LARGEST_SIDE}, resize at least size"
        return None

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> TransformSpec:
        """Return the transform for the values of `as_plain`; other values are a ValueError."""
        try:
            read = {**values, **{name: tuple(map(float, values[name])) for name in ("mean", "std")}}
            found = cls(**read)
            fault = found.fault
        except (KeyError, TypeError) as error:
            raise ValueError(f"is no transform: {error}") from error
        if fault is not None or found.interpolation not in get_args(Interpolation):
            raise ValueError(f"is no transform: {dict(values)}")
        return found

    def as_plain(self) -> dict[str, Any]:
        """Return the values for JSON."""
        return {**asdict(self), "mean": list(self.mean), "std": list(self.std)}

    def build(self) -> Transform:
        """Return the transform; for the benchmark's own images it equals the described one."""
        normalise = Normalise(self.mean, self.std)
        if self.resize is None:
            return FittedToSize(self.size, normalise)
        return ResizeCenterCrop(self.resize, self.size, normalise, self.keep_ratio, self.interpolation)


@dataclass(frozen=True)
class FittedToSize:
    """Normalise images; images of another size are resized before, and their middle is cut out."""

    size: int
    normalise: Normalise

    def __call__(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        """Transform a batch of stored images; see `Transform`."""
        return self.normalise(torch.stack([self._fitted(image) for image in images]))

    def _fitted(self, image: Tensor) -> Tensor:
        if image.shape[1:] == (self.size, self.size):
            return with_channels(image, self.normalise)
        return ResizeCenterCrop(self.size, self.size, self.normalise, keep_ratio=True).cut_out(image)


def described(transform: Transform, size: int) -> TransformSpec | None:
    """Return the values of a test transform for a backbone's input of `size`; None for a transform of user code."""
    if type(transform) is Normalise:  # a subclass may compute otherwise
        return TransformSpec(channels=len(transform.mean), size=size, mean=transform.mean, std=transform.std)
    if type(transform) is not ResizeCenterCrop:
        return None
    return TransformSpec(
        channels=len(transform.normalise.mean),
        size=transform.size,
        mean=transform.normalise.mean,
        std=transform.normalise.std,
        resize=transform.resize,
        keep_ratio=transform.keep_ratio,
        interpolation=transform.interpolation,
    )
