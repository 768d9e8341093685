"""Tasks by what they mean: the classes of a task, its own name, and the text form of both."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from checked_input.names import meant
from checked_input.ranges import text_fault
from checked_input.text_files import shown
from trainables.errors import InputError

_LONGEST_NAME = 60  # characters of a task's own name
_LONGEST_LABEL = 24  # characters of the classes that stand for a name
_PLAIN = " -_.+()"  # what a class name keeps in a reference, besides letters and digits
_UNPRINTABLE = re.compile("[\u00a0\u200c\u200d\u3000]")  # for Python, but spaces and joiners of some scripts
_SHOWN = 10  # names that a line lists


@dataclass(frozen=True)
class NamedTask:
    """A task of the user's: the names of its classes, in order, and its own name; None without one."""

    classes: tuple[str, ...]
    name: str | None = None

    @classmethod
    def parse(cls, text: str) -> NamedTask:
        """Return the task of a text `NAME=class,class` or `class,class`; `%2C` and `%3D` are `,` and `=` in a name.

        A class name with a comma may stand in single quotes instead.

        Raises:
            InputError: If a class or the name is missing, or no name is possible.
        """
        name, named, classes = text.partition("=")
        task = cls(names_of(classes if named else text), unquote(name) if named else None)
        if fault := task.fault:
            number = f"; for a number of tasks: tasks={text}" if text.isdecimal() else ""
            raise InputError(f"task {text!r}: {fault}{number}")
        return task

    def __str__(self) -> str:
        classes = ",".join(map(_encoded, self.classes))
        return classes if self.name is None else f"{_encoded(self.name)}={classes}"

    @property
    def fault(self) -> str | None:
        """Return why this is no task; None for a task. Whether the classes exist is checked with the benchmark."""
        if len(self.classes) < 2 or not all(self.classes):
            return "must be at least 2 class names with commas between them, such as NAME=zebra,horse"
        return task_names_fault([self.name])

    @property
    def label(self) -> str:
        """The task's own name, or else its classes, shortened: `zebra, 'lion, male' + 18 more`."""
        if self.name is not None:
            return self.name
        whole = ", ".join(map(_in_label, self.classes))
        if len(whole) <= _LONGEST_LABEL:
            return whole
        first, count = _in_label(shortened(self.classes[0])), 1
        for name in map(_in_label, self.classes[1:]):
            if len(first) + len(name) + 2 > _LONGEST_LABEL - 10:
                break
            first, count = f"{first}, {name}", count + 1
        return f"{first} + {len(self.classes) - count} more"

    @property
    def words(self) -> str:
        """The task with all that a line has room for: `animals (zebra, horse)`."""
        return self.label if self.name is None else f"{self.name} ({NamedTask(self.classes).label})"


def task_names_fault(names: Sequence[str | None]) -> str | None:
    """Return why tasks cannot have these names of their own, None for a task without one; None if they can."""
    own = [name for name in names if name is not None]
    for name in own:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            return f"the name of a task must have 1 to {_LONGEST_NAME} printable characters, got {shown(name)}"
        if name.isdecimal() or "," in name:
            return (
                "the name of a task must not be a number, and have no comma: `compose --drop` takes both as well,"
                f" got {shown(name)}"
            )
    if repeated := [name for name in own if own.count(name) > 1]:
        return f"two tasks are named {repeated[0]!r}"
    return None


def class_names_fault(names: Sequence[str]) -> str | None:
    """Return why classes cannot have these names; None if they can."""
    for name in names:
        if not isinstance(name, str):
            return f"the name of a class must be a text, got {shown(name)}"
        if fault := text_fault(_UNPRINTABLE.sub(" ", name)):
            return f"the name of a class {fault}"
    forms = list(map(_form, names))
    if len(set(forms)) < len(forms):
        twice = next(place for place, form in enumerate(forms) if form in forms[:place])
        how = "" if names[twice] in names[:twice] else " in two Unicode forms; merge the two"
        return f"the names of classes must be different, {shown(names[twice])} is there twice{how}"
    return None


def same_letters(name: str, names: Collection[str]) -> str:
    """Return the name among `names` that has the same letters, or else the given one.

    In folders of a Mac, `ä` is a letter and a mark; keyboards and files have one sign that looks alike.
    """
    if name.isascii() or name in names:
        return name
    return next((each for each in names if _form(each) == _form(name)), name)


