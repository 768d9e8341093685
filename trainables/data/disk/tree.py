"""The files of a dataset's folder and the members of its archives, each read by itself."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from trainables.errors import InputError

Tick = Callable[[int], None]
"""Receives the number of items done since the last call."""

Progress = Callable[[str, int], Tick]
"""Receives the name and the number of items of a long step, 0 where unknown; returns the `Tick` of the step."""

PREPARED = "tausearch-prepared"  # folder of the prepared form, beside the published files; no part of the tree

_UNPACKABLE = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")  # Python can unpack them as a whole
_COMPRESSED = (*_UNPACKABLE, ".tar.zst")
_UNKNOWN = (".rar", ".7z")
_JUNK = {"Thumbs.db", "desktop.ini", "__MACOSX"}
_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name
_MOST_DIRECTORY = 2**28  # bytes of a zip file's list of members; a million members take 100 MB
_MOST_NAME = 2**20  # bytes of one long name, or of one set of extended fields, in a tar file
MOST_FILE = 2**28  # bytes of a file that is read as a whole and is no image
_MOST_TEXT = 2**26  # bytes of a list of images
_USABLE = 0.9  # share of the free disk
_MOST_LINKS = 40  # from one to the next, as in Linux
_SMALLEST = 4096  # bytes that a file takes on most file systems, however small it is


class _BoundedTarInfo(tarfile.TarInfo):
    """A member of a tar file whose extended header has a limited size, because tarfile reads it whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        headers = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        if member.type in (*headers, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK) and member.size > _MOST_NAME:
            raise tarfile.ReadError(f"an extended header has {member.size:,} bytes, at most {_MOST_NAME:,} are read")
        return member


class _BoundedFile(io.FileIO):
    """A zip file whose list of members has a limited size, because zipfile reads it whole."""

    def read(self, size: Any = -1, /) -> bytes:
        if size is not None and size > _MOST_DIRECTORY:
            raise OSError(f"its list of members has {size:,} bytes, at most {_MOST_DIRECTORY:,} are read")
        return super().read(size) or b""


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file outside archives."""

    path: str
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the file's content."""
        return Path(self.path).read_bytes()


