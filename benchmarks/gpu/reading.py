"""Images that one trial reads per second of a CPU's time, from JPEG files and from the prepared form.

The JPEGs are drawn in the sizes of each published dataset and read as `folder:PATH`, shuffled, in batches of 128. The
training transform is the dataset's own for a backbone of 224 pixels. CPU seconds leave out what else the machine does.

On a GPU the transform runs there, and the CPU only reads. `run_on_gpu` counts the images that a trial alone on the card
has ready in a second, by its threads, with nothing else to do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from benchmarks.arithmetic import seconds_of
from benchmarks.performance.lines import Line, column
from trainables.backbones import InputSpec
from trainables.data import ImageSet
from trainables.data.disk import folder
from trainables.data.disk.listing import Listing
from trainables.data.disk.manifest import listing_of
from trainables.data.disk.preparation import write
from trainables.data.images import select
from trainables.data.published import PUBLISHED
from trainables.data.splits import SPLIT_NAMES

READS = InputSpec(channels=3, size=224, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
BATCH, CLASSES, EACH, PASSES, QUALITY = 128, 4, 80, 3, 90  # `EACH` images in a class, the fastest of `PASSES` counts
THREADS = (1, 2, 4, 8)  # on a GPU
SIDES = {  # height and width; those of the last four differ from image to image, and their middle is an assumption
    "resisc45": (256, 256),
    "cropdisease": (256, 256),
    "caltech256": (350, 350),
    "cub200": (375, 500),
    "imagenet_r": (375, 500),
    "mit67": (375, 500),
}
ONE_SIZE = ("resisc45", "cropdisease")


def _line(what: str, value: str, **where: Any) -> Line:
    return Line(what=what, values=column(value, "dataset", **where), shown=".0f", at_least=2000 / 8)


LINES = (
    _line("images per CPU second that a trial reads from JPEGs of six datasets", "read", form="files", threads=1),
    _line("the same with two threads", "read", form="files", threads=2),
    _line("reads and transforms", "transformed", form="files", threads=1),
    _line("the same with two threads", "transformed", form="files", threads=2),
    _line("images per CPU second that it reads from the prepared form", "read", form="array", threads=1),
    _line("the same with two threads", "read", form="array", threads=2),
    _line("reads and transforms", "transformed", form="array", threads=1),
    _line("the same with two threads", "transformed", form="array", threads=2),
)


def size(dataset: str, generator: torch.Generator) -> tuple[int, int]:
    """Return height and width of an image of a dataset."""
    scale = 1.0 if dataset in ONE_SIZE else 0.8 + 0.4 * float(torch.rand((), generator=generator))
    height, width = (round(scale * side) for side in SIDES[dataset])
    return height, width


def pixels(height: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw an image whose colours flow, as in a photograph: uint8 `(3, height, width)`."""
    coarse = torch.rand(1, 3, height // 8, width // 8, generator=generator)
    return F.interpolate(coarse, (height, width), mode="bicubic")[0].mul(255).clamp(0, 255).byte()


def draw(root: Path, dataset: str) -> None:
    """Write the class folders of a dataset."""
    generator = torch.Generator().manual_seed(0)
    for number in range(CLASSES * EACH):
        image = pixels(*size(dataset, generator), generator)
        file = root / f"class{number % CLASSES}" / f"{number}.jpg"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, quality=QUALITY)


def measure(dataset: str, root: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each form and number of threads, with images per CPU second."""
    for form, listing in _forms(dataset, root).items():
        size = sum(file.stat().st_size for file in root.rglob("*.jpg")) / (CLASSES * EACH)
        images = _images(listing, dataset)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            row = {"dataset": dataset, "bytes of a JPEG": size, "form": form, "threads": threads}
            yield row | {"read": _rate(images, _read), "transformed": _rate(images, _transform)}


def _forms(dataset: str, root: Path) -> dict[str, Listing]:
    """Draw a dataset, and return its images as files and in the prepared form."""
    source, prepared = root / "images", root / "prepared"
    source.mkdir(parents=True)
    prepared.mkdir()
    draw(source, dataset)
    files = folder.find(source)
    published = {part: ("", ()) for part in SPLIT_NAMES}  # nothing is compared with the files
    return {
        "files": files,
        "array": listing_of(prepared, write(files, "array", published, prepared, lambda done: None)),
    }


def _images(listing: Listing, dataset: str) -> ImageSet:
    images, labels = listing.load("train")
    transform, _ = PUBLISHED[dataset].recipe(READS)
    return ImageSet(select(images, torch.arange(len(labels))), labels, transform)


def _read(images: ImageSet) -> None:
    for rows in torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).split(BATCH):
        images.pixels(rows)


def _transform(images: ImageSet, device: str = "cpu") -> None:
    for _ in images.batches(BATCH, torch.Generator().manual_seed(0), shuffle=True, device=device):
        pass


def _rate(images: ImageSet, once: Callable[[ImageSet], None]) -> float:
    seconds = []
    for _ in range(PASSES):
        start = time.process_time()
        once(images)
        seconds.append(time.process_time() - start)
    return len(images) / min(seconds)


def run() -> list[dict[str, Any]]:
    """Measure all datasets whose images are files."""
    with tempfile.TemporaryDirectory() as root:
        return [row for dataset in SIDES for row in measure(dataset, Path(root) / dataset)]


def measure_on_gpu(dataset: str, root: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each form and number of threads, with images per second on the GPU."""
    for form, listing in _forms(dataset, root).items():
        images = _images(listing, dataset)
        for threads in THREADS:
            torch.set_num_threads(threads)
            once = partial(_transform, images, "cuda")
            seconds = [seconds_of(once, "cuda") for _ in range(PASSES)]
            yield {"dataset": dataset, "form": form, "threads": threads, "images/s": len(images) / min(seconds)}


def run_on_gpu() -> list[dict[str, Any]]:
    """Measure on a GPU."""
    with tempfile.TemporaryDirectory() as root:
        return [row for dataset in SIDES for row in measure_on_gpu(dataset, Path(root) / dataset)]
