"""Results of compositions as files of a run: accuracies of each seed, and their mean and deviation."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from checked_input.schema import Strict
from checked_input.text_files import one_line, read_json
from tausearch.runs import RunDirectory, Score, replace_text
from trainables.errors import InputError
from trainables.metrics import TEST, average_accuracy

Form = Literal["adapter", "timm", "models", "vectors"]
EDIT = "edit"  # the label of the editing protocol's file
_MAX_NAME = 80  # characters
_Kind = TypeVar("_Kind", bound=Strict)


class CompositionResult(Strict):
    """Test accuracy of one composition.

    Label, weights, rule and density are those of its `MergeConfig`.

    Attributes:
        runs: The runs or folders of the task vectors.
        accuracies: For each seed the accuracy on each task, percent, over the logits of all classes.
        registered: The forms of the registered version in MLflow; None for a composition that is not registered.
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
        """Return the scores over the seeds: accuracy on each task, and their mean."""
        by_task = zip(*self.accuracies, strict=True)
        found = {TEST.accuracy(task): Score.of(values) for task, values in enumerate(by_task, start=1)}
        return {**found, TEST.final_accuracy: Score.of([average_accuracy(row) for row in self.accuracies])}

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form, which `tausearch compose --json` prints and the file holds."""
        summary = {name: vars(each) for name, each in self.summary().items()}
        return {**self.model_dump(mode="json"), "summary": summary}

    def save(self, directory: RunDirectory) -> Path:
        """Save the composition with its run. Keep the registration of an earlier one with the same label."""
        before, path = None, _file(directory, self.label)
        if path.exists():
            with suppress(InputError):  # a damaged file is replaced
                before = read_file(path, CompositionResult).registered
        return save_file(directory, self.label, {**self.as_dict(), "registered": self.registered or before})


def save_file(directory: RunDirectory, label: str, content: dict[str, Any]) -> Path:
    """Write a result of plain values, whole or not at all; returns the file."""
    path = _file(directory, label)
    path.parent.mkdir(exist_ok=True)
    replace_text(path, json.dumps(content, indent=2) + "\n")
    return path


def _file(directory: RunDirectory, label: str) -> Path:
    """Return the file of a label; a long label is shortened and gets a hash."""
    if len(label) > _MAX_NAME:
        label = f"{label[: _MAX_NAME - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    return directory.compositions / f"{label}.json"


def read_compositions(directory: RunDirectory) -> list[CompositionResult]:
    """Return all compositions of a run, sorted by file name; see `read_file`."""
    paths = sorted(directory.compositions.glob("*.json")) if directory.compositions.is_dir() else []
    return [read_file(path, CompositionResult) for path in paths if path.stem != EDIT]


def read_file(path: Path, kind: type[_Kind]) -> _Kind:
    """Return the results in a file; their summary is not read but computed anew.

    Raises:
        InputError: If the file cannot be read.
    """
    try:
        content = read_json(path)
        content.pop("summary", None)
        return kind.model_validate(content)
    except (OSError, ValueError, AttributeError) as error:  # pydantic raises a ValueError
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
