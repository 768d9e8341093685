"""What a model says of itself: `model.json` beside what a final run, or an export, has left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic import Field, ValidationError

from search_spaces.schema import Strict, first_fault
from search_spaces.text_files import TextFileError, read_json
from tausearch.composing.results import Form
from tausearch.runs import ExperimentProtocol, Score, replace_text
from trainables.data import TransformSpec
from trainables.errors import InputError

ABOUT_FILE = "model.json"
_OLD_FILE = "vectors.json"  # of exported vectors, before other forms said what they are
_LIBRARIES = ("tausearch", "torch", "timm", "peft")


class About(Strict):
    """What learned models say of themselves.

    Attributes:
        form: What the folder holds; see `FORMS`.
        benchmark: What the benchmark is called, as `trainables.data.BenchmarkRef` reads it.
        protocol: The protocol of the run that learned them; its digest is that of theta_0.
        runs: The runs that learned them.
        methods: Their methods.
        class_names: The names of all classes, in class order; empty where they are not known.
        tasks: Number of classes of each task, in order; empty where it is not known.
        transform: What test images went through; None where it is not known, or is somebody's own.
        weights: The weights of the composition that was exported; empty for the run's own, which are equal.
        rule: "linear", or the merging rule of the composition.
        density: Share of entries that the rule keeps; None for "linear".
        accuracies: Seed to the accuracy on each task of the test split, percent, over the logits of all classes.
        version: The version of tausearch that wrote it.
        versions: Those of the libraries that it was written with.
    """

    form: Form = "vectors"
    benchmark: str
    protocol: ExperimentProtocol
    runs: tuple[str, ...]
    methods: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    transform: TransformSpec | None = None
    weights: tuple[float, ...] = ()
    rule: str = "linear"
    density: float | None = None
    accuracies: dict[int, tuple[float, ...]] = {}
    version: str = Field(default_factory=lambda: version("tausearch"))
    versions: dict[str, str] = Field(default_factory=lambda: {name: version(name) for name in _LIBRARIES})

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        replace_text(folder / ABOUT_FILE, self.model_dump_json(indent=2) + "\n")

    @property
    def classes_by_task(self) -> list[tuple[str, ...]]:
        """The names of the classes of each task."""
        names = iter(self.class_names)
        return [tuple(next(names) for _ in range(count)) for count in self.tasks]

    def accuracy(self, task: int) -> Score | None:
        """Return the accuracy on a task, from 1, over the seeds; None if it was not measured."""
        return Score.of([row[task - 1] for row in self.accuracies.values()]) if self.accuracies else None

    @property
    def final_accuracy(self) -> Score | None:
        """The mean accuracy over tasks, over the seeds; None if it was not measured."""
        return Score.of([sum(row) / len(row) for row in self.accuracies.values()]) if self.accuracies else None


def read_about(folder: Path) -> About:
    """Read what learned models say of themselves.

    Returns:
        It, checked.

    Raises:
        InputError: If it is not there or cannot be read.
    """
    path = next((folder / name for name in (ABOUT_FILE, _OLD_FILE) if (folder / name).exists()), None)
    if path is None:
        raise InputError(f"{folder}: has no {ABOUT_FILE}, which says of what benchmark its vectors are")
    try:
        about = About.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: {first_fault(error)}") from error
    except (OSError, TextFileError) as error:
        raise InputError(f"{path}: {error}") from error
    if about.transform is not None and (fault := about.transform.fault):
        raise InputError(f"{path}: transform: {fault}")
    fitting = len(about.weights) in (0, len(about.tasks) or len(about.weights))
    if not fitting or not all(map(math.isfinite, about.weights)):
        raise InputError(f"{path}: weights must be finite, one for each of {len(about.tasks)} tasks")
    if about.tasks and sum(about.tasks) != len(about.class_names):
        raise InputError(f"{path}: names {len(about.class_names)} classes, but its tasks have {sum(about.tasks)}")
    return about


def describes(folder: Path) -> bool:
    """Whether a folder says of itself what it holds."""
    return any((folder / name).is_file() for name in (ABOUT_FILE, _OLD_FILE))


def with_accuracies(about: About, seeds: Sequence[int], rows: Sequence[Sequence[float]]) -> About:
    """Return it with what each seed reached on each task."""
    return about.model_copy(update={"accuracies": {s: tuple(row) for s, row in zip(seeds, rows, strict=True)}})
