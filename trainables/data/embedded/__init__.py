"""The benchmarks that come with the package.

Their images are files beside the code. Not here: how they become the input of a backbone (`data.transforms`).
"""

from __future__ import annotations

from trainables.backbones import EMBEDDED
from trainables.data.benchmark import BenchmarkSource
from trainables.data.embedded import digits, glyphs, letters
from trainables.data.transforms.recipes import small_transforms

BENCHMARKS: dict[str, BenchmarkSource] = {
    source.__name__.rsplit(".", 1)[1]: BenchmarkSource(
        name=source.__name__.rsplit(".", 1)[1],
        class_names=source.CLASS_NAMES,
        num_tasks=tasks,
        epochs=5,
        batch_size=32,
        backbone=EMBEDDED,
        load=source.load,
        transforms=small_transforms,
    )
    for source, tasks in ((digits, 5), (glyphs, 10), (letters, 10))
}
