"""A dataset on disk: its folder, the checks of its completeness, and its prepared form."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor

from trainables.data.disk import folder, parquet_layout
from trainables.data.disk.files import ImageFiles
from trainables.data.disk.listing import Listing, Rows
from trainables.data.disk.parquet import ParquetImages
from trainables.data.disk.passes import Tick
from trainables.data.disk.preparation import choose_form, write
from trainables.data.disk.prepared import Form, Manifest, listing_of, prepared_folder, read_manifest, require_inside
from trainables.data.disk.tree import Tree, open_tree
from trainables.data.disk.unpacking import is_unpackable, unpacked
from trainables.data.parts import PARTS, Part
from trainables.data.published import PUBLISHED, Expected, Publication
from trainables.data.reference import FOLDER, PARQUET, BenchmarkRef
from trainables.data.soundness import unreadable_rows, without
from trainables.errors import InputError

DATA_VARIABLE = "TAUSEARCH_DATA"
DEFAULT_DATA_ROOT = "./tausearch-data"


def data_root(option: str | Path | None = None) -> Path:
    """Return the folder of the published datasets: `option`, TAUSEARCH_DATA or the default; "" is an InputError."""
    if option is not None and not str(option).strip():
        raise InputError("--data-root must not be empty")
    return Path(os.path.abspath(os.path.expanduser(option or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA_ROOT)))


class NotFoundError(InputError):
    """Raised for a dataset that is not on disk."""


@dataclass(frozen=True)
class Dataset:
    """A dataset on disk."""

    ref: BenchmarkRef  # without the options of tasks and training
    home: Path  # folder of the dataset and of its prepared form
    key: str  # name of the prepared form below `home`
    find: Callable[[], Listing]  # lists the dataset as it was published
    expected: Expected | None = None  # of published datasets

    @property
    def prepared(self) -> Path:
        """The folder of the dataset's prepared form."""
        return prepared_folder(self.home, self.key)

    def manifest(self) -> Manifest | None:
        """Return the manifest of the prepared form, None without one; an unreadable manifest is an InputError."""
        return read_manifest(self.prepared)

    def as_it_is(self) -> Listing:
        """Return the listing of the prepared form, or else of the published one, without checks."""
        manifest = self.manifest()
        return self.find() if manifest is None else listing_of(self.prepared, manifest)

    def listing(self) -> Listing:
        """Return the listing of the prepared form, or else of the published one; see `checked`."""
        return self.checked(self.as_it_is())

    def note(self, part: Part) -> Path:
        """Return the file of a part's unreadable images; see `soundness`."""
        bound = self.ref.max_image_bytes
        name = f"{self.key}.{part}" if bound is None else f"{self.key}.{part}.{bound}"
        return self.prepared.parent / f"{name}.checked"

    def checked(self, listing: Listing, *, whole: bool = False) -> Listing:
        """Check the number of classes, and return a listing that checks the number of images when a part is opened.

        With `whole`, unreadable images stay in the listing even where the reference leaves them out.

        Returns:
            The listing.

        Raises:
            InputError: If the number of classes is wrong.
        """
        if self.expected is not None and len(listing.class_names) != self.expected.classes:
            raise self._wrong("classes", self.expected.classes, len(listing.class_names))
        return replace(listing, parts={part: partial(self._checked_rows, listing, part, whole) for part in PARTS})

    def _checked_rows(self, listing: Listing, part: Part, whole: bool) -> Rows:
        images, labels = listing.parts[part]()
        if self.ref.max_image_bytes is not None and isinstance(images, ImageFiles | ParquetImages):
            images = replace(images, most=self.ref.max_image_bytes)
        self._require_whole(listing, part, labels)
        if whole or not self.ref.skip_broken or isinstance(images, Tensor):
            return images, labels
        sound, kept = without(images, labels, unreadable_rows(images, self.note(part), lambda count: None))
        self._require_classes(listing, part, kept)
        return sound, kept

    def _require_whole(self, listing: Listing, part: Part, labels: Tensor) -> None:
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(listing.class_names):
            wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
            raise self._wrong(f"labels of the {part} part from 0, below", len(listing.class_names), wrong)
        self._require_classes(listing, part, labels)
        wanted = None if self.expected is None or self.ref.partial else self.expected.images.get(part)
        if wanted not in (None, len(labels)):
            raise self._wrong(f"{part} images", int(wanted or 0), len(labels))

    def _require_classes(self, listing: Listing, part: Part, labels: Tensor) -> None:
        counts = torch.bincount(labels, minlength=len(listing.class_names))
        if int(counts.min()) == 0:
            name = listing.class_names[int(counts.argmin())]
            readable = " that can be read" if self.ref.skip_broken else ""
            raise InputError(f"benchmark {str(self.ref)!r}: class {name!r} has no image{readable} in the {part} part")

    def _wrong(self, what: str, wanted: int, got: int) -> InputError:
        advice = "" if what == "classes" else "; --partial accepts a smaller copy"
        return InputError(f"benchmark {str(self.ref)!r} in {self.home}: {what}: expected {wanted}, got {got}{advice}")

    def require_total(self, counts: dict[Part, int]) -> None:
        """Check the number of images of both parts together; a wrong one is an InputError."""
        total = None if self.expected is None or self.ref.partial else self.expected.total
        if total not in (None, sum(counts.values())):
            raise self._wrong("images of both parts", int(total or 0), sum(counts.values()))

    def prepare(self, form: Form | None, started: Callable[[str, int], Tick]) -> Manifest:
        """Write the prepared form, in place of an earlier one; a failure leaves the earlier one.

        Args:
            form: "array" or "parquet"; None chooses by size.
            started: Receives the name and number of images of each long step; returns the function for its progress.

        Returns:
            The manifest of the prepared form.

        Raises:
            InputError: If the dataset is missing or incomplete, an image is unreadable, or the disk is too full.
        """
        if not self.home.is_dir():
            self.find()  # says what is missing
        require_inside(self.prepared)
        try:
            self.prepared.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.prepared.parent}: cannot be made ({error.strerror})") from error
        with FileLock(self.prepared.parent / f"{self.key}.lock"):
            unfinished, unpacked, old = (self.prepared.parent / f"{self.key}.{what}" for what in _SCRATCH)
            _remove(unfinished, unpacked, old)  # left by a preparation that was killed
            try:
                with self._opened(unpacked, started) as listing:
                    parts = {part: listing.parts[part]() for part in PARTS}
                    self.require_total({part: len(parts[part][1]) for part in PARTS})
                    count = sum(len(labels) for _, labels in parts.values())
                    unfinished.mkdir()
                    tick = started("looking at sizes", count)
                    chosen = choose_form(form, [images for images, _ in parts.values()], unfinished, tick)
                    manifest = write(listing, chosen, unfinished, started(f"writing {chosen}", count))
                if self.prepared.exists():
                    self.prepared.rename(old)
                unfinished.rename(self.prepared)
            except OSError as error:
                raise InputError(f"{self.prepared}: cannot be written ({error.strerror})") from error
            finally:
                _remove(unfinished, unpacked, old)
        return manifest

    @contextmanager
    def _opened(self, scratch: Path, started: Callable[[str, int], Tick]) -> Iterator[Listing]:
        """Yield the published form; compressed archives are unpacked into `scratch`."""
        publication = PUBLISHED.get(self.ref.name)
        if publication is None:
            yield self.checked(self.find())
            return
        tree = open_tree(self.home)
        try:
            listing = _find_in(publication, tree, self.variant)
        except InputError:
            if not any(map(is_unpackable, tree.closed)):
                raise
            listing = _find_in(publication, unpacked(tree, scratch, started), self.variant)
        yield self.checked(listing)

    @property
    def variant(self) -> str:
        """Name of the variant of a published dataset."""
        return self.ref.variant or PUBLISHED[self.ref.name].variants[0]


