"""How mammoth's model gets a task's images: from its own loader, as its data sets of small images do, or from ours.

Its own loader reads image by image through PIL and torchvision's transforms, by default in as many processes as there
are CPUs, which are started anew for every pass. Ours cuts whole batches out of memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms

from benchmarks.authors.point import Feed
from trainables.data import ImageSet, Normalise, RandomShift
from trainables.data.transforms.normalisation import Transform

Example = tuple[Tensor, int, Tensor]  # augmented, label, not augmented


class _Images(torch.utils.data.Dataset[Example]):
    """Grey images one by one, as its `MyMNIST`."""

    def __init__(self, part: ImageSet) -> None:
        assert isinstance(part.images, Tensor)
        self.pixels, self.labels = part.images[:, 0].numpy(), part.labels.tolist()
        self.transform = torchvision_transform(part.transform, part.images.shape[2])
        self.plain = transforms.ToTensor()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Example:
        image = Image.fromarray(self.pixels[index], mode="L")
        return self.transform(image), self.labels[index], self.plain(image.copy())


def torchvision_transform(transform: Transform, size: int) -> transforms.Compose:
    """Say in torchvision's words what our transform of an embedded benchmark does."""
    if isinstance(transform, RandomShift):
        crop = transforms.RandomCrop(size, padding=transform.pixels, padding_mode="edge")
        return transforms.Compose([crop, *torchvision_transform(transform.normalise, size).transforms])
    assert isinstance(transform, Normalise)
    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(transform.mean, transform.std)])


@dataclass
class _Batches:
    """Our batches, as its loader gives them."""

    part: ImageSet
    batch_size: int
    generator: torch.Generator
    shuffle: bool

    def __len__(self) -> int:
        return -(-len(self.part) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for x, y, _ in self.part.batches(self.batch_size, self.generator, shuffle=self.shuffle):
            yield x, y, x


class Feeder:
    """Makes loaders of one kind, see `point.Feed`; the seed is of orders and augmentations."""

    def __init__(self, feed: Feed, batch_size: int, seed: int) -> None:
        self.feed, self.batch_size = feed, batch_size
        self.generator = torch.Generator().manual_seed(seed)
        workers = 0 if feed == "in process" else None  # None is its default: one per CPU
        self.arguments = argparse.Namespace(num_workers=workers, seed=seed)

    def loader(self, part: ImageSet, *, shuffle: bool) -> Any:
        """Return what yields `(x, y, not augmented x)`, as `train_loader` and `test_loaders` of its data sets."""
        if self.feed == "our batches":
            return _Batches(part, self.batch_size, self.generator, shuffle)
        make = import_module("utils.conf").create_seeded_dataloader
        return make(self.arguments, _Images(part), batch_size=self.batch_size, shuffle=shuffle)
