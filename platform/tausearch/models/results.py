"""What compositions came to: accuracies of each seed, and mean and deviation over the seeds, as files of a run."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from search_spaces.schema import Strict
from search_spaces.text_files import one_line, read_json
from tausearch.runs import RunDirectory, Score, replace_text
from trainables.errors import InputError
from trainables.metrics import TEST, average_accuracy

Form = Literal["adapter", "timm", "models", "vectors"]
EDIT = "edit"  # what the protocol's file is called, beside those of compositions
_LONGEST = 80  # letters of a file's name
_Kind = TypeVar("_Kind", bound=Strict)


class CompositionResult(Strict):
    """Test accuracy of one composition.

    Attributes:
        label: What is composed, in a few letters: `uniform`, `keep-1,5,10`, `drop-3-negate`.
        runs: The runs or folders that the task vectors are of.
        benchmark: What the benchmark is called.
        rule: "linear", or the merging rule.
        density: Share of entries that the rule keeps; None for "linear".
        weights: w_t of each task vector.
        seeds: The seeds.
        accuracies: For each seed the accuracy on each task, percent, over the logits of all classes.
        registered: Forms in which it is a version of the benchmark's registered model in MLflow; None if it is not.
    """

    label: str
    runs: tuple[str, ...]
    benchmark: str
    rule: str = "linear"
    density: float | None = None
    weights: tuple[float, ...]
    seeds: tuple[int, ...]
    accuracies: tuple[tuple[float, ...], ...]
    registered: tuple[Form, ...] | None = None

    def summary(self) -> dict[str, Score]:
        """Return metric to mean and deviation over the seeds: accuracy on each task, and their mean."""
        by_task = zip(*self.accuracies, strict=True)
        found = {TEST.accuracy(task): Score.of(values) for task, values in enumerate(by_task, start=1)}
        return {**found, TEST.final_accuracy: Score.of([average_accuracy(row) for row in self.accuracies])}

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch compose --json` prints and the file has."""
        summary = {name: vars(each) for name, each in self.summary().items()}
        return {**self.model_dump(mode="json"), "summary": summary}

    def save(self, directory: RunDirectory) -> Path:
        """Write it to the run that it is of; of what is there under the same label, that it is registered stays."""
        before, path = None, _file(directory, self.label)
        if path.exists():
            with suppress(InputError):  # what cannot be read is replaced
                before = read_file(path, CompositionResult).registered
        return save_file(directory, self.label, {**self.as_dict(), "registered": self.registered or before})


def save_file(directory: RunDirectory, label: str, content: dict[str, Any]) -> Path:
    """Write what a composition, or a protocol of them, came to; whole or not at all.

    Args:
        directory: Of the run.
        label: What it is called.
        content: Plain values.

    Returns:
        The file.
    """
    path = _file(directory, label)
    path.parent.mkdir(exist_ok=True)
    replace_text(path, json.dumps(content, indent=2) + "\n")
    return path


def _file(directory: RunDirectory, label: str) -> Path:
    """Return the file of that label; the name of a long one is shortened."""
    if len(label) > _LONGEST:
        label = f"{label[: _LONGEST - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    return directory.compositions / f"{label}.json"


def read_compositions(directory: RunDirectory) -> list[CompositionResult]:
    """Read every composition that a run has.

    Returns:
        Them, in the order of their files.

    Raises:
        InputError: If a file cannot be read.
    """
    paths = sorted(directory.compositions.glob("*.json")) if directory.compositions.is_dir() else []
    return [read_file(path, CompositionResult) for path in paths if path.stem != EDIT]


def read_file(path: Path, kind: type[_Kind]) -> _Kind:
    """Read a file of results.

    Returns:
        The results; their summary is worked out anew.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        content = read_json(path)
        content.pop("summary", None)
        return kind.model_validate(content)
    except (OSError, ValueError, AttributeError) as error:  # pydantic's is a ValueError
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
