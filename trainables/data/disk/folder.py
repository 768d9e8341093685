"""`folder:PATH`: a folder of class folders, with or without `train` and `test`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from checked_input.names import meant
from trainables.data.disk.listing import (
    IF_MOVED,
    FileRows,
    Listing,
    is_image,
    labelled_files,
    listed_files,
    split_files,
)
from trainables.data.disk.tree import Entry, TarMember, Tree, ZipMember, is_junk, open_tree
from trainables.data.splits import SPLIT_NAMES, TEST_SHARE
from trainables.errors import InputError
from trainables.task_names import same_letters

_VALIDATION = ("val", "valid", "validation", "dev")


def find(root: Path) -> Listing:
    """Return the classes of a folder, in order of their names, and their images; another layout is an InputError."""
    if root.exists() and not root.is_dir():
        raise InputError(f"folder:{root}: is no folder")
    if not root.is_dir():
        beside = [each.name for each in root.parent.iterdir() if each.is_dir()] if root.parent.is_dir() else []
        raise InputError(f"folder:{root}: no such folder{meant(root.name, beside)}{IF_MOVED}")
    folders, tree = _visible_folders(root), open_tree(root)
    loose = [path for path in tree.entries if "/" not in path] + list(tree.closed)
    if loose and not folders:
        raise InputError(
            f"folder:{root}: has {loose[0]!r} and no class folders; if it is a class folder itself, name the folder"
            f" above: folder:{root.parent}"
        )
    alike = {name: name.lower().removesuffix("ing") for name in folders}
    meant_so = [name for name, part in alike.items() if part in SPLIT_NAMES]
    if {alike[name] for name in meant_so} == set(SPLIT_NAMES) and set(meant_so) != set(SPLIT_NAMES):
        raise InputError(f"folder:{root}: the folders {' and '.join(map(repr, meant_so))} must be named test and train")
    if set(folders) & set(SPLIT_NAMES):
        return _split(tree, folders)
    names, files = _classes(tree, 4, f"2 to train, 1 to validate, 1 to test ({TEST_SHARE:.0%})")
    return Listing(names, split_files(files), "class folders, seeded 80/20 split")


def _split(tree: Tree, folders: list[str]) -> Listing:
    root = tree.root
    _require_none_loose(tree)
    extra = sorted(set(folders) - set(SPLIT_NAMES))
    if extra:
        advice = "its images belong into train" if extra[0] in _VALIDATION else "move it away"
        raise InputError(f"folder:{root}: {extra[0]!r} lies beside train and test; {advice}")
    missing = [part for part in SPLIT_NAMES if part not in folders]
    if missing:
        raise InputError(f"folder:{root}: has no folder {missing[0]!r}; both train and test are needed, or neither")
    _require_on_disk(tree, folders)
    train_names, train = _classes(Tree(root / "train", tree.below("train")), 3, "2 to train, 1 to validate")
    test_names, test = _classes(Tree(root / "test", tree.below("test")), 1, "1 to test")
    if train_names != test_names:
        name = sorted(set(train_names) ^ set(test_names))[0]
        has, lacks = SPLIT_NAMES if name in train_names else SPLIT_NAMES[::-1]
        others = test_names if has == "train" else train_names
        form = " in this Unicode form; name both alike" if same_letters(name, others) in others else ""
        raise InputError(f"folder:{root}: class {name!r} is in {has} but not in {lacks}{form}")
    return Listing(train_names, listed_files(train, test), "class folders in train and test")


def _classes(tree: Tree, fewest: int, why: str) -> tuple[tuple[str, ...], FileRows]:
    root, names = tree.root, tuple(_visible_folders(tree.root))
    _require_none_loose(tree)
    if len(names) < 2:
        raise InputError(f"folder:{root}: needs at least 2 class folders, has {len(names)}")
    _require_on_disk(tree, names)
    images: dict[str, list[tuple[str, Entry]]] = {name: [] for name in names}
    for path, entry in tree.entries.items():
        name, _, below = path.partition("/")
        images[name].append((below, entry))
    for name, found in images.items():
        for path, _ in found:
            if not is_image(path):
                ending = PurePosixPath(path).suffix or "none"
                fault = f"{path!r} is not an image file (its ending is {ending}); move it away"
                raise InputError(f"folder:{root / name}: {fault}")
    few = [name for name, found in images.items() if len(found) < fewest]
    if few:
        count = len(images[few[0]])
        has = f"{count} image{'' if count == 1 else 's'}" if count else "no image"
        others = f"; too few have also {', '.join(map(repr, few[1:4]))}{', ...' * (len(few) > 4)}" if few[1:] else ""
        raise InputError(
            f"folder:{root}: class {few[0]!r} has {has}, needs at least {fewest}: {why}; add images, or move its folder"
            f" away{others}"
        )
    return names, labelled_files(
        (str(root / name / path), entry, label) for label, name in enumerate(names) for path, entry in images[name]
    )


def _require_none_loose(tree: Tree) -> None:
    loose = [path for path in tree.entries if "/" not in path] + list(tree.closed)
    if loose:
        raise InputError(f"folder:{tree.root}: {loose[0]!r} lies beside the class folders; move it into one or away")


def _require_on_disk(tree: Tree, folders: Sequence[str]) -> None:
    """Refuse an archive with images of a class that has no folder, because nobody would miss the class."""
    for path, entry in tree.entries.items():
        if (name := path.partition("/")[0]) not in folders and isinstance(entry, TarMember | ZipMember):
            archive = Path(entry.archive).name
            raise InputError(f"folder:{tree.root}: {name!r} of {archive} is no folder here; extract it or move it away")


def _visible_folders(root: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not is_junk(entry.name))
