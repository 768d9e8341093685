"""Results of compositions as files of a run and as tables: accuracies of each seed, and their mean and deviation."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, PositiveInt

from checked_input.schema import UNUSED, Strict
from checked_input.text_files import one_line, read_json
from tausearch.models.removal.report import RemovalReport
from tausearch.models.rule_search.results import RuleSearch
from tausearch.presentation import Column, Table, emphasise, gain, numbers, score as accuracy
from tausearch.runs import RunDirectory, Score, replace_text
from trainables.errors import InputError
from trainables.metrics import TEST, average_accuracy
from trainables.task_names import quoted, titles
from trainables.user_code import changed

ExportForm = Literal["adapter", "timm", "models", "vectors"]
_NUMBERED = re.compile(r"(keep|drop)-(\d+(?:,\d+)*)(?:-(.+))?")  # what a label says of tasks, and then of the rest
EVALUATION = "evaluation"  # the label of the paper's protocol's file
_MAX_NAME = 80  # characters
_NAMED = 3  # tasks, and classes of each, that the line about what is still answered names
_COMPUTED = ("summary", "still_answered", "validation")  # in a file for its readers; not read back
Accuracies = tuple[Annotated[float, Field(ge=0, le=100)], ...]  # on each task, percent


class Saved(Strict):
    """A result that a run keeps as a file."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form, with what follows from the result."""
        raise NotImplementedError


_Kind = TypeVar("_Kind", bound=Saved)


class StillAnswered(Strict):
    """A task that was left out of a composition, and is still answered above chance."""

    task: int  # the task, from 1
    classes: tuple[str, ...]  # the names of its classes
    accuracy: float  # test accuracy on the task, percent, mean over the seeds
    chance: float  # accuracy of a guess among all classes that the composition can answer, percent

    def text(self) -> str:
        """Return the accuracy beside chance, in words."""
        return f"{self.accuracy:.2f} % of its test images are, chance is {self.chance:.2f} %"


def still_answered(
    weights: Sequence[float], accuracies: Sequence[Sequence[float]], task_classes: Sequence[tuple[str, ...]]
) -> tuple[StillAnswered, ...]:
    """Return the tasks of weight 0 or less that are answered above chance, in the mean over the seeds.

    `accuracies` are of each seed on each task, percent; `task_classes` are the names of each task's classes, without
    which there is no such task.
    """
    chance = 100 / max(1, sum(map(len, task_classes)))
    means = [statistics.fmean(values) for values in zip(*accuracies, strict=True)]
    return tuple(
        StillAnswered(task=task, classes=classes, accuracy=mean, chance=chance)
        for task, (weight, mean, classes) in enumerate(zip(weights, means, task_classes, strict=False), start=1)
        if weight <= 0 and mean > chance
    )


