"""Which transforms a benchmark prescribes, for whatever size its backbone reads."""

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
from trainables.data.transforms.normalising import Normalise, Transform

_SIZE = 224  # pixels that the lengths below are meant for

IMAGENET = Normalise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = Normalise((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
UNIT = Normalise((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Recipe:
    """Training and test transforms of photographs.

    Its lengths are for a backbone of 224 pixels; those for other sizes scale in proportion.

    Attributes:
        normalise: Normalises RGB images; None takes the backbone's own, as does a backbone that reads grey images.
        train_resize: Length to resize to before a random crop; None takes random resized crops.
        train_keep_ratio: Whether that length is the shorter side's, or both sides'.
        test_resize: Length to resize to before the centre crop.
        test_keep_ratio: Whether that length is the shorter side's, or both sides'.
        test_interpolation: Interpolation of the resize before the centre crop.
    """

    normalise: Normalise | None = None
    train_resize: int | None = None
    train_keep_ratio: bool = False
    test_resize: int = 256
    test_keep_ratio: bool = False
    test_interpolation: Interpolation = "bicubic"

    def __call__(self, reads: InputSpec) -> tuple[Transform, Transform]:
        """Return training and test transform for what a backbone reads."""
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
    """Return training and test transform of an embedded 32x32 benchmark for a backbone.

    A backbone that reads such images gets shifts of up to two pixels; a larger one the paper's transforms.
    """
    normalise = Normalise(reads.mean, reads.std)
    if (reads.channels, reads.size) == (1, 32):
        return RandomShift(2, normalise), normalise
    return RandomResizedCrop(reads.size, normalise), ResizeCenterCrop(reads.size * 8 // 7, reads.size, normalise)
