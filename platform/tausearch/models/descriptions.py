"""`model.json`: the description beside a final run's task vectors, or beside an exported model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt, ValidationError

from checked_input.names import choices, counted
from checked_input.ranges import WEIGHT, text_fault
from checked_input.schema import UNUSED, Strict, first_fault
from checked_input.text_files import TextFileError, read_json
from tausearch.models.merge_configs import LINEAR
from tausearch.models.removal.report import RemovalReport
from tausearch.models.results import ExportForm, StillAnswered, still_answered
from tausearch.runs import DataFacts, ExperimentProtocol, Score, replace_text
from trainables.composition import RULES
from trainables.data import TransformSpec
from trainables.errors import InputError
from trainables.task_names import NamedTask, class_names_fault, named_tasks
from trainables.user_code import BY_CODE, code_among, file_name, installed, is_code

DESCRIPTION_FILE = "model.json"
_LIBRARIES = ("tausearch", "torch", "timm", "peft")


class ModelDescription(Strict):
    """Description of a learned model."""

    form: ExportForm = "vectors"  # the kind of model in the folder; see `EXPORT_FORMS`
    benchmark: str  # name of the benchmark, as `trainables.data.BenchmarkRef` reads it
    protocol: ExperimentProtocol  # the protocol of the training runs; its digest is that of theta_0
    runs: tuple[str, ...]
    methods: tuple[str, ...]
    class_names: tuple[str, ...] = ()  # the names of all classes, in class order; empty where unknown
    tasks: tuple[int, ...] = ()  # number of classes of each task, in order; empty where unknown
    task_names: tuple[str | None, ...] = ()  # each task's own name, None for a task without one; empty where unknown
    transform: TransformSpec | None = None  # of test images; None where unknown, or the benchmark's own code
    weights: tuple[float, ...] = ()  # of an exported composition; empty for the run's own, which are equal
    rule: str = LINEAR
    rule_parameters: dict[str, float] = {}
    accuracies: dict[int, tuple[float, ...]] = {}  # of each seed on each task's test images, percent, of all classes
    test_images: tuple[PositiveInt, ...] = ()  # number of test images of each task; empty where unknown
    images: Annotated[DataFacts | None, UNUSED] = None  # of the first run; None where unknown, and after `--forget`
    removal: RemovalReport | None = None  # by `--forget`, without names; tasks and classes are those that are left
    code_digests: Annotated[dict[str, str], UNUSED] = {}  # as of a `CompositionResult`, or of the run
    version: str = Field(default_factory=lambda: version("tausearch"))  # the version of tausearch that wrote the file
    versions: dict[str, str] = Field(default_factory=lambda: {name: version(name) for name in _LIBRARIES})

    def save(self, folder: Path) -> None:
        """Write `model.json` into a folder."""
        replace_text(folder / DESCRIPTION_FILE, self.model_dump_json(indent=2) + "\n")

    @property
    def code(self) -> tuple[str, ...]:
        """The code of the user, `MODULE:NAME`, that is imported to load the model; that of its methods is not."""
        rule = (self.rule,) if self.form == "vectors" else ()  # the others are composed already
        own_transform = () if self.transform is not None else (self.benchmark,)
        return code_among((self.protocol.backbone, *rule, *own_transform))

    @property
    def classes_by_task(self) -> list[tuple[str, ...]]:
        """The names of the classes of each task."""
        names = iter(self.class_names)
        return [tuple(next(names) for _ in range(count)) for count in self.tasks]

    @property
    def named_tasks(self) -> tuple[NamedTask, ...]:
        """The tasks by the names of their classes, and their own names."""
        return named_tasks(self.classes_by_task, self.task_names)

    @property
    def still_answered(self) -> tuple[StillAnswered, ...]:
        """The tasks that were left out of the composition, and are still answered; see `StillAnswered`."""
        if self.removal is not None:
            return ()
        rows = tuple(self.accuracies.values())
        return still_answered(self.weights, rows, self.classes_by_task)

    def accuracy(self, task: int) -> Score | None:
        """Return the accuracy on a task, from 1, over the seeds; None if not measured."""
        return Score.of([row[task - 1] for row in self.accuracies.values()]) if self.accuracies else None

    @property
    def final_accuracy(self) -> Score | None:
        """The mean accuracy over tasks, over the seeds; None if not measured."""
        return Score.of([sum(row) / len(row) for row in self.accuracies.values()]) if self.accuracies else None


def read_description(folder: Path) -> ModelDescription:
    """Return the description of a folder; a missing or wrong file is an `InputError`."""
    path = folder / DESCRIPTION_FILE
    if not path.is_file():
        of_export = folder / "vectors"
        hint = f"; those of this export: {of_export}" if (of_export / DESCRIPTION_FILE).is_file() else ""
        raise InputError(f"{folder}: has no {DESCRIPTION_FILE}, which describes its vectors{hint}")
    try:
        description = ModelDescription.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: {first_fault(error)}") from error
    except (OSError, TextFileError) as error:
        raise InputError(f"{path}: {error}") from error
    if fault := _fault(description):
        raise InputError(f"{path}: {fault}")
    return description


def _fault(description: ModelDescription) -> str | None:
    if description.transform is not None and description.transform.fault:
        return f"transform: {description.transform.fault}"
    if not description.tasks or min(description.tasks) < 1 or sum(description.tasks) != len(description.class_names):
        return f"names {counted(len(description.class_names), 'class')}, but its tasks have {sum(description.tasks)}"
    if fault := class_names_fault(description.class_names):
        return f"class_names: {fault}"
    if len(description.task_names) not in (0, len(description.tasks)):
        return f"names {counted(len(description.task_names), 'task')} of {len(description.tasks)}"
    if fault := next(filter(None, map(text_fault, filter(None, description.task_names))), None):
        return f"task_names: {fault}"
    if len(description.weights) not in (0, len(description.tasks)) or any(map(WEIGHT.fault, description.weights)):
        return f"weights must be one for each of {counted(len(description.tasks), 'task')}, each {WEIGHT.words}"
    if fault := _rule_fault(description.rule, description.rule_parameters, merged=description.form != "vectors"):
        return fault
    for row in description.accuracies.values():
        if len(row) != len(description.tasks) or not all(0 <= value <= 100 for value in row):
            return f"accuracies must be one from 0 to 100 for each of {counted(len(description.tasks), 'task')}"
    return None


def has_description(folder: Path) -> bool:
    """Whether a folder has a description."""
    return (folder / DESCRIPTION_FILE).is_file()


def _rule_fault(rule: str, parameters: Mapping[str, float], *, merged: bool) -> str | None:
    """Return the fault of a rule of ours, or of a name that stands for nothing; other rules are code, not run here.

    What is `merged` already needs no rule: it may be one of a package that is not here.
    """
    if rule not in RULES:
        known = is_code(rule) or rule in installed("rule") or (merged and rule == file_name(rule) != "")
        allowed = choices(rule, (*RULES, *installed("rule")), BY_CODE)
        return None if known else f"unknown rule {rule!r}; {allowed}; if a package brought it, install the package"
    declared = RULES[rule].parameters
    if other := sorted(parameters.keys() ^ declared.keys()):
        return f"rule_parameters of {rule} must be {', '.join(declared) or 'none'}, not so {other[0]!r}"
    return next((f"{name} {fault}" for name, each in declared.items() if (fault := each.fault(parameters[name]))), None)