class CompositionResult(Saved):
    """Test accuracy of one composition.

    Label, weights, rule and its parameters are those of its `MergeConfig`.

    Attributes:
        runs: The runs or folders of the task vectors.
        accuracies: For each seed the accuracy on each task, percent, over the logits of all classes.
        task_classes: The names of each task's classes; empty in files of earlier versions.
        task_names: The labels of the tasks: their own names, or their classes; empty in files of earlier versions.
        test_images: Number of test images of each task; empty in files of earlier versions.
        search: How the rule's parameters were chosen; None if they were not searched.
        removal: What was taken out by `--forget`. Weights, accuracies and classes are then of the tasks left.
        registered: The forms of the registered version in MLflow; None for a composition that is not registered.
        code_digests: For each name of the user's code that was run, the digest of its module's file as it was imported.
    """

    label: str
    runs: tuple[str, ...]
    benchmark: str
    rule: str = "linear"
    rule_parameters: dict[str, float] = {}
    weights: tuple[float, ...]
    seeds: tuple[int, ...]
    accuracies: tuple[Accuracies, ...]
    task_classes: tuple[tuple[str, ...], ...] = ()
    task_names: tuple[str, ...] = ()
    test_images: tuple[PositiveInt, ...] = ()
    search: RuleSearch | None = None
    removal: RemovalReport | None = None
    registered: tuple[ExportForm, ...] | None = None
    code_digests: Annotated[dict[str, str], UNUSED] = {}

    def summary(self) -> dict[str, Score]:
        """Return the scores over the seeds: accuracy on each task, and their mean."""
        by_task = zip(*self.accuracies, strict=True)
        found = {TEST.accuracy(task): Score.of(values) for task, values in zip(self.tasks, by_task, strict=True)}
        rows = [row for _, row in zip(self.seeds, self.accuracies, strict=True)]
        return {**found, TEST.final_accuracy: Score.of(list(map(average_accuracy, rows)))}

    @property
    def tasks(self) -> tuple[int, ...]:
        """The numbers of the tasks, from 1, as the run numbers them."""
        return tuple(range(1, len(self.weights) + 1)) if self.removal is None else self.removal.tasks

    @property
    def title(self) -> str:
        """The label with the names of tasks and classes: `drop 2 (animals)`, `forget zebra, retrained, seeds 0`."""
        label = self.label.removesuffix(of_seeds(self.seeds))
        rest = [] if label == self.label else [f"seeds {','.join(map(str, self.seeds))}"]
        found = _NUMBERED.fullmatch(label)
        if self.removal is not None:
            names = [each.name or f"class {each.number}" for each in self.removal.classes]
            marks = ["retrained"] if self.removal.retrained else []
            return ", ".join([f"forget {', '.join(names)}", *marks, *rest])
        if found is None or max(map(int, found[2].split(","))) > len(self.task_names):
            return self.label
        named = ", ".join(f"{task} ({self.task_names[int(task) - 1]})" for task in found[2].split(","))
        return ", ".join([f"{found[1]} {named}", *filter(None, [found[3]]), *rest])

    @property
    def heading(self) -> str:
        """The label, which names its file; of a removal the title, as the label has places of classes and no names."""
        return self.label if self.removal is None else self.title

    @property
    def still_answered(self) -> tuple[StillAnswered, ...]:
        """The tasks that were left out, and are still answered; see `StillAnswered`."""
        if self.removal is not None:  # every class that is left is meant to be answered
            return ()
        return still_answered(self.weights, self.accuracies, self.task_classes)

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form, which `tausearch compose --format json` prints and the file holds."""
        summary = {name: vars(each) for name, each in self.summary().items()}
        answered = [each.model_dump(mode="json") for each in self.still_answered]
        found = {**self.model_dump(mode="json"), "summary": summary, "still_answered": answered}
        if self.search is not None:
            found["validation"] = {name: vars(each) for name, each in self.search.scores().items()}
        return found

    def save(self, directory: RunDirectory) -> Path:
        """Save the composition with its run. Keep the registration of an earlier one with the same label."""
        before, path = None, _file(directory, self.label)
        if path.exists():
            with suppress(InputError):  # a damaged file is replaced
                before = read_file(path, CompositionResult).registered
        return save_file(directory, self.label, {**self.as_dict(), "registered": self.registered or before})


def of_seeds(seeds: Iterable[int]) -> str:
    """Return the end of a label that says which seeds were composed, if these are not all."""
    return f"-seeds-{','.join(map(str, seeds))}"


def accuracy_table(result: CompositionResult, trained: CompositionResult | None = None) -> Table:
    """Return the table; weights that differ from the run's own stand beside the accuracy at the run's end."""
    before = None if trained is None or trained.weights == result.weights else trained
    named = titles(result.task_names, len(result.weights))
    columns = [
        Column("task", right=not result.task_names),
        *numbers("weight"),
        *numbers("test accuracy", format=accuracy),
    ]
    if before is not None:
        columns += [*numbers("as trained", format=accuracy), *numbers("change", format=gain)]
    rows: list[tuple[object, ...]] = [
        (title, f"{weight:.4g}", *_compared(result, before, TEST.accuracy(task)))
        for task, (title, weight) in enumerate(zip(named, result.weights, strict=True), start=1)
    ]
    rows.append(("mean", None, *_compared(result, before, TEST.final_accuracy)))
    faint = emphasise((place for place, weight in enumerate(result.weights) if weight <= 0), "faint")
    return Table("", columns, rows, {**faint, len(result.weights): "total"})


def _compared(result: CompositionResult, before: CompositionResult | None, metric: str) -> Iterator[Score | float]:
    now = result.summary()[metric]
    yield now
    if before is not None:
        mean_before = before.summary()[metric]
        yield from (mean_before, now.mean - mean_before.mean)


def save_file(directory: RunDirectory, label: str, content: dict[str, Any]) -> Path:
    """Write a result of plain values, whole or not at all; returns the file."""
    path = _file(directory, label)
    path.parent.mkdir(exist_ok=True)
    replace_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return path


def _file(directory: RunDirectory, label: str) -> Path:
    """Return the file of a label; a long label is shortened and gets a hash."""
    if len(label) > _MAX_NAME:
        label = f"{label[: _MAX_NAME - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    earlier = directory.compositions / f"{label}.json"
    # File systems of Windows take no colon. Names of runs have no equals sign.
    return earlier if earlier.exists() else earlier.with_name(earlier.name.replace(":", "="))


def read_compositions(directory: RunDirectory, faults: list[str] | None = None) -> list[CompositionResult]:
    """Return a run's compositions by file name; one that cannot be read is an error, or a line in `faults`."""
    paths = sorted(directory.compositions.glob("*.json")) if directory.compositions.is_dir() else []
    read = []
    for path in (path for path in paths if path.stem != EVALUATION):
        try:
            read.append(read_file(path, CompositionResult))
        except InputError as error:
            if faults is None:
                raise
            faults.append(str(error))
    return [each.model_copy(update={"runs": _with_own_name(each.runs, directory.name)}) for each in read]