@dataclass(frozen=True, slots=True)
class TarMember:
    """A member of an uncompressed tar file, found by its offset."""

    archive: str
    offset: int
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the member's content."""
        with open(self.archive, "rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A member of a zip file, found by its offset, so that any number of threads can read at once."""

    archive: str
    offset: int
    compressed: int
    method: int
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the member's content; a broken archive is an OSError or a `zlib.error`."""
        if self.compressed > self.size + self.size // 100 + 1024:  # no compression makes a file so much longer
            raise OSError("broken zip member")
        with open(self.archive, "rb") as file:
            file.seek(self.offset)
            head = file.read(_LOCAL_HEADER)
            if len(head) < _LOCAL_HEADER or head[:4] != b"PK\x03\x04":
                raise OSError("broken zip member")
            name, extra = struct.unpack("<HH", head[26:30])
            file.seek(name + extra, os.SEEK_CUR)
            content = file.read(self.compressed)
        if self.method == zipfile.ZIP_STORED:
            return content
        return zlib.decompressobj(-15).decompress(content, self.size)  # never more bytes than the directory states


Entry = DiskFile | TarMember | ZipMember


@dataclass(frozen=True)
class Tree:
    """All files of a folder."""

    root: Path
    entries: dict[str, Entry]  # by path below `root`; members of an archive as if it had been extracted in place
    closed: dict[str, str] = field(default_factory=dict)  # archives without access to single members, and the reason

    def content(self, path: str, most: int = MOST_FILE) -> bytes:
        """Return the bytes of a file; an unreadable file, or one of more than `most` bytes, is an InputError."""
        entry = self.entries[path]
        if entry.size > most:
            raise InputError(f"{self.root / path}: has {entry.size:,} bytes, at most {most:,} are read")
        try:
            return entry.read()
        except (OSError, zlib.error) as error:
            raise InputError(f"{self.root / path}: cannot be read ({error})") from error

    def text(self, path: str) -> str:
        """Return the text of a file; a file that is not UTF-8 or too large is an InputError."""
        try:
            return self.content(path, _MOST_TEXT).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.root / path}: is not a text file") from error

    def path_on_disk(self, path: str) -> str:
        """Return the full path of a file; a member of an archive is an InputError."""
        entry = self.entries[path]
        if not isinstance(entry, DiskFile):
            raise InputError(f"{self.root}: {path} lies in an archive; extract it")
        return entry.path

    def find(self, name: str) -> str | None:
        """Return the path of the least deep file with a name, if there is one."""
        return least_deep(path for path in self.entries if f"/{path}".endswith(f"/{name}"))

    def below(self, folder: str) -> dict[str, Entry]:
        """Return the files under a folder (`""` for all), by their path below that folder."""
        prefix = f"{folder}/" if folder else ""
        return {path[len(prefix) :]: entry for path, entry in self.entries.items() if path.startswith(prefix)}

    def folder_of(self, name: str) -> str | None:
        """Return the path of the least deep folder with a name, if there is one."""
        folders = (path.split("/")[:-1] for path in self.entries)
        return least_deep("/".join(parts[: parts.index(name) + 1]) for parts in folders if name in parts)

    @property
    def unpackable(self) -> list[str]:
        """The archives that Python can unpack, but whose members it cannot read one by one."""
        return [path for path in self.closed if path.lower().endswith(_UNPACKABLE)]

    def unpacked(self, scratch: Path, progress: Progress) -> Tree:
        """Unpack compressed archives into a new folder; a broken archive or too small a disk is an InputError."""
        scratch.mkdir()
        left = usable_bytes(scratch)
        for path in self.unpackable:
            tick = progress(f"unpacking {path}", 0)
            try:
                left = _unpack(self.root / path, scratch, left, tick)
            except Exception as error:  # a broken archive raises many kinds
                reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
                raise InputError(f"{self.root / path}: cannot be unpacked ({reason})") from error
        closed = {path: why for path, why in self.closed.items() if path not in self.unpackable}
        return Tree(self.root, {**self.entries, **open_tree(scratch).entries}, closed)


def least_deep(paths: Iterable[str]) -> str | None:
    """Return the path in the fewest folders, the first by name among equals; None without paths."""
    return min(paths, key=lambda path: (path.count("/"), path), default=None)


def open_tree(root: Path) -> Tree:
    """Return the files of a folder and the members of its archives, without reading or unpacking them.

    Hidden files, files of the operating system and the prepared form are left out. An extracted file takes the place
    of the same file in an archive. A folder or archive that cannot be read is an InputError.
    """
    entries: dict[str, Entry] = {}
    closed: dict[str, str] = {}
    for path, entry in files_below(root):
        name = path.lower()
        if name.endswith(_COMPRESSED):
            closed[path] = "is compressed as a whole, so its images cannot be read one by one"
        elif name.endswith(_UNKNOWN):
            closed[path] = "is of a kind that Python cannot read: extract it"
        elif name.endswith((".tar", ".zip")):
            parent = PurePosixPath(path).parent
            # Of members with one name `dict` keeps the last, as a program does that extracts them.
            for member, inner in dict(_members(root / path, entry.modified)).items():
                entries.setdefault(str(parent / member), inner)
        else:
            entries[path] = entry
    return Tree(root, dict(sorted(entries.items())), closed)