_SCRATCH = ("unfinished", "unpacked", "old")


def dataset_of(ref: BenchmarkRef, root: str | Path | None = None) -> Dataset:
    """Return the dataset of a benchmark on disk, without reading it; `root` is the data root.

    Raises:
        InputError: If the dataset has no such variant, or an option does not belong to its kind.
    """
    kept = BenchmarkRef(
        name=ref.name,
        variant=ref.variant,
        partial=ref.partial,
        skip_broken=ref.skip_broken,
        max_image_bytes=ref.max_image_bytes,
        label_column=ref.label_column,
    )
    column = ref.label_column
    if column is not None and not ref.name.startswith(PARQUET):
        raise InputError(f"benchmark {ref.name!r}: label_column is for Parquet files")
    if ref.path is not None:
        if ref.variant is not None or ref.partial:
            raise InputError(f"benchmark {ref.name!r}: variant and partial are for published datasets")
        path = Path(ref.path)
        home, key = (path.parent, path.name) if path.is_file() else (path, "all")
        if ref.name.startswith(FOLDER):
            return Dataset(kept, home, key, lambda: folder.find(path))
        return Dataset(kept, home, f"{key}.{column}" if column else key, lambda: parquet_layout.find(path, column))
    publication = PUBLISHED[ref.name]
    variant = ref.variant or publication.variants[0]
    if variant not in publication.variants:
        raise InputError(
            f"benchmark {ref.name!r}: unknown variant {variant!r}; allowed: {', '.join(publication.variants)}"
        )
    home = data_root(root) / ref.name
    return Dataset(kept, home, variant, lambda: _find(publication, home, variant), publication.expected[variant])


def _find(publication: Publication, home: Path, variant: str) -> Listing:
    if not home.is_dir():
        raise _not_found(publication, home, None)
    return _find_in(publication, open_tree(home), variant)


def _find_in(publication: Publication, tree: Tree, variant: str) -> Listing:
    """Return the listing of a tree; an error names the first closed archive, which may hold what is missing."""
    try:
        listing = publication.find(tree, variant)
    except InputError as error:
        if tree.closed:
            raise _not_found(publication, tree.root, tree) from error
        raise
    if listing is None:
        raise _not_found(publication, tree.root, tree)
    return listing


def _not_found(publication: Publication, home: Path, tree: Tree | None) -> InputError:
    for path, why in ({} if tree is None else tree.closed).items():
        advice = f"; run `tausearch data prepare {publication.name}` once, or extract it" if is_unpackable(path) else ""
        return InputError(f"benchmark {publication.name!r}: {home / path} {why}{advice}")
    return NotFoundError(
        f"benchmark {publication.name!r}: not found in {home}; looks for {publication.looks_for}; see `tausearch data`"
    )


def _remove(*folders: Path) -> None:
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)
