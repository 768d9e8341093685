"""What several published datasets have in common: split files in YAML, and the Hugging Face form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from trainables.data.disk.listing import Listing
from trainables.data.disk.parquet_layout import find_in
from trainables.data.disk.tree import Tree
from trainables.errors import InputError

STANDARD = "standard"
"""Name of the only variant of a dataset that has no others."""


def find_parquet(tree: Tree, **options: Any) -> Listing | None:
    """List the Hugging Face form, if there are Parquet files; options as of `find_in`."""
    files = [tree.path_on_disk(path) for path in tree.entries if path.endswith(".parquet")]
    return find_in(files, tree.root, **options) if files else None


def split_from_yaml(tree: Tree, path: str) -> tuple[list[str], list[int]]:
    """Read a split file with the lists `data` and `targets`.

    Returns:
        The paths of the images and their labels.

    Raises:
        InputError: If the file cannot be read as YAML with these two lists.
    """
    where = tree.root / path
    try:
        content = _lists(yaml.parse(tree.text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: is not valid YAML") from error
    return checked_split(content, ("data", "targets"), str(where))


def _lists(events: Iterable[yaml.Event]) -> dict[str, list[str | int]]:
    """Read a mapping of lists, and nothing else that YAML can say; a split file has ten thousands of lines.

    Returns:
        Key to its list; what is a whole number there comes as one.

    Raises:
        ValueError: If there is anything else: another structure, an alias, a tag, a key twice.
    """
    content: dict[str, list[str | int]] = {}
    key, depth = None, 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth == 1 and key is None and isinstance(event, yaml.ScalarEvent) and event.value not in content:
            key = event.value
        elif depth == 1 and isinstance(event, yaml.SequenceEndEvent):
            key = None
        elif depth == 2 and key is not None and isinstance(event, yaml.SequenceStartEvent):
            content[key] = []
        elif depth == 2 and key is not None and isinstance(event, yaml.ScalarEvent) and event.tag is None:
            content[key].append(_whole(event))
        elif isinstance(event, yaml.NodeEvent) and not (depth == 1 and isinstance(event, yaml.MappingStartEvent)):
            raise ValueError(f"{type(event).__name__} in a list")
    return content


def _whole(event: yaml.ScalarEvent) -> str | int:
    plain = not event.style and len(event.value) < 10 and event.value.isascii() and event.value.isdigit()
    return int(event.value) if plain else event.value


def checked_split(content: object, keys: tuple[str, str], where: str) -> tuple[list[str], list[int]]:
    """Take paths and labels from a split file's content.

    Returns:
        The paths of the images and their labels.

    Raises:
        InputError: If the keys are missing, or their values are not lists of paths and of whole numbers.
    """
    if not isinstance(content, Mapping) or any(key not in content for key in keys):
        raise InputError(f"{where}: must have the keys {' and '.join(keys)}")
    paths, labels = (content[key] for key in keys)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InputError(f"{where}: {keys[0]} must be a list of paths")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise InputError(f"{where}: {keys[1]} must be a list of whole numbers")
    return paths, labels


def ending(path: str, parts: int) -> str:
    """Return the last components of a path, by which a file is found wherever its folder was put."""
    return "/".join(path.split("/")[-parts:])


def class_root(images: Iterable[str]) -> str:
    """Return the folder that holds the class folders, from the paths of all images: that of the least deep one."""
    shallowest = min(images, key=lambda path: (path.count("/"), path))
    return "/".join(shallowest.split("/")[:-2])


def names_by_label(labels: Sequence[int], names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the class names in label order from one name per image.

    Raises:
        InputError: If a label has two names, or the labels are not 0, 1, ...
    """
    found: dict[int, str] = {}
    for label, name in zip(labels, names, strict=True):
        if found.setdefault(label, name) != name:
            raise InputError(f"{where}: label {label} stands for {found[label]!r} and for {name!r}")
    if sorted(found) != list(range(len(found))):
        raise InputError(f"{where}: labels must be 0 to {len(found) - 1} without a gap, has {max(found)}")
    return tuple(found[label] for label in range(len(found)))
