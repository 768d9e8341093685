"""The reference of a benchmark: its name or the path of its images, and the changes of its protocol.

The text form, `NAME?key=value&key=value`, is the same in the command line, specifications of runs, best files, MLflow
and workers. Equal texts are equal benchmarks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from checked_input.bounds import CLASSES_PER_TASK, EPOCHS, SEED, TASKS, Bounds
from trainables.errors import InputError

FOLDER, PARQUET = "folder:", "parquet:"
_BOUNDS = {
    "tasks": TASKS,
    "classes_per_task": CLASSES_PER_TASK,
    "class_order": SEED,
    "epochs": EPOCHS,
    "max_image_bytes": Bounds(1, 2**31),
}
_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class BenchmarkRef:
    """A benchmark by its name, with options; None keeps the benchmark's own value."""

    name: str  # known, `folder:PATH`, `parquet:PATH` (absolute paths) or `MODULE:NAME`
    tasks: int | None = None  # T
    classes_per_task: int | None = None  # at most; instead of `tasks`
    class_order: int | None = None  # seed of a random class order; None keeps label order
    epochs: int | None = None  # of fine-tuning per task
    variant: str | None = None  # of a published dataset
    partial: bool = False  # accepts a copy with fewer images than the published dataset
    skip_broken: bool = False  # leaves out unreadable images
    max_image_bytes: int | None = None  # of an image file on disk; None is `decoding.MOST_BYTES`
    label_column: str | None = None  # of Parquet files; None finds the column by its name

    @classmethod
    def parse(cls, text: str) -> BenchmarkRef:
        """Return the reference for a text form, with absolute paths; an unknown name passes.

        Raises:
            InputError: If an option is unknown, or its value is wrong.
        """
        name, _, query = text.partition("?")
        options: dict[str, Any] = {}
        for part in query.split("&") if query else []:
            key, equals, value = part.partition("=")
            if key not in OPTIONS or not equals:
                raise InputError(f"benchmark {text!r}: unknown option {part!r}; allowed: {', '.join(OPTIONS)}")
            if key in options:
                raise InputError(f"benchmark {text!r}: option {key!r} is given twice")
            options[key] = _typed(text, key, value)
        return cls(name=_absolute(name)).with_options(**options)

    def with_options(self, **options: Any) -> BenchmarkRef:
        """Return the reference with the options that are not None.

        Raises:
            InputError: If a value is out of range, or two options contradict each other.
        """
        ref = replace(self, **{key: value for key, value in options.items() if value is not None})
        for key, bounds in _BOUNDS.items():
            value = getattr(ref, key)
            if value is not None and (fault := bounds.fault(value)):
                raise InputError(f"benchmark {ref.name!r}: {key} {fault}")
        if ref.tasks is not None and ref.classes_per_task is not None:
            raise InputError(f"benchmark {ref.name!r}: give tasks or classes_per_task, not both")
        return ref

    @property
    def path(self) -> str | None:
        """The path in `folder:PATH` and `parquet:PATH`; None for other benchmarks."""
        return self.name.partition(":")[2] if self.name.startswith((FOLDER, PARQUET)) else None

    @property
    def is_module(self) -> bool:
        """Whether the name has the form `MODULE:NAME`."""
        return self.path is None and _MODULE.fullmatch(self.name) is not None

    def __str__(self) -> str:
        values = [(key, getattr(self, key)) for key in OPTIONS]
        given = [f"{k}={'yes' if v is True else v}" for k, v in values if v is not None and v is not False]
        return f"{self.name}?{'&'.join(given)}" if given else self.name

    @property
    def slug(self) -> str:
        """A short form for the names of runs and files, of letters, digits, `.`, `_` and `-`."""
        short = self.name if self.path is None else f"{self.name.partition(':')[0]}-{os.path.basename(self.path)}"
        text = str(replace(self, name=short))
        return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:60].rstrip("-._")


OPTIONS = tuple(each.name for each in fields(BenchmarkRef) if each.name != "name")


def _typed(text: str, key: str, value: str) -> int | str | bool:
    if key == "variant":
        valid, allowed = bool(re.fullmatch(r"[a-z0-9-]+", value)), "letters, digits and '-'"
    elif key == "label_column":
        valid, allowed = value != "" and "?" not in value, "the name of a column"
    elif key in ("partial", "skip_broken"):
        valid, allowed = value == "yes", "'yes' or left out"
    else:
        valid, allowed = bool(re.fullmatch("[0-9]{1,12}", value)), "a whole number"
    if not valid:
        raise InputError(f"benchmark {text!r}: {key} must be {allowed}, got {value!r}")
    if key in _BOUNDS:
        return int(value)
    return True if key in ("partial", "skip_broken") else value


def _absolute(name: str) -> str:
    if not name.startswith((FOLDER, PARQUET)):
        return name
    kind, _, path = name.partition(":")
    if not path:
        raise InputError(f"benchmark {name!r}: needs a path after '{kind}:'")
    return f"{kind}:{os.path.abspath(os.path.expanduser(path))}"
