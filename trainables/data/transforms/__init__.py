"""From stored images to the input of a backbone: augmentation, normalisation, and the recipes of benchmarks.

Not here: the decoding of image files (`data.disk`), and which benchmark takes which recipe (its own module).
"""

from __future__ import annotations

from trainables.data.transforms.cropping import RandomResizedCrop, RandomShift, ResizeCenterCrop, ResizeRandomCrop
from trainables.data.transforms.normalisation import Images, Normalise, Transform, transform_text
from trainables.data.transforms.recipes import Recipe, small_transforms
from trainables.data.transforms.spec import TransformSpec, described

__all__ = [
    "Images",
    "Normalise",
    "RandomResizedCrop",
    "RandomShift",
    "Recipe",
    "ResizeCenterCrop",
    "ResizeRandomCrop",
    "Transform",
    "TransformSpec",
    "described",
    "small_transforms",
    "transform_text",
]
