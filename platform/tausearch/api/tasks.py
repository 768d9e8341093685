"""Classes by name as users give them: an order of all classes, and the classes of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checked_input.text_files import TextFileError, read_text, shown
from checked_input.yaml_text import read_yaml
from trainables.errors import InputError
from trainables.task_names import NamedTask, names_of


def class_order_of(given: Sequence[str] | int | str | None) -> int | tuple[str, ...] | None:
    """Return the class order of a request: a seed, or names in a list, a text or a file; None for that of labels."""
    if given is None or given == "label":
        return None
    if isinstance(given, int):
        return given
    if not isinstance(given, str):
        return tuple(map(str, given))
    if "," in given:
        return names_of(given)
    try:
        lines = read_text(Path(given)).splitlines()
    except FileNotFoundError:
        raise InputError(
            "--class-order must be 'label' or a seed, names of classes with commas between them, or a file of names,"
            f" got {shown(given)}"
        ) from None
    except TextFileError as error:
        raise InputError(f"--class-order {given}: {error}") from error
    return tuple(line.strip() for line in lines if line.strip())


def tasks_of(given: Sequence[str] | None) -> tuple[NamedTask, ...] | None:
    """Return the tasks of a request: a text for each, or one YAML file with all."""
    if given is None:
        return None
    if not given:
        raise InputError("--task must be at least one task")
    texts = list(map(str, given))  # a file may be a `Path`
    if len(texts) == 1 and "," not in texts[0]:
        return _of_file(texts[0])
    try:
        return tuple(map(NamedTask.parse, texts))
    except InputError as error:
        raise InputError(f"--{error}") from error


def _of_file(name: str) -> tuple[NamedTask, ...]:
    try:
        content = read_yaml(Path(name), as_texts=True)
    except FileNotFoundError:
        if Path(name).suffix in (".yaml", ".yml"):
            raise InputError(f"--task {name}: there is no such file") from None
        raise InputError(
            "--task must be class names with commas between them, such as animals=zebra,horse, or a YAML file, got"
            f" {shown(name)}"
        ) from None
    except TextFileError as error:
        raise InputError(f"--task {name}: {error}") from error
    entries = list(content.items()) if isinstance(content, dict) else [(None, each) for each in _list(name, content)]
    if not entries:
        raise InputError(f"--task {name}: has no tasks")
    return tuple(_of_entry(name, title, classes) for title, classes in entries)


def _of_entry(file: str, title: str | None, classes: object) -> NamedTask:
    names = [_name(file, each) for each in _list(file, classes)]
    task = NamedTask(tuple(names), title)
    if task.fault:
        raise InputError(f"--task {file}: {shown(title or names)}: {task.fault}")
    return task


def _list(file: str, content: object) -> list[object]:
    if not isinstance(content, list):
        raise InputError(
            f"--task {file}: must be a mapping of names to lists of classes, or a list of such lists, got"
            f" {shown(content)}"
        )
    return content


def _name(file: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise InputError(f"--task {file}: a name must be text, got {shown(value)}")
