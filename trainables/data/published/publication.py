"""A published dataset as the paper's benchmark, and the layouts that several published datasets have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checked_input.text_files import TextFileError
from checked_input.yaml_text import parse_yaml
from trainables.data.disk.listing import (
    Listing,
    from_split_file,
    in_class_folders,
    is_image,
    listed_files,
    split_files,
)
from trainables.data.disk.parquet_layout import find_in
from trainables.data.disk.tree import Tree, least_deep
from trainables.data.splits import SplitName
from trainables.data.transforms.recipes import Recipe
from trainables.errors import InputError

PAPER_BACKBONE = "vit_base_patch16_224.augreg_in21k"
PAPER_BATCH = 128
STANDARD = "standard"  # name of the only variant of a dataset


@dataclass(frozen=True)
class Expected:
    """Numbers of classes and images in a whole copy of a published dataset."""

    classes: int
    images: Mapping[SplitName, int] = field(default_factory=dict)  # of each part, where the publication fixes them
    total: int | None = None  # of both parts together, where only their sum is fixed


@dataclass(frozen=True)
class Publication:
    """A published dataset as a benchmark."""

    name: str  # of the benchmark and of the dataset's folder under the data root
    tasks: int
    epochs: int  # the paper's passes over a task's images in fine-tuning
    recipe: Recipe  # the transforms of the authors' code
    expected: Mapping[str, Expected]  # by variant, the default first
    find: Callable[[Tree, str], Listing | None]  # from files and variant; None without a known layout
    looks_for: str  # the layouts known to `find`, in words
    source: str  # address of the dataset

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of its variants, the default first."""
        return tuple(self.expected)


def find_parquet(tree: Tree, **options: Any) -> Listing | None:
    """Return the Hugging Face form if there are Parquet files; options as of `find_in`."""
    files = [tree.path_on_disk(path) for path in tree.entries if path.endswith(".parquet")]
    return find_in(files, tree.root, **options) if files else None


def listing_from_class_folders(tree: Tree, left_out: Collection[str] = ()) -> Listing | None:
    """Return the class folders of a tree, split by a fixed seed; None without images."""
    shallowest = least_deep(filter(is_image, tree.entries))
    if shallowest is None:
        return None
    files = tree.below("/".join(shallowest.split("/")[:-2]))
    names = tuple(name for name in class_folders(files) if name not in left_out)
    return Listing(names, split_files(in_class_folders(files, names)), "class folders, seeded 80/20 split")


def class_folders(files: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the top folders, sorted."""
    return tuple(sorted({path.split("/")[0] for path in files if "/" in path}))


def listing_from_yaml(
    tree: Tree, splits: tuple[str, str], *, components: int, class_of: Callable[[str], str], layout: str
) -> Listing | None:
    """Return the images that the split files of training and test list; None without the split files.

    The last `components` of its path identify an image, wherever its folder lies. `class_of` returns the name of the
    class from these components. A malformed split file or a missing image is an InputError.
    """
    found = [path for path in map(tree.find, splits) if path is not None]
    if len(found) < len(splits):
        return None
    files = {ending(path, components): entry for path, entry in tree.entries.items() if is_image(path)}
    parts = []
    for split in found:
        paths, labels = _split_from_yaml(tree, split)
        parts.append(from_split_file(files, [ending(path, components) for path in paths], labels, split_file=split))
    train, train_labels = parts[0]
    names = _names_by_label(train_labels.tolist(), [class_of(path) for path in train.names], found[0])
    return Listing(names, listed_files(*parts), layout)


def _split_from_yaml(tree: Tree, path: str) -> tuple[list[str], list[int]]:
    """Return the lists `data` (paths) and `targets` (labels) of a split file."""
    where = tree.root / path
    try:
        content = parse_yaml(tree.text(path))
    except TextFileError as error:
        raise InputError(f"{where}: {error}") from error
    return checked_split(content, ("data", "targets"), str(where))


def checked_split(content: object, keys: tuple[str, str], where: str) -> tuple[list[str], list[int]]:
    """Return the paths and labels under two keys of a split file's content; other content is an InputError."""
    if not isinstance(content, Mapping) or any(key not in content for key in keys):
        raise InputError(f"{where}: must have the keys {' and '.join(keys)}")
    paths, labels = (content[key] for key in keys)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise InputError(f"{where}: {keys[0]} must be a list of paths")
    if not isinstance(labels, list) or not all(type(label) is int and abs(label) < 2**31 for label in labels):
        raise InputError(f"{where}: {keys[1]} must be a list of whole numbers")
    return paths, labels


def ending(path: str, parts: int) -> str:
    """Return the last components of a path."""
    return "/".join(path.split("/")[-parts:])


def _names_by_label(labels: Sequence[int], names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the class names in label order; a label with two names, or labels with a gap, are an InputError."""
    found: dict[int, str] = {}
    for label, name in zip(labels, names, strict=True):
        if found.setdefault(label, name) != name:
            raise InputError(f"{where}: label {label} stands for {found[label]!r} and for {name!r}")
    if sorted(found) != list(range(len(found))):
        raise InputError(f"{where}: labels must be 0 to {len(found) - 1} without a gap, has {max(found)}")
    return tuple(found[label] for label in range(len(found)))
