"""The contract of benchmarks of the user's code."""

from __future__ import annotations

import torch
from torch import Tensor

from checked_input.fields import require_argument
from trainables.backbones import Backbone
from trainables.data import BenchmarkSource, build_benchmark
from trainables.data.from_module import checked_source, require_fits
from trainables.data.images import StoredImages
from trainables.data.splits import SPLIT_NAMES


def _same(first: Tensor | StoredImages, second: Tensor | StoredImages) -> bool:
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return isinstance(first, Tensor) and isinstance(second, Tensor) and torch.equal(first, second)
    return first.digest == second.digest


def check_benchmark(source: BenchmarkSource) -> None:
    """Check a benchmark: its fields, images and labels, and that they are the same each time.

    Its transforms must fit the input of its own backbone. A search and a final run are prepared, so every task has
    training, validation and test images.

    Raises:
        AssertionError: If a part has other images or labels each time, or no image of a class; or if loading or a
            transform draws from torch's global generator.
        InputError: If it is none, or a field, a part or a transform is not as `BenchmarkSource` says.
    """
    require_argument(isinstance(source, BenchmarkSource), "source", "a BenchmarkSource", source)
    checked, reads = checked_source(source.name, source), Backbone(source.backbone).input
    state = torch.get_rng_state()
    for part in SPLIT_NAMES:
        images, labels = checked.load(part)
        other_images, other_labels = checked.load(part)
        assert torch.equal(labels, other_labels), f"load({part!r}) gives other labels each time"
        assert _same(images, other_images), f"load({part!r}) gives other images each time"
        missing = sorted(set(range(len(source.class_names))) - set(labels.tolist()))
        assert not missing, f"load({part!r}) has no image of {source.class_names[missing[0]]!r}"
    for purpose in ("search", "final"):
        require_fits(build_benchmark(checked, purpose, 0, reads), reads)
    assert torch.equal(torch.get_rng_state(), state), "draws from torch's global generator"
