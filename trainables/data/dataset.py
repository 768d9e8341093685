"""A dataset on disk: its folder, the checks of its completeness, and its prepared form."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor

from checked_input.names import choices, counted
from trainables.data.disk import folder, parquet_layout
from trainables.data.disk.listing import ImageFiles, Listing, Rows, is_image
from trainables.data.disk.manifest import VERSION, Manifest, PreparedForm, listing_of, read_manifest, require_inside
from trainables.data.disk.parquet import ParquetImages
from trainables.data.disk.passes import note_file, noted, stored, strike_readable, unreadable_rows
from trainables.data.disk.preparation import choose_form, write
from trainables.data.disk.tree import PREPARED, DiskFile, Progress, Tree, open_tree
from trainables.data.published import PUBLISHED, Expected, Publication
from trainables.data.reference import FOLDER, PARQUET, BenchmarkRef
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.errors import InputError
from trainables.task_names import class_names_fault
from trainables.user_code import file_name

DATA_VARIABLE = "TAUSEARCH_DATA"
DEFAULT_DATA_ROOT = "./tausearch-data"
_NAMED = 5  # broken images of which an error has a line
_OPTIONS = {  # option to the kind of benchmark that has it
    "variant": "published datasets",
    "partial": "published datasets",
    "label_column": "Parquet files",
    "max_image_bytes": "images on disk",
    "skip_broken": "images on disk",
}


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
    key: str  # begins the name of the prepared form below `home`; of a published dataset its variant
    find: Callable[[], Listing]  # lists the dataset as it was published, once
    expected: Expected | None = None  # of published datasets

    @property
    def prepared(self) -> Path:
        """The folder of the dataset's prepared form."""
        bound = self.ref.max_image_bytes  # by which images are left out, so that each has its form
        name = self.key if bound is None else f"{self.key}.most-{bound}"
        return self.home / PREPARED / f"v{VERSION}" / name

    def _beside(self, ending: str) -> Path:
        """Return a path beside the prepared form that is no other one's, as `x.parquet.old` beside `x.parquet` is."""
        digest = hashlib.sha256(os.fsencode(self.prepared.name)).hexdigest()
        return self.prepared.with_name(f"{digest[:32]}.{ending}")

    def manifest(self) -> Manifest | None:
        """Return the manifest of the prepared form, None without one; an unreadable manifest is an InputError."""
        return read_manifest(self.prepared)

    def unchecked(self) -> Listing:
        """Return the listing of the prepared form, or else of the published one, without checks."""
        manifest = self.manifest()
        return self.find() if manifest is None else listing_of(self.prepared, manifest)

    def listing(self) -> Listing:
        """Return `checked` of the prepared form, or else of the published one."""
        return self.checked(self.unchecked())

    def note(self, part: SplitName) -> Path:
        """Return the file of a part's unreadable images; see `passes`."""
        bound = self.ref.max_image_bytes
        name = f"{self.key}.{part}" if bound is None else f"{self.key}.{part}.{bound}"
        return note_file(self.home, name)

    def checked(self, listing: Listing, *, whole: bool = False) -> Listing:
        """Return a listing that opens each part once and checks its classes and number of images.

        With `whole`, unreadable images stay in the listing even where the reference leaves them out.

        Raises:
            InputError: If the number of classes is wrong, or the name of one.
        """
        if fault := class_names_fault(listing.class_names):
            raise InputError(f"{self.home}: {fault}")
        if self.expected is not None and len(listing.class_names) != self.expected.classes:
            raise self._wrong("classes", self.expected.classes, len(listing.class_names))
        return replace(listing, load=cache(partial(self._checked, listing, whole)))

    def _checked(self, listing: Listing, whole: bool, part: SplitName) -> Rows:
        images, labels = listing.load(part)
        if self.ref.max_image_bytes is not None and isinstance(images, ImageFiles | ParquetImages):
            images = replace(images, most=self.ref.max_image_bytes)
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(listing.class_names):
            wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
            raise self._wrong(f"labels of the {part} part from 0, below", len(listing.class_names), wrong)
        self._require_classes(listing, part, labels)
        wanted = None if self.expected is None or self.ref.partial else self.expected.images.get(part)
        if wanted is not None and wanted != len(labels):
            raise self._wrong(f"{part} images", wanted, len(labels))
        if whole or not self.ref.skip_broken or isinstance(images, Tensor):
            return images, labels
        broken = unreadable_rows(images, self.note(part), lambda count: None)
        kept = torch.tensor([row for row in range(len(labels)) if row not in broken], dtype=torch.int64)
        self._require_classes(listing, part, labels[kept])
        return (images.take(kept), labels[kept]) if broken else (images, labels)

    def _require_classes(self, listing: Listing, part: SplitName, labels: Tensor) -> None:
        counts = torch.bincount(labels, minlength=len(listing.class_names))
        if int(counts.min()) == 0:
            name = listing.class_names[int(counts.argmin())]
            readable = " that can be read" if self.ref.skip_broken else ""
            raise InputError(f"benchmark {str(self.ref)!r}: class {name!r} has no image{readable} in the {part} part")

    def _wrong(self, what: str, wanted: int, got: int) -> InputError:
        advice = "; --partial accepts a smaller copy" if "images" in what else ""
        return InputError(f"benchmark {str(self.ref)!r} in {self.home}: {what}: expected {wanted}, got {got}{advice}")

    def both_parts(self, listing: Listing) -> dict[SplitName, Rows]:
        """Open both parts of a checked listing; a wrong number of images in both together is an InputError."""
        parts = {part: listing.load(part) for part in SPLIT_NAMES}
        count = sum(len(labels) for _, labels in parts.values())
        total = None if self.expected is None or self.ref.partial else self.expected.total
        if total is not None and total != count:
            raise self._wrong("images of both parts", total, count)
        return parts

    @property
    def classes_digest(self) -> str:
        """Digest of the classes and how many images of each train and test: a split by seed is drawn anew from others.

        Names count only in the user's own images, whose order they give; forms of a published dataset spell them each
        in its own way.
        """
        listing = self.listing()
        names, count = listing.class_names if self.ref.path is not None else (), len(listing.class_names)
        counts = [torch.bincount(listing.load(part)[1], minlength=count).tolist() for part in SPLIT_NAMES]
        return hashlib.sha256(repr((names, counts)).encode("utf-8", "surrogateescape")).hexdigest()

    def require_usable(self, parts: Sequence[SplitName], progress: Progress) -> list[str]:
        """Check the images of some parts, so that none stops a run half-way; images of other parts are not opened.

        Prepared images were decoded when they were written. Other images are decoded here, once: a note
        keeps the result.

        Returns:
            A line for each unreadable image that `skip_broken` leaves out.

        Raises:
            InputError: If images are missing or unreadable, with a line for each of the first five; or if the prepared
                form was made from other files.
        """
        manifest = self.manifest()
        if manifest is None:
            listing = self.checked(self.find(), whole=True)
            if self.expected is not None and self.expected.total is not None:
                self.both_parts(listing)
            lines = [line for part in parts for line in self._unreadable(listing, part, progress)]
        else:
            self._require_current(manifest, parts)
            lines = manifest.left_out(parts)
        if lines and not self.ref.skip_broken:
            raise InputError(*_first_broken(lines))
        return lines

    def left_out(self, progress: Progress) -> list[str]:
        """Return a line for each unreadable image that `skip_broken` leaves out of both parts."""
        if not self.ref.skip_broken:
            return []
        if (manifest := self.manifest()) is not None:
            return manifest.left_out(SPLIT_NAMES)
        listing = self.checked(self.find(), whole=True)
        return [line for part in SPLIT_NAMES for line in self._unreadable(listing, part, progress)]

    def look_again(self, found: Listing) -> None:
        """Strike images of the published form that can be read again from the notes.

        A run does not ask for it: what goes on leaves out the images that it began without.
        """
        for part in SPLIT_NAMES if self.ref.skip_broken else ():
            images, _ = self.checked(found, whole=True).load(part)
            if not isinstance(images, Tensor):
                strike_readable(images, self.note(part))

    def faults_of_source(self, manifest: Manifest) -> list[str]:
        """Return why a run would refuse the prepared form: it was made from other files, or without unreadable ones."""
        skipped = [] if self.ref.skip_broken else manifest.left_out(SPLIT_NAMES)
        try:
            self._require_current(manifest, SPLIT_NAMES)
        except InputError as error:
            return [str(error), *skipped]
        return skipped

    def _require_current(self, manifest: Manifest, parts: Sequence[SplitName]) -> None:
        try:
            found = self.find()
        except InputError:
            if self.ref.name in PUBLISHED or not self._has_images:
                return  # the published files are removed or still packed: nothing to compare with
            raise
        for part in parts:
            images, labels = found.load(part)
            known = manifest.parts[part].source == _with_labels(stored(images).digest, labels)
            if found.class_names != manifest.classes or not known:
                raise InputError(
                    f"benchmark {str(self.ref)!r}: {self.prepared} was made from other files than lie in {self.home}"
                    " now, or by version 0.1.0; run `tausearch data prepare` again, or remove it"
                )

    @property
    def _has_images(self) -> bool:
        path = self.home if self.ref.path is None else Path(self.ref.path)
        if not path.is_dir():
            return path.exists()
        files = open_tree(path).entries.items()
        on_disk = (path for path, entry in files if isinstance(entry, DiskFile))
        return any(path.lower().endswith(".parquet") or (is_image(path) and "/" in path) for path in on_disk)

    def _unreadable(self, listing: Listing, part: SplitName, progress: Progress) -> list[str]:
        images, _ = listing.load(part)
        if isinstance(images, Tensor):
            return []
        note = self.note(part)
        known = noted(images, note)
        if known and not self.ref.skip_broken:  # an image may have been repaired without a change of the digest
            note.unlink(missing_ok=True)
            known = None
        if known is None:
            known = unreadable_rows(images, note, progress(f"looking at the {part} images once", len(images)))
        return list(known.values())

    def prepare(self, form: PreparedForm | None, progress: Progress) -> Manifest:
        """Write the prepared form, by default chosen by size; a failure is an InputError and leaves an earlier form."""
        if not self.home.is_dir():
            self.find()  # says what is missing
        require_inside(self.prepared)
        try:
            self.prepared.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.prepared.parent}: cannot be made ({error.strerror})") from error
        with FileLock(self._beside("lock")), self._scratch() as (unfinished, unpacked, old):
            found = self._find_packed(unpacked, progress)
            self.look_again(found)
            listing = self.checked(found)
            parts = self.both_parts(listing)
            count = sum(len(labels) for _, labels in parts.values())
            unfinished.mkdir()
            tick = progress("looking at sizes", count)
            chosen = choose_form(form, [images for images, _ in parts.values()], unfinished, tick)
            published = {part: self._published(found, part, progress) for part in SPLIT_NAMES}
            manifest = write(listing, chosen, published, unfinished, progress(f"writing {chosen}", count))
            if self.prepared.exists():
                self.prepared.rename(old)
            unfinished.rename(self.prepared)
        return manifest

    def _published(self, found: Listing, part: SplitName, progress: Progress) -> tuple[str, list[str]]:
        """Return the digest of a part as it was published, and a line for each image that is left out of it."""
        images, labels = found.load(part)
        whole = self.checked(found, whole=True)
        left_out = self._unreadable(whole, part, progress) if self.ref.skip_broken else []
        return _with_labels(stored(images).digest, labels), left_out

    @contextmanager
    def _scratch(self) -> Iterator[list[Path]]:
        """Yield paths for unfinished, unpacked and old files, which are removed before and after the block."""
        folders = [self._beside(what) for what in ("unfinished", "unpacked", "old")]
        try:
            _remove(folders)  # left by a preparation that was killed
            yield folders
        except OSError as error:
            raise InputError(f"{self.prepared}: cannot be written ({error.strerror})") from error
        finally:
            _remove(folders)

    def _find_packed(self, scratch: Path, progress: Progress) -> Listing:
        """Return the listing of the published form; where it needs compressed archives, unpack them into `scratch`."""
        try:
            return self.find()
        except InputError:
            if self.ref.name not in PUBLISHED or not (tree := open_tree(self.home)).unpackable:
                raise
            return _find_in(PUBLISHED[self.ref.name], tree.unpacked(scratch, progress), self.key)