def _form(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def named_tasks(groups: Sequence[tuple[str, ...]], names: Sequence[str | None]) -> tuple[NamedTask, ...]:
    """Return the tasks of groups of classes; `names` are their own names, empty if no task has one."""
    own = names or (None,) * len(groups)
    return tuple(NamedTask(group, name) for group, name in zip(groups, own, strict=True))


def in_full(tasks: Sequence[NamedTask]) -> list[str]:
    """Return the tasks with their numbers, in all words that a line has room for: `1: animals (zebra, horse)`."""
    return [f"{number}: {task.words}" for number, task in enumerate(tasks, start=1)]


def titles(labels: Sequence[str], count: int) -> list[str]:
    """Return the titles of tasks 1 to `count` for tables and figures: `2: animals`, or `2` where names are unknown."""
    return [f"{task}: {labels[task - 1]}" if task <= len(labels) else str(task) for task in range(1, count + 1)]


def shortened(name: str) -> str:
    """Return a class name that fits a label."""
    return name if len(name) <= _LONGEST_LABEL - 10 else f"{name[: _LONGEST_LABEL - 11]}…"


def quoted(name: str) -> str:
    """Return a name as it stands among others with commas between them: in quotes if it has a comma itself."""
    return "'" + name.replace("'", "''") + "'" if "," in name or name.startswith("'") else name


def _in_label(name: str) -> str:
    """Return a name as people read it among others: a quotation mark of its own stays single."""
    return quoted(name) if "," in name else name


def split_names(text: str) -> list[str]:
    """Return the names that a user gives with commas between them; a name with a comma stands in single quotes."""
    line = " ".join(text.splitlines())
    return [part.strip() for part in next(csv.reader([line], quotechar="'", skipinitialspace=True), [])]


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas between them; a comma in a name is `%2C`, or the name stands in quotes."""
    return tuple(map(unquote, split_names(text)))


def text_of(names: Iterable[str]) -> str:
    """Return the text that `names_of` reads."""
    return ",".join(map(_encoded, names))


def listed(names: Sequence[str]) -> str:
    """Return names in a line, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(map(repr, names[:_SHOWN]))}{more}"


def numbered(tasks: Sequence[int]) -> str:
    """Return the numbers of tasks with their noun: `task 3`, `tasks 1, 2`."""
    return f"task{'s' if len(tasks) > 1 else ''} {', '.join(map(str, tasks))}"


def require_known(where: str, given: Sequence[str], names: Sequence[str], *, all_of_them: bool) -> tuple[str, ...]:
    """Return the given names as `names` has them; unknown, repeated or missing ones are an InputError at `where`."""
    given = tuple(same_letters(name, names) for name in given)
    if unknown := [name for name in dict.fromkeys(given) if name not in names]:
        others = meant(unknown[0], names, quoted) or f"; classes are {listed(list(map(quoted, names)))}"
        typed = " (in an option, type %3D for = and %25 for %)" if set("=%") & set(others) else ""
        raise InputError(f"{where}: there is no class {listed(unknown)}{others}{typed}")
    if repeated := [name for name in dict.fromkeys(given) if given.count(name) > 1]:
        raise InputError(f"{where}: class {listed(repeated)} is given twice")
    if all_of_them and (missing := [name for name in names if name not in set(given)]):
        raise InputError(f"{where}: must name all {len(names)} classes; missing: {listed(missing)}")
    return given


def _encoded(name: str) -> str:
    """Return a name without the characters that separate, and without spaces at its ends, which readers cut off.

    Letters of any script stay, with their marks.
    """
    first, end = len(name) - len(name.lstrip(" ")), len(name.rstrip(" "))
    kept = (_stays(char) and first <= place < end for place, char in enumerate(name))
    pairs = zip(name, kept, strict=True)
    return "".join(char if stays else "".join(f"%{byte:02X}" for byte in char.encode()) for char, stays in pairs)


def _stays(char: str) -> bool:
    return char.isalnum() or char in _PLAIN or unicodedata.category(char).startswith("M")


def task_called(option: str, given: int | str, tasks: Sequence[NamedTask]) -> int:
    """Return the number of a task, from 1, for it, its own name or a class of it; none or several such: InputError."""
    if isinstance(given, int) or re.fullmatch("[0-9]{1,9}", given):
        return int(given)  # the range is checked with the other numbers
    for matches in (
        [number for number, task in enumerate(tasks, start=1) if given in (task.name, task.label)],
        [number for number, task in enumerate(tasks, start=1) if given in task.classes],
    ):
        if len(matches) > 1:
            raise InputError(f"--{option}: {shown(given)} is the label of {numbered(matches)}; give the number")
        if matches:
            return matches[0]
    known = [name for task in tasks for name in ([task.name] if task.name else task.classes)]
    suggested = meant(given, [*known, *(name for task in tasks for name in task.classes)], quoted)
    others = suggested or f"; tasks are {listed([task.label for task in tasks])}"
    raise InputError(f"--{option}: there is no task {shown(given)}{others}")
