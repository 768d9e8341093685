"""Write the prepared form of a dataset; see `manifest`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from trainables.data.disk import manifest
from trainables.data.disk.decoding import encode_png, size
from trainables.data.disk.listing import ImageFiles, Listing
from trainables.data.disk.manifest import Manifest, PreparedFile, PreparedForm, PreparedPart
from trainables.data.disk.parquet import ParquetImages
from trainables.data.disk.passes import each_image, stored
from trainables.data.disk.tree import Tick, usable_bytes
from trainables.data.images import StoredImages
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.errors import InputError

ROWS_PER_GROUP = 16  # rows of a Parquet row group: reading one image reads its group
SHARD_BYTES = 500_000_000
ARRAY_LIMIT = 32 * 2**30  # bytes of pixels up to which the array is the default


def choose_form(
    form: PreparedForm | None, parts: Sequence[Tensor | StoredImages], folder: Path, tick: Tick
) -> PreparedForm:
    """Return `form`, by default the array if its pixels fit 32 GiB and the disk; too small a disk is an InputError."""
    free = usable_bytes(folder)
    needed: dict[PreparedForm, int] = {"array": sum(_decoded_bytes(images, tick) for images in parts)}
    needed["parquet"] = sum(_encoded_bytes(images) for images in parts)
    chosen: PreparedForm = form or ("array" if needed["array"] <= min(ARRAY_LIMIT, free) else "parquet")
    if needed[chosen] > free:
        room, have = needed[chosen] / 1e9, free / 1e9
        raise InputError(f"{folder.parent}: {chosen} needs {room:.1f} GB of disk, {have:.1f} GB can be used")
    return chosen


def _decoded_bytes(images: Tensor | StoredImages, tick: Tick) -> int:
    """Return the bytes of all images as RGB pixels, from the heads of image files."""
    whole = stored(images)

    def area(row: int) -> int:
        content = whole.encoded(row)
        height, width = whole.image(row).shape[1:] if content is None else size(content, whole.name(row))
        return height * width

    return sum(3 * found for found in _sound(each_image(whole, area, tick)))


def _encoded_bytes(images: Tensor | StoredImages) -> int:
    """Return the bytes of image files, or of their pixels as a bound; 0 where reading would be necessary."""
    if isinstance(images, ImageFiles):
        return sum(entry.size for entry in images.entries)
    if isinstance(images, ParquetImages):
        return sum(file.size for file in images.files)
    return images.numel() if isinstance(images, Tensor) else 0


def write(
    listing: Listing,
    form: PreparedForm,
    published: Mapping[SplitName, tuple[str, Sequence[str]]],
    folder: Path,
    tick: Tick,
) -> Manifest:
    """Return the manifest of a dataset's prepared form, written into an empty folder; unreadable images: InputError.

    `published` has of each part the digest of its published images, and a line for each that the listing leaves out.
    """
    parts: dict[SplitName, PreparedPart] = {}
    for part in SPLIT_NAMES:
        images, labels = listing.load(part)
        if form == "array":
            names = _write_array(part, stored(images), labels, folder, tick)
        else:
            names = _write_shards(part, stored(images), labels, listing.class_names, folder, tick)
        files = {name: PreparedFile((folder / name).stat().st_size, manifest.sha256(folder / name)) for name in names}
        source, left_out = published[part]
        parts[part] = PreparedPart(len(labels), source, files, tuple(left_out))
    written = Manifest(manifest.VERSION, form, listing.class_names, listing.layout, parts)
    (folder / manifest.MANIFEST).write_text(json.dumps(asdict(written), indent=1) + "\n", encoding="utf-8")
    return written


def _write_array(part: SplitName, images: StoredImages, labels: Tensor, folder: Path, tick: Tick) -> list[str]:
    pixels, index = manifest.array_files(part)
    places, offset = [], 0
    with (folder / pixels).open("wb") as file:
        _write_header(file, 0)
        for image in _sound(each_image(images, images.image, tick)):
            _, height, width = image.shape
            file.write(image.permute(1, 2, 0).contiguous().numpy().data)
            places.append((offset, height, width))
            offset += 3 * height * width
        file.seek(0)
        _write_header(file, offset)
    columns = dict(zip(("offset", "height", "width"), zip(*places, strict=True), strict=True))
    names = [_short(images.name(row)) for row in range(len(images))]
    pq.write_table(pa.table({"path": names, "label": labels.numpy(), **columns}), folder / index)
    return [pixels, index]


def _write_header(file: Any, count: int) -> None:
    """Write the head of a `.npy` file of uint8; its length is the same for every count."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, header)


def _write_shards(
    part: SplitName, images: StoredImages, labels: Tensor, classes: tuple[str, ...], folder: Path, tick: Tick
) -> list[str]:
    """Write shards in the layout of Hugging Face's Image feature, with the class names in their metadata."""
    schema = _schema(classes)
    shards: list[Path] = []
    writer, written = None, 0
    for rows in _groups(part, images, labels, tick):
        if writer is None or written > SHARD_BYTES:
            if writer is not None:
                writer.close()
            shards.append(folder / f"{part}-{len(shards):05d}.parquet")
            writer = pq.ParquetWriter(shards[-1], schema, compression="none", use_dictionary=["label"])
            written = 0
        writer.write_table(pa.Table.from_pylist(rows, schema=schema), row_group_size=ROWS_PER_GROUP)
        written += sum(len(row["image"]["bytes"]) for row in rows)
    assert writer is not None, "a part has at least one image"
    writer.close()
    names = [f"{part}-{number:05d}-of-{len(shards):05d}.parquet" for number in range(len(shards))]
    for shard, name in zip(shards, names, strict=True):
        shard.rename(folder / name)
    return names


def _groups(part: SplitName, images: StoredImages, labels: Tensor, tick: Tick) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each row group, after decoding every image once."""

    def encoded(row: int) -> tuple[str, bytes]:
        image, content = images.image(row), images.encoded(row)
        path = images.name(row)
        return (f"{part}-{row}.png", encode_png(image)) if content is None else (_short(path), content)

    group: list[dict[str, Any]] = []
    for row, (path, content) in enumerate(_sound(each_image(images, encoded, tick))):
        group.append({"image": {"bytes": content, "path": path}, "label": int(labels[row])})
        if len(group) == ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def _schema(classes: tuple[str, ...]) -> pa.Schema:
    features = {"image": {"_type": "Image"}, "label": {"names": list(classes), "_type": "ClassLabel"}}
    columns = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())]
    return pa.schema(columns, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _short(path: str) -> str:
    """Return class folder and name of an image file, with question marks for bytes that are not UTF-8."""
    return "/".join(path.split("/")[-2:]).encode("utf-8", "replace").decode()


def _sound(found: Iterator[Any]) -> Iterator[Any]:
    """Yield the results for all images; raise the error of the first unreadable one."""
    for each in found:
        if isinstance(each, InputError):
            raise InputError(f"{each}; `tausearch data check` names every image that cannot be read")
        yield each
