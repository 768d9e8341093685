"""What lies in a dataset's folder: its files and the members of its archives alike, each readable by itself."""

from __future__ import annotations

import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from trainables.errors import InputError

PREPARED = "tausearch-prepared"
"""Folder of the tool's own form of a dataset, beside what was downloaded; no part of the tree."""

_JUNK = {"Thumbs.db", "desktop.ini", "__MACOSX"}
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_UNKNOWN = (".rar", ".7z")
_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file that lies on disk by itself, not in an archive."""

    path: str
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the file's content."""
        return Path(self.path).read_bytes()


@dataclass(frozen=True, slots=True)
class TarMember:
    """A member of a tar file that is not compressed, found again by its place in it."""

    archive: str
    offset: int
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the file's content."""
        with open(self.archive, "rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A member of a zip file, found again by its place in it; any number of threads can read at once."""

    archive: str
    offset: int
    compressed: int
    method: int
    size: int
    modified: int

    def read(self) -> bytes:
        """Return the member's content.

        Raises:
            OSError: If the archive is broken where the member lies.
        """
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
        return zlib.decompressobj(-15).decompress(content, self.size)  # a broken member could say more than it holds


Entry = DiskFile | TarMember | ZipMember


@dataclass(frozen=True)
class Tree:
    """All files of a folder, by their path below it.

    Attributes:
        root: The folder that paths are relative to.
        entries: Files by path, with `/` between folders; members of an archive as if it had been extracted there.
        closed: Archives whose members cannot be read one by one, each with the reason.
    """

    root: Path
    entries: dict[str, Entry]
    closed: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Read a text file of the tree.

        Returns:
            The file's content as text.

        Raises:
            InputError: If the file is not UTF-8.
        """
        try:
            return self.entries[path].read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.root / path}: is not a text file") from error

    def path_on_disk(self, path: str) -> str:
        """Return the path at which a file lies by itself, not in an archive.

        Raises:
            InputError: If the file lies in an archive.
        """
        entry = self.entries[path]
        if not isinstance(entry, DiskFile):
            raise InputError(f"{self.root}: {path} lies in an archive; extract it")
        return entry.path

    def find(self, name: str) -> str | None:
        """Return the path of the file of that name that lies least deep, if there is one."""
        found = [path for path in self.entries if path == name or path.endswith(f"/{name}")]
        return min(found, key=lambda path: (path.count("/"), path), default=None)

    def below(self, folder: str) -> dict[str, Entry]:
        """Return the files under a folder (`""` for all), by their path from there."""
        prefix = f"{folder}/" if folder else ""
        return {path[len(prefix) :]: entry for path, entry in self.entries.items() if path.startswith(prefix)}

    def folder_of(self, name: str) -> str | None:
        """Return the path of the folder of that name that lies least deep, if there is one."""
        found = set()
        for path in self.entries:
            parts = path.split("/")[:-1]
            if name in parts:
                found.add("/".join(parts[: parts.index(name) + 1]))
        return min(found, key=lambda path: (path.count("/"), path), default=None)


def open_tree(root: Path) -> Tree:
    """List the files of a folder and the members of the archives in it; nothing is read or unpacked.

    Hidden files, files of the operating system and the prepared form are left out. What is extracted goes before the
    same file in an archive.

    Args:
        root: The folder whose files to list.

    Returns:
        The tree of all files that can be read one by one.

    Raises:
        InputError: If the folder cannot be listed or an archive cannot be opened.
    """
    entries: dict[str, Entry] = {}
    closed: dict[str, str] = {}
    for path, entry in _files(root):
        name = path.lower()
        if name.endswith(_COMPRESSED):
            closed[path] = "is compressed as a whole, so its images cannot be read one by one"
        elif name.endswith(_UNKNOWN):
            closed[path] = "is of a kind that Python cannot read: extract it"
        elif name.endswith((".tar", ".zip")):
            parent = PurePosixPath(path).parent
            for member, inner in _members(root / path, entry.modified):
                entries.setdefault(str(parent / member), inner)
        else:
            entries[path] = entry
    return Tree(root, dict(sorted(entries.items())), closed)


def _files(root: Path, above: tuple[str, ...] = ()) -> Iterator[tuple[str, DiskFile]]:
    """Yield all files of a folder, those of a folder before its sub-folders', in order of their names."""
    real = os.path.realpath(root)
    if real in above:
        raise InputError(f"{root}: is a link to a folder that it lies in")
    try:
        found = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{root}: cannot be listed ({error.strerror})") from error
    folders = []
    for entry in found:
        if _is_junk(entry.name):
            continue
        if entry.is_dir():
            folders.append(entry.name)
        elif entry.is_file():
            stat = entry.stat()
            yield entry.name, DiskFile(entry.path, stat.st_size, int(stat.st_mtime))
        else:
            kind = "a link to nothing" if entry.is_symlink() else "no file and no folder"
            raise InputError(f"{entry.path}: is {kind}; remove it")
    for folder in folders:
        for path, file in _files(root / folder, (*above, real)):
            yield f"{folder}/{path}", file


def _is_junk(name: str) -> bool:
    return name.startswith(".") or name in _JUNK or name == PREPARED


def _members(archive: Path, modified: int) -> Iterator[tuple[str, Entry]]:
    """Yield the files in an archive; names that would lead out of it are left out."""
    try:
        if archive.suffix.lower() == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                for info in zipped.infolist():
                    if info.is_dir() or not _is_inside(info.filename):
                        continue
                    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
                        raise InputError(f"{archive}: {info.filename!r} is encrypted or oddly compressed; extract it")
                    place = (info.header_offset, info.compress_size, info.compress_type)
                    yield info.filename, ZipMember(str(archive), *place, info.file_size, modified)
        else:
            with tarfile.open(archive, "r:") as tar:
                for member in tar:
                    if member.isreg() and _is_inside(member.name):
                        name = member.name.removeprefix("./")
                        yield name, TarMember(str(archive), member.offset_data, member.size, modified)
    except (OSError, ValueError, NotImplementedError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise InputError(f"{archive}: cannot be read as an archive ({str(error) or type(error).__name__})") from error


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not name.startswith("/") and ".." not in parts and not any(_is_junk(part) for part in parts)
