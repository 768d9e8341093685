"""The paper's whole table as a campaign: seconds of each task, from rates that were measured on one H100."""

from __future__ import annotations

from pathlib import Path

from benchmarks.performance.kept import Measured
from benchmarks.planning.simulator import Work

# Images a second in training, ViT-B/16, batch 128, one trial on the card: the table of docs/explanation/gpu-speed.md.
SYSTEMS = "gpu-systems"  # the benchmark
_SYSTEMS = Measured.of(SYSTEMS, Path(__file__).parents[1] / "gpu" / "measured").rows
RATES, BF16 = (
    {row["method"]: row["images/s"] for row in _SYSTEMS if row["precision"] == precision}
    for precision in ("fp32", "bf16")
)
# Tasks, epochs, training and test images: docs/how-to/data.md; of a dataset with one number, four fifths train.
DATASETS = {
    "imagenet_r": (10, 30, 24_000, 6_000),
    "cifar100": (10, 20, 50_000, 10_000),
    "cub200": (10, 50, 5_994, 5_794),
    "caltech256": (10, 5, 23_824, 5_956),
    "mit67": (10, 5, 5_360, 1_340),
    "resisc45": (9, 30, 25_200, 6_300),
    "cropdisease": (7, 5, 43_000, 10_800),  # about: its split files are not at hand
}
FORWARD = 1 / 3  # of a training step's time, for an image that is only evaluated
# Seconds of pre-consolidation with `ita-lora` per training image: 7 s for 256 images, most of it the Fisher. The cache
# gives it to all trials but the first.
BEFORE = 7.0 / 256
ASHA = ((3, 0.5), (6, 0.5))  # after these tasks the worse half is stopped


def task_seconds(method: str, dataset: str, *, bf16: bool = False) -> tuple[float, ...]:
    """Return the seconds of each task: training, then evaluation of all tasks so far.

    A tenth of the training images is held out and evaluated, as in a search.
    """
    tasks, epochs, train, _ = DATASETS[dataset]
    rate = (BF16 if bf16 else RATES)[method]
    trained, evaluated = 0.9 * train, 0.1 * train
    if method == "joint":
        return ((trained * epochs + evaluated * FORWARD) / rate,)
    return tuple((trained / tasks * epochs + evaluated * task / tasks * FORWARD) / rate for task in range(1, tasks + 1))


def whole_table(
    trials: int, seeds: int, *, bf16: bool = False, early_stopping: bool = False, at_once: int | None = None
) -> list[Work]:
    """Return the cells of all methods on all datasets, in the order of a campaign's file: dataset by dataset.

    By default a quarter of a cell's trials run at a time. Final runs are counted at the price of a trial of the search.
    """
    return [
        Work(
            tasks := task_seconds(method, dataset, bf16=bf16),
            trials,
            seeds,
            at_once=at_once or max(1, trials // 4),
            stops=tuple(stop for stop in ASHA if stop[0] < len(tasks)) if early_stopping else (),
        )
        for dataset in DATASETS
        for method in RATES
    ]
