"""The reference of a benchmark: its name or the path of its images, and the changes of its protocol.

The text form, `NAME?key=value&key=value`, is the same in the command line, specifications of runs, best files, MLflow
and workers. Equal texts are equal benchmarks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from trainables.errors import InputError

FOLDER, PARQUET = "folder:", "parquet:"
_BOUNDS = {  # as in `checked_input.bounds`: the two packages must not import each other
    "tasks": (1, 100_000),
    "classes_per_task": (2, 100_000),
    "class_order": (0, 2**32 - 1),
    "epochs": (1, 100_000),
    "max_image_bytes": (1, 2**31),
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
        given = {key: value for key, value in options.items() if value is not None}
        ref = replace(self, **given)
        for key, (least, most) in _BOUNDS.items():
            value = getattr(ref, key)
            if value is not None and not least <= value <= most:
                raise InputError(f"benchmark {ref.name!r}: {key} must be from {least} to {most}, got {value}")
        if ref.tasks is not None and ref.classes_per_task is not None:
            raise InputError(f"benchmark {ref.name!r}: give tasks or classes_per_task, not both")
        return ref

    @property
    def path(self) -> str | None:
        """The path in `folder:PATH` and `parquet:PATH`; None for other benchmarks."""
        for kind in (FOLDER, PARQUET):
            if self.name.startswith(kind):
                return self.name.removeprefix(kind)
        return None

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
        path = self.path
        short = self.name if path is None else f"{self.name.partition(':')[0]}-{os.path.basename(path)}"
        text = str(replace(self, name=short))
        return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:60].rstrip("-._")


OPTIONS = tuple(each.name for each in fields(BenchmarkRef) if each.name != "name")


def _typed(text: str, key: str, value: str) -> int | str | bool:
    if key == "variant":
        if not re.fullmatch(r"[a-z0-9-]+", value):
            raise InputError(f"benchmark {text!r}: variant must be letters, digits and '-', got {value!r}")
        return value
    if key == "label_column":
        if not value or "?" in value:
            raise InputError(f"benchmark {text!r}: label_column must be the name of a column, got {value!r}")
        return value
    if key in ("partial", "skip_broken"):
        if value != "yes":
            raise InputError(f"benchmark {text!r}: {key} must be 'yes' or left out, got {value!r}")
        return True
    if not re.fullmatch("[0-9]{1,12}", value):
        raise InputError(f"benchmark {text!r}: {key} must be a whole number, got {value!r}")
    return int(value)


def _absolute(name: str) -> str:
    for kind in (FOLDER, PARQUET):
        if name.startswith(kind):
            path = name.removeprefix(kind)
            if not path:
                raise InputError(f"benchmark {name!r}: needs a path after {kind!r}")
            return kind + os.path.abspath(os.path.expanduser(path))
    return name
