"""The benchmarks that come with the package.

Their images are files beside the code. Not here: how they become the input of a backbone (`data.transforms`).
"""

from __future__ import annotations

from functools import partial

from trainables.backbones import EMBEDDED
from trainables.data.benchmark import BenchmarkSource
from trainables.data.embedded import digits
from trainables.data.embedded.characters import BENCHMARK, LETTERS
from trainables.data.embedded.sheets import read_sheet
from trainables.data.transforms.recipes import small_transforms

BENCHMARKS: dict[str, BenchmarkSource] = {
    name: BenchmarkSource(
        name=name,
        class_names=tuple(characters),
        num_tasks=tasks,
        epochs=5,
        batch_size=32,
        backbone=EMBEDDED,
        load=load,
        transforms=small_transforms,
    )
    for name, characters, tasks, load in (
        ("digits", digits.CHARACTERS, 5, digits.load),
        # 100 characters of matplotlib's fonts; the test images have three faces that no training image has.
        ("glyphs", BENCHMARK, 10, partial(read_sheet, "glyphs", len(BENCHMARK))),
        # 20 Greek and Cyrillic letters in the same faces, turned by up to 60 degrees. The backbone was pre-trained on
        # upright characters. So theta_0 tells them apart worse than glyphs, and task vectors have more to do.
        ("letters", LETTERS, 10, partial(read_sheet, "letters", len(LETTERS))),
    )
}
