"""Make the generic references of TAK, once for a backbone: `python -m trainables.methods.tak.make_generic FILE`.

The images are those that the embedded ViT was pre-trained on, drawn anew, or the training images of any benchmark, such
as a folder of yours. `tak` takes the file with `--set references=generic --set factors=FILE`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import torch
from torch import Tensor

from trainables.backbones import EMBEDDED, Backbone
from trainables.curvature import feature_curvature
from trainables.data import build_benchmark, get_source
from trainables.data.embedded.characters import PRETRAINING
from trainables.data.embedded.drawing import TRAIN_FACES, draw, render
from trainables.errors import InputError
from trainables.methods.tak.generic import write_generic
from trainables.methods.tak.references import CURVATURE_BATCH
from trainables.randomness import make_generator
from trainables.user_code import allow_typed

IMAGES = 4096


def drawings(count: int, seed: int) -> Iterator[Tensor]:
    """Yield batches of drawings of the characters that the embedded ViT was pre-trained on, `(b, 1, 32, 32)`."""
    generator, rendered = make_generator(seed, "generic-drawings", 0), render(PRETRAINING, TRAIN_FACES)
    for first in range(0, count, CURVATURE_BATCH):
        labels = torch.randint(len(PRETRAINING), (min(CURVATURE_BATCH, count - first),), generator=generator)
        yield draw(rendered, labels, generator).float().div_(127.5).sub_(1)  # as in its pre-training


def of_benchmark(reference: str, backbone: Backbone, count: int) -> Iterator[Tensor]:
    """Yield batches of a benchmark's training images, at most about `count`, without augmentation."""
    images = build_benchmark(get_source(reference), "final", 0, backbone.input).merged().unaugmented
    batches = images.batches(CURVATURE_BATCH, make_generator(0, "generic-order", 0), shuffle=True)
    for batch, _ in zip(batches, range(0, count, CURVATURE_BATCH), strict=False):
        yield batch.x


def make(file: Path, backbone: Backbone, reference: str | None, count: int, draws: int, seed: int) -> int:
    """Write a backbone's generic factors and return their number of images; what cannot be made is an InputError."""
    if reference is None and backbone.name != EMBEDDED:
        raise InputError(f"--images: needed for {backbone.name}; only {EMBEDDED} comes with its pre-training images")
    try:
        TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error
    if file.is_dir():
        raise InputError(f"{file}: must be a file, not a folder")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = drawings(count, seed) if reference is None else of_benchmark(reference, backbone, count)
    curvature = feature_curvature(
        backbone.load(device),
        (images.to(device) for images in batches),
        draws=draws,
        generator=make_generator(seed, "generic-draws", 0),
    )
    try:
        write_generic(file, curvature.to(torch.device("cpu")), backbone, reference or "drawings of its pre-training")
    except OSError as error:  # such as a disk that is full
        raise InputError(f"{file}: cannot be written ({error.strerror})") from error
    return curvature.examples


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where to write the factors (safetensors)")
    parser.add_argument("--images", help="a benchmark, such as digits or folder:/pictures?tasks=1 (default: drawings)")
    parser.add_argument("--count", type=int, default=IMAGES, help=f"images, at most (default {IMAGES})")
    parser.add_argument("--draws", type=int, default=1, help="backward passes per batch (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="of drawings and passes (default 0)")
    parser.add_argument("--backbone", default=EMBEDDED, help=f"(default {EMBEDDED})")
    parser.add_argument("--backbone-weights", help="a local safetensors file")
    given = parser.parse_args()
    if given.count < 1 or given.draws < 1:
        parser.error("--count and --draws must be at least 1")
    try:
        allow_typed(given.images, given.backbone)
        backbone = Backbone.of(given.backbone, given.backbone_weights)
        count = make(given.file.absolute(), backbone, given.images, given.count, given.draws, given.seed)
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(f"{given.file}: curvature of {given.backbone} on {count} images")


if __name__ == "__main__":
    main()
