"""Images of one part of a benchmark, in memory or on disk, and batches of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from trainables.data.transforms.normalisation import Images, Transform
from trainables.device import moved

Item = TypeVar("Item")
Result = TypeVar("Result")


class StoredImages(Protocol):
    """Images on disk, each read when it is asked for; no reference leads to the images of another part."""

    def __len__(self) -> int: ...

    @property
    def digest(self) -> str:
        """Digest of the images, known without reading them."""

    def name(self, row: int) -> str:
        """Return the name of an image in error messages: its path, or its place in a file."""

    def encoded(self, row: int) -> bytes | None:
        """Return the published image file; None where only pixels are stored."""

    def image(self, row: int) -> Tensor:
        """Read one image, uint8 `(c, h, w)`; an unreadable image is an InputError."""

    def take(self, rows: Tensor) -> StoredImages:
        """Return the images of some rows, int64 `(n,)`, in their order.

        The result can read no other rows. Its digest may still be the digest of all rows.
        """


class PixelImages:
    """What `StoredImages` share that hold pixels, and no image files."""

    def encoded(self, row: int) -> bytes | None:
        """Return None."""
        return None


@dataclass(frozen=True)
class StoredRows:
    """Some rows of stored images, in an order of their own."""

    images: StoredImages
    rows: Tensor  # of `images`, int64 (n,)

    def __len__(self) -> int:
        return len(self.rows)

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return self.images.image(int(self.rows[row]))


Pixels = Tensor | StoredRows


def select(images: Tensor | StoredImages, rows: Tensor) -> Pixels:
    """Return some rows without a reference to the others: of a tensor a copy, not a view."""
    return images[rows] if isinstance(images, Tensor) else StoredRows(images.take(rows), torch.arange(len(rows)))


def narrow(pixels: Pixels, rows: Tensor) -> Pixels:
    """Return some rows of the result of `select`."""
    return pixels[rows] if isinstance(pixels, Tensor) else StoredRows(pixels.images, pixels.rows[rows])


class Batch(NamedTuple):
    """Some examples of an image set.

    Attributes:
        x: Input of the backbone, float32 `(b, c, h, w)`.
        y: Labels, int64 `(b,)`. They count over all tasks: subtract `task.classes.start` for those within a task.
        rows: Row numbers within the set, int64 `(b,)`, on the CPU.
    """

    x: Tensor
    y: Tensor
    rows: Tensor


@dataclass(frozen=True)
class ImageSet:
    """Images with labels and the transform that prepares them.

    Attributes:
        images: Raw images, uint8 `(n, c, h, w)`, or rows of images on disk; `pixels` reads both.
        labels: int64 `(n,)`, positions in the benchmark's class order: task 1 has 0, 1, ...
        transform: The transform from raw images to the backbone's input.
    """

    images: Pixels
    labels: Tensor
    transform: Transform

    def __len__(self) -> int:
        return len(self.labels)

    def batches(
        self, batch_size: int, generator: torch.Generator | None, *, shuffle: bool, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """Yield all examples once, x and y on `device`; the last batch may be smaller.

        `generator` draws the order and the augmentation; None where neither draws, as for `task.unaugmented` without
        `shuffle`.
        """
        order = torch.randperm(len(self), generator=generator) if shuffle else torch.arange(len(self))
        batches = order.split(batch_size)
        on_gpu = torch.device(device).type != "cpu"
        for rows, images in zip(batches, _read(self.images, batches, ahead=on_gpu), strict=True):
            yield Batch(self.prepare(images, generator, device), moved(self.labels[rows], device), rows)

    def pixels(self, rows: Tensor) -> Images:
        """Return a copy of raw images, uint8 `(b, c, h, w)`; images of several sizes as a list of `(c, h, w)`.

        `rows` are row numbers within the set, int64 `(b,)`, on the CPU. All threads of the trial read from the disk.

        Raises:
            InputError: If an image on disk is unreadable.
        """
        (images,) = _read(self.images, [rows], ahead=False)
        return images

    def prepare(self, images: Images, generator: torch.Generator | None, device: torch.device | str = "cpu") -> Tensor:
        """Return the backbone's input, float32 `(b, c, h, w)`, from raw images of this or another set on the CPU.

        `generator` draws the augmentation; None where the transform draws nothing.
        """
        there = moved(images, device) if isinstance(images, Tensor) else [moved(image, device) for image in images]
        return self.transform(there, generator)


def concatenate(sets: Sequence[ImageSet]) -> ImageSet:
    """Join sets of one benchmark in order, under the first set's transform."""
    tensors = [each.images for each in sets if isinstance(each.images, Tensor)]
    on_disk = [each.images for each in sets if isinstance(each.images, StoredRows)]
    images: Pixels
    if tensors:
        images = torch.cat(tensors)
    else:
        images = StoredRows(on_disk[0].images, torch.cat([stored.rows for stored in on_disk]))
    return ImageSet(images, torch.cat([each.labels for each in sets]), sets[0].transform)


def _read(images: Pixels, batches: Sequence[Tensor], *, ahead: bool) -> Iterator[Images]:
    """Yield the images of each batch, read from the disk by all threads of the trial.

    With `ahead` a thread makes the next batch ready for its copy to a GPU, while the caller launches work on it.
    """
    with _reader(images) as read:
        if ahead:
            yield from in_order(lambda rows: _pinned(read(rows)), batches, threads=1, ahead=1, name="next-batch")
        else:
            yield from map(read, batches)


@contextmanager
def _reader(images: Pixels) -> Iterator[Callable[[Tensor], Images]]:
    """Return a function from rows to their images."""
    if isinstance(images, Tensor):
        yield images.__getitem__
        return
    threads = torch.get_num_threads()
    if threads == 1:
        yield lambda rows: stacked([images.image(row) for row in rows.tolist()])
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="read-images") as pool:
        try:
            yield lambda rows: stacked(list(pool.map(images.image, rows.tolist())))
        finally:
            pool.shutdown(cancel_futures=True)


def of_classes(images: ImageSet, classes: Sequence[int]) -> ImageSet:
    """Return the images of some classes, in their order."""
    rows = torch.isin(images.labels, torch.tensor(classes)).nonzero().flatten()
    return replace(images, images=narrow(images.images, rows), labels=images.labels[rows])


def in_order(
    do: Callable[[Item], Result], items: Iterable[Item], *, threads: int, ahead: int, name: str
) -> Iterator[Result]:
    """Yield the result for each item, in order, while threads work on as many as `ahead` items after it."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix=name) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(do, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _pinned(images: Images) -> Images:
    """Return images in memory from which a GPU copies by itself."""
    return images.pin_memory() if isinstance(images, Tensor) else [image.pin_memory() for image in images]


def stacked(images: list[Tensor]) -> Images:
    """Return images `(c, h, w)` of one size as one tensor `(b, c, h, w)`, others as they are."""
    return torch.stack(images) if len({image.shape for image in images}) == 1 else images
