"""`parquet:PATH` and the Hugging Face form of any dataset: Parquet files named after their split, or one split."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from trainables.data.disk import parquet
from trainables.data.disk.listing import IF_MOVED, Listing, Rows, Splitter, seeded_split
from trainables.data.disk.tree import open_tree
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.errors import InputError

_SPLIT = re.compile(r"(?i)(?:^|[/_.-])(train|test|validation|valid|val|dev)(?:ing)?(?=[\d/_.-]|$)")


def find(path: Path, label: str | None = None) -> Listing:
    """Return `find_in` of a Parquet file or a folder of such files; a missing file is an InputError."""
    if path.is_file():
        files = [str(path)]
    elif path.is_dir():
        files = [str(path / name) for name in open_tree(path).entries if name.lower().endswith(".parquet")]
    else:
        raise InputError(f"parquet:{path}: no such file or folder{IF_MOVED}")
    if not files:
        raise InputError(f"parquet:{path}: holds no .parquet file")
    splits = _splits(files, path)
    if (loose := splits.pop("one", [])) and splits:
        beside, name = " and ".join(sorted(splits)), os.path.relpath(loose[0], path)
        raise InputError(f"parquet:{path}: {name!r} lies beside {beside}; name it after its split, or move it away")
    return find_in(files, path, label=label)


def find_in(
    files: Sequence[str],
    root: Path,
    *,
    label: str | None = None,
    validation_trains: bool = True,
    split: Splitter | None = None,
    drop: Callable[[tuple[str, ...]], str | None] = lambda names: None,
) -> Listing:
    """Return the classes and images of Parquet files.

    Files named after `train` and `test` are those parts. A validation split joins the training part, because a search
    holds out its own validation images. Without a test split, the validation split is the test part. Files of one
    split, or without a split in their names, are split 80/20 per class by a fixed seed.

    Args:
        files: Paths of the Parquet files.
        root: Folder; paths below it tell the split.
        label: Column of labels; None finds it by its name.
        validation_trains: Whether a validation split beside a test split joins the training part.
        split: Rule in place of the files' own splits.
        drop: From all class names, the class to leave out; only for files without a split.

    Raises:
        InputError: If the columns of the files do not fit.
    """
    columns = parquet.find_columns(files[0])
    column = label or columns.label
    if column is None:
        known = ", ".join(parquet.LABEL_COLUMNS)
        raise InputError(f"{files[0]}: has no column of labels ({known}); name it with --label-column")
    if column not in columns.names:
        there = ", ".join(columns.names)
        raise InputError(f"--label-column {column}: {files[0]} has no such column; it has {there}")
    splits = _splits(files, root)
    if split is not None or len(splits) == 1:
        return _unsplit(files, columns, column, split or seeded_split, drop)
    train, test = splits.get("train", []), splits.get("test", [])
    validation = splits.get("validation", [])
    if not test:
        test, validation = validation, []
    train = train + validation if validation_trains else train
    if not train or not test:
        raise InputError(f"parquet:{root}: needs files of a train and of a test split, has {', '.join(splits)}")
    names, encode = _classes(train, column)

    def rows(part: SplitName) -> Rows:
        chosen = train if part == "train" else test
        return parquet.parquet_images(chosen, columns.image), encode(chosen)

    return Listing(names, rows, f"Parquet files split into {', '.join(splits)}")


def _splits(files: Sequence[str], root: Path) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for file in files:
        name = Path(file).name if file == str(root) else Path(os.path.relpath(file, root)).as_posix()
        found = _SPLIT.findall(name)  # the last is the nearest to the images
        split = found[-1].lower() if found else "one"
        splits.setdefault("validation" if split in ("valid", "val", "dev") else split, []).append(file)
    return splits


Encode = Callable[[Sequence[str]], Tensor]
"""From Parquet files to the labels of all their rows, int64 `(n,)`."""


def _classes(files: Sequence[str], column: str) -> tuple[tuple[str, ...], Encode]:
    """Return the class names of a column of labels and the function that reads labels."""
    known: Sequence[int | str]
    names = declared = parquet.label_names(files[0], column)
    if names is not None:
        known, allowed = range(len(names)), f"from 0 to {len(names) - 1}"
    else:
        values = parquet.read_labels(files, column)
        kinds = {type(value) for value in values}
        if len(kinds) != 1 or not kinds <= {int, str}:
            got = ", ".join(sorted(kind.__name__ for kind in kinds)) or "no rows"
            raise InputError(f"{files[0]}: column {column!r} must hold whole numbers or names, has {got}")
        known, allowed = sorted(set(values)), "a class of the training part"
        names = list(map(str, known))
    number = {value: label for label, value in enumerate(known)}

    def encode(paths: Sequence[str]) -> Tensor:
        labels: list[int] = []
        for path in paths:
            if declared is not None and (parquet.label_names(path, column) or declared) != declared:
                raise InputError(f"{path}: column {column!r} has other class names than in {files[0]}")
            for row, value in enumerate(parquet.read_labels([path], column)):
                if not isinstance(value, int | str) or value not in number:
                    raise InputError(f"{path}: label in row {row} must be {allowed}, got {value!r}")
                labels.append(number[value])
        return torch.tensor(labels, dtype=torch.int64)

    return tuple(names), encode


def _unsplit(
    files: Sequence[str],
    columns: parquet.Columns,
    column: str,
    split: Splitter,
    drop: Callable[[tuple[str, ...]], str | None],
) -> Listing:
    names, encode = _classes(files, column)
    dropped = drop(names)
    gone = len(names) if dropped is None else names.index(dropped)

    @cache
    def parts() -> dict[str, Rows]:
        labels = encode(files)
        # In the order of their paths, images are split as the same files in class folders.
        paths = parquet.read_paths(files, columns) or [str(row).zfill(12) for row in range(len(labels))]
        order = sorted(range(len(labels)), key=lambda row: (int(labels[row]), paths[row]))
        kept = torch.tensor([row for row in order if labels[row] != gone], dtype=torch.int64)
        labels = labels[kept] - (labels[kept] > gone).long()
        images = parquet.parquet_images(files, columns.image, kept.numpy())
        return {part: (images.take(rows), labels[rows]) for part, rows in zip(SPLIT_NAMES, split(labels), strict=True)}

    class_names = tuple(name for name in names if name != dropped)
    return Listing(class_names, lambda part: parts()[part], "Parquet files, split by seed")
