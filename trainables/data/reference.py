"""What a benchmark is called: its name, or where its images lie, and what departs from its own protocol.

The one text form, `NAME?key=value&key=value`, is what the command line, a run's specification, a best file, MLflow and
a worker carry. Equal texts are equal benchmarks.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from trainables.errors import InputError

FOLDER, PARQUET = "folder:", "parquet:"
_BOUNDS = {
    "tasks": (1, 100_000),
    "classes_per_task": (2, 100_000),
    "class_order": (0, 2**32 - 1),
    "epochs": (1, 100_000),
}
_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class BenchmarkRef:
    """A benchmark by its name, with the options that change it.

    Attributes:
        name: A known name, `folder:PATH`, `parquet:PATH` (absolute paths) or `MODULE:NAME`.
        tasks: Number of tasks, T, in place of the benchmark's own.
        classes_per_task: At most so many classes in a task; in place of `tasks`.
        class_order: Seed of a random class order; None keeps label order.
        epochs: Epochs of fine-tuning per task, in place of the benchmark's own.
        variant: Name of a variant, for a published dataset that has several.
        partial: Whether a copy with fewer images than the published dataset will do.
        skip_broken: Whether images on disk that cannot be read are left out.
        label_column: The column of a Parquet file that has the labels; None finds it by its name.
    """

    name: str
    tasks: int | None = None
    classes_per_task: int | None = None
    class_order: int | None = None
    epochs: int | None = None
    variant: str | None = None
    partial: bool = False
    skip_broken: bool = False
    label_column: str | None = None

    @classmethod
    def parse(cls, text: str) -> BenchmarkRef:
        """Read the text form; nothing is looked up.

        Returns:
            The reference to the benchmark, with paths made absolute.

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
        """Return it with some options set; those that are None stay as they are.

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
        """A short form of letters, digits, `.`, `_` and `-`, for the names of runs and files."""
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
