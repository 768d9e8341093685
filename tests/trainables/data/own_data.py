"""Small data sets of one's own, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.layouts import encoded, rows
from trainables.data import BenchmarkRef
from trainables.data.dataset import Dataset, dataset_of
from trainables.data.disk.passes import stored
from trainables.data.disk.tree import Progress
from trainables.data.splits import SPLIT_NAMES, SplitName

CLASSES = ("bat", "cat", "dog", "elk")


def silent(name: str, total: int) -> Any:
    return lambda count: None


def images(count: int = 6, prefix: str = "") -> dict[str, bytes]:
    return {
        f"{prefix}{name}/{number}.png": encoded(10, label, number)
        for label, name in enumerate(CLASSES)
        for number in range(count)
    }


def listed(numbers: range = range(6)) -> list[dict[str, Any]]:
    """The rows of a Parquet file with the same images."""
    found = rows(10, numbers, lambda label, n: f"{label}/{n}.png")
    return [row for row in found if row["label"] < len(CLASSES)]


def dataset(root: Path, kind: str = "folder") -> Dataset:
    return dataset_of(BenchmarkRef.parse(f"{kind}:{root}"))


def content(listing: Any) -> dict[str, list[tuple[int, bytes]]]:
    found = {}
    for part in SPLIT_NAMES:
        stored_images, labels = listing.load(part)
        whole = stored(stored_images)
        pixels = (whole.image(row).contiguous().numpy().tobytes() for row in range(len(whole)))
        found[part] = sorted(zip(labels.tolist(), pixels, strict=True))
    return found


def require_usable(text: str, parts: Sequence[SplitName], progress: Progress = silent) -> list[str]:
    return dataset_of(BenchmarkRef.parse(text)).require_usable(parts, progress)
