"""The reference of a benchmark: its name or the path of its images, and the changes of its protocol.

The text form, `NAME?key=value&key=value`, is the same in the command line, specifications of runs, best files, MLflow
and workers. Equal texts are equal benchmarks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import quote, unquote

from checked_input.names import choices
from checked_input.ranges import BATCH, CLASSES_PER_TASK, EPOCHS, IMAGE_BYTES, SEED, TASKS
from trainables.errors import InputError, faults_of
from trainables.task_names import NamedTask, names_of, task_names_fault, text_of
from trainables.user_code import file_name, installed, is_code

FOLDER, PARQUET = "folder:", "parquet:"
_LONGEST_SLUG = 60  # characters
_RANGES = {
    "tasks": TASKS,
    "classes_per_task": CLASSES_PER_TASK,
    "class_order": SEED,
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "max_image_bytes": IMAGE_BYTES,
}


@dataclass(frozen=True, kw_only=True)
class BenchmarkRef:
    """A benchmark by its name, with options; None keeps the benchmark's own value."""

    name: str  # known, `folder:PATH`, `parquet:PATH` (absolute paths), `MODULE:NAME`, or an installed package's
    tasks: int | None = None  # T
    classes_per_task: int | None = None  # at most; instead of `tasks`
    class_order: int | tuple[str, ...] | None = None  # seed of a random order, or all names; None keeps label order
    task: tuple[NamedTask, ...] | None = None  # the classes of each task, in order; instead of the three above
    epochs: int | None = None  # of fine-tuning per task
    batch_size: int | None = None  # examples per optimiser step
    variant: str | None = None  # of a published dataset
    partial: bool = False  # accepts a copy with fewer images than the published dataset
    skip_broken: bool = False  # leaves out unreadable images
    max_image_bytes: int | None = None  # of an image file on disk; None is `decoding.MOST_BYTES`
    label_column: str | None = None  # of Parquet files; None finds the column by its name

    @classmethod
    def parse(cls, text: str) -> BenchmarkRef:
        """Return the reference for a text, with absolute paths; any name passes, a wrong option is an InputError."""
        name, _, query = text.partition("?")
        options: dict[str, Any] = {}
        for part in query.split("&") if query else []:
            key, equals, value = part.partition("=")
            if key not in OPTIONS:
                raise InputError(f"benchmark {text!r}: unknown option {part!r}; {choices(key, OPTIONS)}")
            if not equals:
                raise InputError(f"benchmark {text!r}: option {key!r} has no value; write {key}=...")
            if key == "task":
                with faults_of(f"benchmark {name!r}"):
                    options[key] = (*options.get(key, ()), NamedTask.parse(value))
                continue
            if key in options:
                raise InputError(f"benchmark {text!r}: option {key!r} is given twice")
            options[key] = _typed(text, key, value)
        return cls(name=_absolute(name)).with_options(**options)

    def with_options(self, **options: Any) -> BenchmarkRef:
        """Return the reference with the options that are not None; wrong or contradicting values are an InputError."""
        ref = replace(self, **{key: value for key, value in options.items() if value is not None})
        for key, limits in _RANGES.items():
            value = getattr(ref, key)
            if value is not None and not isinstance(value, tuple) and (fault := limits.fault(value)):
                raise InputError(f"benchmark {ref.name!r}: {key} {fault}")
        if ref.tasks is not None and ref.classes_per_task is not None:
            raise InputError(f"benchmark {ref.name!r}: give tasks or classes_per_task, not both")
        if ref.task is not None:
            _require_tasks(ref)
        return ref

    def require_said_once(self, **options: Any) -> None:
        """Refuse given options, not None, with other values in the reference, by an InputError with a line for each."""
        faults = []
        for key, value in options.items():
            said = getattr(self, key)
            if value is not None and said is not None and said is not False and value != said:
                option = f"--{key.replace('_', '-')} {_text(value)}"
                faults.append(f"{option}: benchmark {str(self)!r} has {key}={_text(said)}; give it once")
        if faults:
            raise InputError(*faults)

    @property
    def path(self) -> str | None:
        """The path in `folder:PATH` and `parquet:PATH`; None for other benchmarks."""
        return self.name.partition(":")[2] if self.name.startswith((FOLDER, PARQUET)) else None

    @property
    def in_code(self) -> bool:
        """Whether the name is `MODULE:NAME`, or one that an installed package brings."""
        return is_code(self.name) or self.name in installed("benchmark")

    @property
    def is_own(self) -> bool:
        """Whether the benchmark is the user's own, in files or in code: no hyperparameters are published for it."""
        return self.path is not None or self.in_code

    def __str__(self) -> str:
        values = [(key, getattr(self, key)) for key in OPTIONS if key != "task"]
        given = [f"{k}={_text(v)}" for k, v in values if v is not None and v is not False]
        given += [f"task={task}" for task in self.task or ()]
        return f"{self.name}?{'&'.join(given)}" if given else self.name

    @property
    def slug(self) -> str:
        """A short form for the names of runs and files, of letters, digits, `.`, `_` and `-`."""
        short = self.name if self.path is None else f"{self.name.partition(':')[0]}-{os.path.basename(self.path)}"
        return file_name(str(replace(self, name=short)))[:_LONGEST_SLUG].rstrip("-._")


