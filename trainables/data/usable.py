"""Check that the dataset of a benchmark is fit for a run: images readable, prepared form up to date."""

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
    """Check the images of some parts, so that none stops a run half-way.

    Prepared images were decoded when they were written. Other images are decoded here, once: a note beside the data
    keeps the result. Images of other parts are not opened.

    Args:
        text: Name of the benchmark with its options.
        data_root: Folder of the published datasets.
        parts: The parts to check.
        started: Receives the name and number of images of each long step; returns the function for its progress.

    Returns:
        A line for each unreadable image that `skip_broken` leaves out.

    Raises:
        InputError: If an image is missing or unreadable, or the prepared form was made from other files.
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
        return  # the published files are removed or still packed: nothing to compare with
    for part in parts:
        images, _ = found.parts[part]()
        if found.class_names != manifest.classes or stored(images).digest != manifest.parts[part].source:
            raise InputError(
                f"benchmark {str(dataset.ref)!r}: {dataset.prepared} was made from other files than lie in"
                f" {dataset.home} now; run `tausearch data prepare` again, or remove it"
            )


def _look(dataset: Dataset, listing: Listing, part: Part, started: Callable[[str, int], Tick]) -> list[str]:
    """Return a line for each image of a part that is left out; every image is decoded unless a note knows it."""
    images, _ = listing.parts[part]()
    if isinstance(images, Tensor):
        return []
    note, skip = dataset.note(part), dataset.ref.skip_broken
    known = noted(images, note)
    if known and not skip:  # an image may have been repaired without a change of the digest
        note.unlink(missing_ok=True)
        known = None
    silent: Tick = lambda count: None  # noqa: E731
    tick = silent if known is not None else started(f"looking at the {part} images once", len(images))
    lines = list(unreadable_rows(images, note, tick).values())
    if lines and not skip:
        more = f" ({len(lines)} such images; `tausearch data check` names all)" if len(lines) > 1 else ""
        raise InputError(f"{lines[0]}{more}; --skip-broken leaves out what cannot be read")
    return lines