def files_below(root: Path, above: tuple[str, ...] = ()) -> Iterator[tuple[str, DiskFile]]:
    """Yield a folder's files, then those of its sub-folders, by name, but no hidden ones; links are followed."""
    real = os.path.realpath(root)
    if real in above:
        raise InputError(f"{root}: is a link to a folder that it lies in")
    folders = []
    try:
        for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
            if is_junk(entry.name):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            elif entry.is_file():
                stat = entry.stat()
                yield entry.name, DiskFile(entry.path, stat.st_size, int(stat.st_mtime))
            else:
                kind = "a link to nothing" if entry.is_symlink() else "no file and no folder"
                raise InputError(f"{entry.path}: is {kind}; remove it")
    except OSError as error:
        raise InputError(f"{error.filename or root}: cannot be listed ({error.strerror})") from error
    for folder in folders:
        for path, file in files_below(root / folder, (*above, real)):
            yield f"{folder}/{path}", file


def is_junk(name: str) -> bool:
    """Whether a file or folder is hidden, the operating system's or the prepared form."""
    return name.startswith(".") or name in _JUNK or name == PREPARED


def _members(archive: Path, modified: int) -> Iterator[tuple[str, Entry]]:
    """Yield the files in an archive, without those whose names lead out of the archive."""
    try:
        if archive.suffix.lower() == ".zip":
            with _BoundedFile(archive) as file, zipfile.ZipFile(file) as zipped:
                for info in zipped.infolist():
                    if info.is_dir() or not _is_inside(info.filename):
                        continue
                    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
                        raise InputError(f"{archive}: {info.filename!r} is encrypted or oddly compressed; extract it")
                    place = (info.header_offset, info.compress_size, info.compress_type)
                    yield info.filename, ZipMember(str(archive), *place, info.file_size, modified)
        else:
            yield from _with_links(archive, modified)
    except InputError:
        raise
    except Exception as error:  # a broken archive raises many kinds
        raise InputError(f"{archive}: cannot be read as an archive ({str(error) or type(error).__name__})") from error


def _with_links(archive: Path, modified: int) -> Iterator[tuple[str, TarMember]]:
    """Yield the files of a tar; a link to one of them is that file, as it is where the tar was extracted.

    A link may lead to a hidden file, or to another link. Of members with one name the last is taken.

    Raises:
        InputError: If a link leads to no file of the tar. It may lead to a folder, whose files would be missing.
    """
    files: dict[str, TarMember] = {}
    links: dict[str, str] = {}
    with tarfile.open(archive, "r:", tarinfo=_BoundedTarInfo) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            folder = posixpath.dirname(name) if member.issym() else ""
            target = posixpath.normpath(posixpath.join(folder, member.linkname))
            if member.isreg():
                files[name] = TarMember(str(archive), member.offset_data, member.size, modified)
                links.pop(name, None)
            elif member.islnk() and target in files:  # perhaps itself, of which a later member may be another version
                files[name] = files[target]
                links.pop(name, None)
            elif member.islnk() or member.issym():
                links[name] = target
                files.pop(name, None)
    for name in filter(_is_inside, [*files, *links]):
        target, steps = name, 0
        while target not in files and steps < _MOST_LINKS:
            target, steps = links.get(target, target), steps + 1
        if target not in files:
            raise InputError(f"{archive}: {name!r} is a link to no file of the archive; extract it or move it away")
        yield name, files[target]


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and not any(map(is_junk, PurePosixPath(name).parts))  # which `..` is, too


def usable_bytes(folder: Path) -> int:
    """Return how many bytes the preparation of a dataset may write below a folder."""
    return int(shutil.disk_usage(folder).free * _USABLE)


def _unpack(path: Path, scratch: Path, left: int, tick: Tick) -> int:
    """Unpack an archive that may write `left` bytes; returns how many may still be written."""
    with tarfile.open(path, tarinfo=_BoundedTarInfo) as archive:
        for member in archive:
            left -= max(member.size, _SMALLEST)
            if left < 0:
                raise OSError(f"its files need more than {_USABLE:.0%} of the free disk")
            archive.extract(member, scratch, filter="data")
            tick(1)
    return left