def _with_labels(digest: str, labels: Tensor) -> str:
    """Return the digest of a part's images together with their labels, int64 `(n,)`."""
    return hashlib.sha256(digest.encode() + labels.numpy().tobytes()).hexdigest()


def _remove(folders: Sequence[Path]) -> None:
    for each in folders:
        shutil.rmtree(each, ignore_errors=True)


def on_disk(ref: BenchmarkRef) -> bool:
    """Whether a benchmark reads images from disk."""
    return ref.name in PUBLISHED or ref.path is not None


def require_options(ref: BenchmarkRef) -> None:
    """Check that a benchmark of this kind has the given options; another option is an InputError."""
    kinds = {
        "published datasets": ref.name in PUBLISHED,
        "Parquet files": ref.name.startswith(PARQUET),
        "images on disk": on_disk(ref),
    }
    for option, kind in _OPTIONS.items():
        if getattr(ref, option) and not kinds[kind]:
            raise InputError(f"benchmark {str(ref)!r}: {option} is for {kind}")


def dataset_of(ref: BenchmarkRef, root: str | Path | None = None) -> Dataset:
    """Return the dataset of a benchmark on disk without reading it; a wrong path, variant or option: InputError."""
    require_options(ref)
    kept = replace(ref, tasks=None, classes_per_task=None, class_order=None, task=None, epochs=None, batch_size=None)
    if ref.path is not None:
        path, column = Path(ref.path), ref.label_column
        try:
            removed = ref.name.startswith(PARQUET) and not path.exists()  # a prepared form may be left
            home, key = (path.parent, path.name) if path.is_file() or removed else (path, "all")
        except OSError as error:  # such as a name that is too long
            raise InputError(f"{ref.name}: {error.strerror}") from error
        if ref.name.startswith(FOLDER):
            return Dataset(kept, home, key, cache(partial(folder.find, path)))
        key = f"{key}.{_in_file_name(column)}" if column else key
        return Dataset(kept, home, key, cache(partial(parquet_layout.find, path, column)))
    publication = PUBLISHED[ref.name]
    variant = ref.variant or publication.variants[0]
    if variant not in publication.variants:
        raise InputError(
            f"benchmark {ref.name!r}: unknown variant {variant!r}; {choices(variant, publication.variants)}"
        )
    home = data_root(root) / ref.name

    @cache
    def find() -> Listing:
        return _find_in(publication, open_tree(home) if home.is_dir() else Tree(home, {}), variant)

    return Dataset(kept, home, variant, find, publication.expected[variant])


