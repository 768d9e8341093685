"""The classes that `--forget` names, by class name or task number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checked_input.names import meant, near
from checked_input.text_files import shown
from trainables.data import BenchmarkSpec, Removal
from trainables.errors import Faults, InputError
from trainables.task_names import quoted, same_letters, split_names

_TYPED = re.compile(r"(class|task):(.+)")
_SUGGESTED = 3


def removal_of(wanted: Sequence[str], spec: BenchmarkSpec) -> Removal:
    """Return the removal of some classes: names of classes, or numbers or names of tasks, with commas between them.

    `class:NAME` and `task:NUMBER` (or its name) say which of the two is meant; a text with a comma inside a name stands
    in single quotes.

    Raises:
        InputError: If there is no such class or task, a text means both, one is named twice, or no class is left.
    """
    found: list[int] = []
    faults = Faults()
    for text in wanted:
        whole = same_letters(text, spec.class_names)
        for part in [whole] if whole in spec.class_names else split_names(text):
            with faults:
                found += _classes(part, spec)
    faults.raise_all()
    if not found:
        raise InputError("--forget: name a class or the number of a task")
    if len(set(found)) < len(found):
        twice = next(c for c in found if found.count(c) > 1)
        raise InputError(f"--forget: names {shown(spec.class_names[twice])} twice")
    if len(found) == len(spec.class_names):
        raise InputError(f"--forget: leaves no class of {len(found)}")
    return Removal(spec.task_classes, frozenset(found))


def _classes(text: str, spec: BenchmarkSpec) -> Sequence[int]:
    match = _TYPED.fullmatch(text)
    kind, name = (match[1], match[2]) if match and text not in spec.class_names else (None, text)
    tasks = {str(number): classes for number, classes in enumerate(spec.task_classes, start=1)}
    tasks |= {task.name: place for task, place in zip(spec.named_tasks, spec.task_classes, strict=True) if task.name}
    name = same_letters(name, [*spec.class_names, *tasks])
    is_class, is_task = name in spec.class_names and kind != "task", name in tasks and kind != "class"
    if is_class and is_task:
        raise InputError(f"--forget: {name} is a class and a task; write class:{name} or task:{name}")
    if is_class:
        return [spec.class_names.index(name)]
    if is_task:
        return tasks[name]
    own = [task.name for task in spec.named_tasks if task.name]
    named = _like(name, own)
    tasks_of = f"1 to {spec.num_tasks}{f' or {named}' if named else ''}"
    raise InputError(
        f"--forget: there is no {kind or 'class or task'} {shown(name)}; classes: {_like(name, spec.class_names)};"
        f" tasks: {tasks_of}{meant(name, [*spec.class_names, *own], quoted)}"
    )


def _like(name: str, names: Sequence[str]) -> str:
    """Return some names, those like a mistyped one first, with dots where there are more."""
    listed = list(dict.fromkeys([*near(name, names), *names]))[:_SUGGESTED]
    return ", ".join([*map(quoted, listed), *(["..."] if len(names) > len(listed) else [])])