def _with_own_name(sources: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the sources of a composition with the name of the run that keeps it, which may have been renamed since.

    That is the first source that is a run and no path; see `find_source` for the tasks behind a colon.
    """
    names = [source.partition(":")[0] for source in sources]
    before = next((each for each in names if "/" not in each), name)
    if name in names:
        return sources
    return _renamed(sources, before, name)


def _renamed(sources: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new + each.removeprefix(old) if each.partition(":")[0] == old else each for each in sources)


def code_change_lines(directory: RunDirectory, result: CompositionResult) -> list[str]:
    """Return a line for each name of the user's code that has changed since other compositions of the run."""
    if not result.code_digests:  # as most, which need not read the others
        return []
    with suppress(InputError):  # a damaged file costs the lines alone
        others = [each for each in read_compositions(directory) if each.label != result.label]
        return [
            f"the code of {name} has changed since these compositions of {directory.name}: {', '.join(made)}"
            for name in result.code_digests
            if (made := [each.label for each in others if name in changed(each.code_digests, result.code_digests)])
        ]
    return []


def code_difference_lines(results: Sequence[CompositionResult]) -> list[str]:
    """Return a line for each name of the user's code that was not the same in all compositions that ran it.

    No file says which of them is older, so the line only sets those apart that ran the same code.
    """
    made: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for name, digest in result.code_digests.items():
            made.setdefault(name, {}).setdefault(digest, []).append(result.label)
    return [
        f"the code of {name} has changed between {' and '.join(', '.join(labels) for labels in groups.values())}"
        for name, groups in made.items()
        if len(groups) > 1
    ]


def with_renamed_run(directory: RunDirectory, old: str, new: str) -> list[CompositionResult]:
    """Return the compositions of a run that name another run, with the new name of that one; see `read_file`."""
    read = read_compositions(directory)
    now = [
        each.model_copy(
            update={
                "runs": _renamed(each.runs, old, new),
                "removal": each.removal and each.removal.with_renamed_run(old, new),
            }
        )
        for each in read
    ]
    return [each for each, before in zip(now, read, strict=True) if each != before]


def read_file(path: Path, kind: type[_Kind]) -> _Kind:
    """Return what a file holds, without what is computed from it; an `InputError` if it cannot be read."""
    try:
        content = read_json(path)
        if isinstance(content, dict):
            content = {name: value for name, value in content.items() if name not in _COMPUTED}
        result = kind.model_validate(content)
    except (OSError, ValueError) as error:  # pydantic raises a ValueError
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
    try:
        result.as_dict()
    except (LookupError, ValueError) as error:
        raise InputError(f"{path}: cannot be read (its tasks and seeds are not as many everywhere)") from error
    return result


def still_answered_line(result: CompositionResult) -> str | None:
    """Return the line about tasks that were left out, and are answered above chance; None without any."""
    found = result.still_answered
    if not found:
        return None
    tasks = _first(
        [f"task {each.task} ({_first(list(map(quoted, each.classes)))}), {each.text()}" for each in found], "; "
    )
    return f"Still answered: {tasks}. The classes of a task that is left out stay in the classifier."


def _first(texts: Sequence[str], between: str = ", ") -> str:
    more = [f"{len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return between.join([*texts[:_NAMED], *more])
