"""Whether the dataset of a benchmark can be used for a run: every image readable, the prepared form up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from trainables.data.dataset import Dataset, dataset_of
from trainables.data.disk.listing import Listing
from trainables.data.disk.passes import Tick, stored, unreadable
from trainables.data.disk.prepared import Manifest
from trainables.data.opening import on_disk, reference
from trainables.data.parts import PARTS, Part
from trainables.errors import InputError


def require_usable(
    text: str, data_root: str | Path | None, parts: Sequence[Part], started: Callable[[str, int], Tick]
) -> None:
    """Make sure that no image will stop a run half-way.

    Prepared data was decoded when it was made; of other data every image is decoded here once, and it is noted beside
    the data that these files have been looked at. Images of other parts are not opened.

    Args:
        text: What the benchmark is called.
        data_root: Folder of the published datasets.
        parts: The parts that the run will read.
        started: Function that is told each long step's name and number of images; returns whom to tell of progress.

    Raises:
        InputError: If an image cannot be read, the prepared form was made from other files, or images are missing.
    """
    ref = reference(text)
    if not on_disk(ref):
        return
    dataset = dataset_of(ref, data_root)
    manifest = dataset.manifest()
    if manifest is not None:
        _require_current(dataset, manifest, parts)
        return
    listing = dataset.listing()
    if dataset.expected is not None and dataset.expected.total is not None:
        dataset.require_total({part: len(listing.parts[part]()[1]) for part in PARTS})
    for part in parts:
        _require_readable(dataset, listing, part, started)


def _require_current(dataset: Dataset, manifest: Manifest, parts: Sequence[Part]) -> None:
    try:
        found = dataset.find()
    except InputError:
        return  # what it was made from is gone or still packed: the prepared form stands for itself
    for part in parts:
        images, _ = found.parts[part]()
        if found.class_names != manifest.classes or stored(images).digest != manifest.parts[part].source:
            raise InputError(
                f"benchmark {str(dataset.ref)!r}: {dataset.prepared} was made from other files than lie in"
                f" {dataset.home} now; run `tausearch data prepare` again, or remove it"
            )


def _require_readable(dataset: Dataset, listing: Listing, part: Part, started: Callable[[str, int], Tick]) -> None:
    images, _ = listing.parts[part]()
    if isinstance(images, Tensor):
        return
    note = dataset.prepared.parent / f"{dataset.key}.{part}.checked"
    if note.is_file() and note.read_text(encoding="utf-8") == images.digest:
        return
    errors = list(unreadable(images, started(f"looking at the {part} images once", len(images))))
    if errors:
        more = f" ({len(errors)} such images; `tausearch data check` names all)" if len(errors) > 1 else ""
        raise InputError(f"{errors[0]}{more}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(images.digest, encoding="utf-8")
    except OSError:
        return  # read-only data: it is looked at before every run
