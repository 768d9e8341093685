"""The transforms that benchmarks prescribe, for backbones of any input size."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.backbones import InputSpec
from trainables.data.transforms.cropping import (
    Interpolation,
    RandomResizedCrop,
    RandomShift,
    ResizeCenterCrop,
    ResizeRandomCrop,
)
from trainables.data.transforms.normalisation import Normalise, Transform

_SIZE = 224  # input of the backbone for which recipes give their lengths

IMAGENET = Normalise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
UNIT = Normalise((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Recipe:
    """Training and test transforms of photographs.

    Lengths are in pixels for a backbone of 224 pixels, and scale in proportion for others. With `keep_ratio` a length
    is the shorter side's, else both sides'.
    """

    normalise: Normalise | None = None  # of RGB; None, or another number of channels, takes the backbone's own
    train_resize: int | None = None  # before a random crop; None takes random resized crops
    train_keep_ratio: bool = False
    test_resize: int = 256  # before the centre crop
    test_keep_ratio: bool = False
    test_interpolation: Interpolation = "bicubic"

    def __call__(self, reads: InputSpec) -> tuple[Transform, Transform]:
        """Return training and test transform for the input of a backbone."""
        fits = self.normalise is not None and len(self.normalise.mean) == reads.channels
        normalise = self.normalise if self.normalise and fits else Normalise(reads.mean, reads.std)

        def scaled(length: int) -> int:
            return round(length * reads.size / _SIZE)

        train: Transform = RandomResizedCrop(reads.size, normalise)
        if self.train_resize is not None:
            train = ResizeRandomCrop(scaled(self.train_resize), reads.size, normalise, self.train_keep_ratio)
        return train, ResizeCenterCrop(
            scaled(self.test_resize), reads.size, normalise, self.test_keep_ratio, self.test_interpolation
        )


def small_transforms(reads: InputSpec) -> tuple[Transform, Transform]:
    """Return training and test transform of an embedded 32x32 benchmark for the input of a backbone.

    For a backbone of grey 32x32 images, training shifts by up to two pixels. Others get the paper's transforms.
    """
    normalise = Normalise(reads.mean, reads.std)
    if (reads.channels, reads.size) == (1, 32):
        return RandomShift(2, normalise), normalise
    return RandomResizedCrop(reads.size, normalise), ResizeCenterCrop(reads.size * 8 // 7, reads.size, normalise)
