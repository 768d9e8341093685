"""Whether the dataset of a benchmark can be used for a run: every image readable, the prepared form up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from trainables.data.dataset import Dataset, dataset_of
from trainables.data.disk.listing import Listing
from trainables.data.disk.passes import Tick, stored
from trainables.data.disk.prepared import Manifest
from trainables.data.opening import on_disk, reference
from trainables.data.parts import PARTS, Part
from trainables.data.soundness import noted, unreadable_rows
from trainables.errors import InputError


def require_usable(
    text: str, data_root: str | Path | None, parts: Sequence[Part], started: Callable[[str, int], Tick]
) -> list[str]:
    """Make sure that no image will stop a run half-way.

    Prepared data was decoded when it was made; of other data every image is decoded here once, and it is noted beside
    the data that these files have been looked at. Images of other parts are not opened.

    Args:
        text: What the benchmark is called.
        data_root: Folder of the published datasets.
        parts: The parts to look at.
        started: Function that is told each long step's name and number of images; returns whom to tell of progress.

    Returns:
        A line for each image that cannot be read and is left out, as the benchmark's `skip_broken` asks.

    Raises:
        InputError: If an image cannot be read and is not to be left out, the prepared form was made from other files,
            or images are missing.
    """
    ref = reference(text)
    if not on_disk(ref):
        return []
    dataset = dataset_of(ref, data_root)
    manifest = dataset.manifest()
    if manifest is not None:
        _require_current(dataset, manifest, parts)
        return []
    listing = dataset.checked(dataset.as_it_is(), whole=True)
    if dataset.expected is not None and dataset.expected.total is not None:
        dataset.require_total({part: len(listing.parts[part]()[1]) for part in PARTS})
    return [line for part in parts for line in _look(dataset, listing, part, started)]


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


def _look(dataset: Dataset, listing: Listing, part: Part, started: Callable[[str, int], Tick]) -> list[str]:
    """Decode every image of a part once; returns a line for each that is left out."""
    images, _ = listing.parts[part]()
    if isinstance(images, Tensor):
        return []
    note, skip = dataset.note(part), dataset.ref.skip_broken
    known = noted(images, note)
    if known and not skip:  # what could not be read then may have been mended since, without a trace in the file
        note.unlink(missing_ok=True)
        known = None
    silent: Tick = lambda count: None  # noqa: E731
    tick = silent if known is not None else started(f"looking at the {part} images once", len(images))
    lines = list(unreadable_rows(images, note, tick).values())
    if lines and not skip:
        more = f" ({len(lines)} such images; `tausearch data check` names all)" if len(lines) > 1 else ""
        raise InputError(f"{lines[0]}{more}; --skip-broken leaves out what cannot be read")
    return lines