def slug_of(refs: Iterable[BenchmarkRef]) -> str:
    """Return a short form of the benchmarks of a search, as that of one."""
    return "-".join(ref.slug for ref in refs)[:_LONGEST_SLUG].rstrip("-._")


_SEPARATORS = str.maketrans({char: quote(char) for char in "%&?"})  # which a column's name may have
_ENCODED = re.compile("%25|%26|%3F", re.IGNORECASE)  # no other, so that a name such as c%20d is read as it is written
OPTIONS = tuple(each.name for each in fields(BenchmarkRef) if each.name != "name")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) if all(isinstance(each, NamedTask) for each in value) else text_of(value)
    return "yes" if value is True else str(value).translate(_SEPARATORS)


def _require_tasks(ref: BenchmarkRef) -> None:
    """Refuse options beside explicit tasks that would form other tasks, and two tasks of one name."""
    for option in ("tasks", "classes_per_task", "class_order"):
        if getattr(ref, option) is not None:
            raise InputError(f"benchmark {ref.name!r}: task says which classes form a task, so {option} cannot, too")
    if fault := task_names_fault([task.name for task in ref.task or ()]):
        raise InputError(f"benchmark {ref.name!r}: {fault}")


def _typed(text: str, key: str, value: str) -> int | str | bool | tuple[str, ...]:
    if key == "class_order" and "," in value:
        return names_of(value)
    if key == "variant":
        valid, allowed = bool(re.fullmatch(r"[a-z0-9-]+", value)), "letters, digits and '-'"
    elif key == "label_column":
        valid, allowed = value != "" and "?" not in value, "the name of a column, with %3F for ?"
    elif key in ("partial", "skip_broken"):
        valid, allowed = value == "yes", "'yes' or left out"
    else:
        valid, allowed = bool(re.fullmatch("[0-9]{1,12}", value)), "a whole number"
        if key == "class_order":  # one name alone has no comma, and no order has one name
            allowed = "a seed, or the names of all classes with commas between them"
    if not valid:
        raise InputError(f"benchmark {text!r}: {key} must be {allowed}, got {value!r}")
    if key in _RANGES:
        return int(value)
    if key == "label_column":
        return _ENCODED.sub(lambda match: unquote(match[0]), value)
    return True if key in ("partial", "skip_broken") else value


def _absolute(name: str) -> str:
    if not name.startswith((FOLDER, PARQUET)):
        return name
    kind, _, path = name.partition(":")
    if not path:
        raise InputError(f"benchmark {name!r}: needs a path after '{kind}:'")
    return f"{kind}:/{os.path.abspath(os.path.expanduser(path)).lstrip('/')}"  # abspath keeps two slashes at the start