def _in_file_name(column: str) -> str:
    """Return a column as a part of the name of a file, which names neither another column nor a file of the user's."""
    return f"{file_name(column)}.{hashlib.sha256(column.encode()).hexdigest()[:8]}"


def _first_broken(lines: Sequence[str]) -> list[str]:
    """Return the lines of the first unreadable images, and one that says how many more there are; with advice."""
    named, more = list(lines[:_NAMED]), len(lines) - _NAMED
    if more > 0:
        images = counted(more, "more image")
        named.append(f"{images} cannot be read: `tausearch data check` names all")
    return [*named[:-1], f"{named[-1]}; --skip-broken leaves out what cannot be read"]


def _find_in(publication: Publication, tree: Tree, variant: str) -> Listing:
    """Return the listing of a tree; an error names the first closed archive, which may hold what is missing."""
    cause = None
    try:
        listing = publication.find(tree, variant)
        if listing is not None:
            return listing
    except InputError as error:
        if not tree.closed:
            raise
        cause = error
    for path, why in tree.closed.items():
        once = f"; run `tausearch data prepare {publication.name}` once, or extract it"
        advice = once if path in tree.unpackable else ""
        raise InputError(f"benchmark {publication.name!r}: {tree.root / path} {why}{advice}") from cause
    raise NotFoundError(
        f"benchmark {publication.name!r}: not found in {tree.root}; looks for {publication.looks_for};"
        " see `tausearch list benchmarks`"
    )
