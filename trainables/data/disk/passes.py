"""One pass over all images of a part, to check them or to write them in another form."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from trainables.data.images import StoredImages
from trainables.errors import InputError

Tick = Callable[[int], None]
"""Receives the number of images done since the last call."""

Result = TypeVar("Result")
_WINDOW = 8  # images in memory per thread


@dataclass(frozen=True)
class TensorImages:
    """Images in memory as `StoredImages`, RGB."""

    images: Tensor  # uint8 (n, c, h, w), c 1 or 3

    def __len__(self) -> int:
        return len(self.images)

    @property
    def digest(self) -> str:
        """Digest of all pixels of all images."""
        return hashlib.sha256(self.images.numpy().tobytes()).hexdigest()

    def name(self, row: int) -> str:
        """Return the row number, from 0."""
        return f"row {row}"

    def encoded(self, row: int) -> bytes | None:
        """Return None: the tensor holds pixels."""
        return None

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return self.images[row].expand(3, -1, -1)

    def take(self, rows: Tensor) -> TensorImages:
        """Return the images of some rows alone; see `StoredImages`."""
        return TensorImages(self.images[rows])


def stored(images: Tensor | StoredImages) -> StoredImages:
    """Return images as `StoredImages`."""
    return TensorImages(images) if isinstance(images, Tensor) else images


def each_image(images: StoredImages, look: Callable[[int], Result], tick: Tick) -> Iterator[Result | InputError]:
    """Yield for each row, in order, the result of `look` or its InputError; all CPUs of this process work."""

    def one(row: int) -> Result | InputError:
        try:
            return look(row)
        except InputError as error:
            return error

    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    waiting: deque[Future[Result | InputError]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="pass-over-images") as pool:
        try:
            for row in range(len(images)):
                waiting.append(pool.submit(one, row))
                if len(waiting) >= threads * _WINDOW:
                    yield waiting.popleft().result()
                    tick(1)
            while waiting:
                yield waiting.popleft().result()
                tick(1)
        finally:
            pool.shutdown(cancel_futures=True)


def unreadable(images: Tensor | StoredImages, tick: Tick) -> Iterator[InputError]:
    """Decode every image and yield the errors of the unreadable ones."""
    whole = stored(images)
    for found in each_image(whole, lambda row: whole.image(row).shape, tick):
        if isinstance(found, InputError):
            yield found
