"""Guards of a run: one driver at a time, free disk space, and no command that overwrites its files.

What a `require_` function refuses is an `InputError`, which names the option.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tausearch.runs.directories import DrivenDirectory, RunDirectory
from tausearch.runs.storage import Storage, nearest_folder, try_to_write
from trainables.errors import InputError

PICTURES = (".png", ".pdf", ".svg", ".jpg")
PICTURE_MARK = "written by tausearch"  # stands in the metadata of every picture that the tool writes
# By ending what is in every file that the tool writes; of other endings that of a page.
_MARKS = {**dict.fromkeys(PICTURES, PICTURE_MARK.encode()), ".csv": b"true_label"}
_MARK_OF_A_PAGE = b'<meta name="generator" content="tausearch">'
_MOST_READ = 2**26  # bytes of a file that may be replaced
UNFINISHED = ".unfinished"  # begins a folder in the target of an export; a kill leaves it, the next export removes it
LEAST_FREE = 64 * 2**20  # bytes; enough for the last checkpoints, the record and the best file


def shortage(path: Path) -> str | None:
    """Return how much disk space a run lacks, in words; raises an `OSError` if the folder no longer exists."""
    free = shutil.disk_usage(path).free
    return f"has {free / 1e6:.0f} MB free, needs {LEAST_FREE / 1e6:.0f}" if free < LEAST_FREE else None


def require_space(path: Path) -> None:
    """Raise an `InputError` if the disk of a storage root is too full for a run."""
    if problem := shortage(nearest_folder(path)):
        raise InputError(f"--storage {path}: {problem}")


def require_output(storage: Storage, target: Path | None, option: str) -> None:
    """Refuse an output path among the files of any run, or among the shared files of the command's storage root."""
    if target is None:
        return
    place, root = target.resolve(), storage.root.resolve()
    above = [RunDirectory(folder) for folder in (place, *place.parents)]
    # A user may have a `run.yaml`, too. A run elsewhere has been locked by its driver.
    runs = [each for each in above if each.exists() and (each.path.parent == root or each.lock_file.exists())]
    kept = [each.resolve() for each in (storage.cache, storage.mlflow_artifacts, storage.campaigns_folder)]
    beside = place.parent == root and place.name.startswith("mlflow.")
    if runs or beside or any(place.is_relative_to(each) for each in kept):
        owner = f"the run {runs[-1].name!r}" if runs else f"the storage {storage.root}"
        raise InputError(f"{option} {target}: lies among the files of {owner}; name a place outside")


def require_replaceable(target: Path | None, option: str) -> None:
    """Refuse a file that is there and that this tool has not written; an empty one is replaced, too."""
    if target is None or not target.is_file():
        return
    mark = _MARKS.get(target.suffix, _MARK_OF_A_PAGE)
    with target.open("rb") as file:
        content = file.read(_MOST_READ)
    if content and mark not in content:
        raise InputError(_not_ours(target, option))


def require_figures(folder: Path, names: Iterable[str], option: str) -> None:
    """Refuse a file in the place of a figure, NAME.png, NAME.pdf or NAME.csv, that this tool has not written."""
    for picture in (folder / f"{name}.png" for name in names):
        for each in (picture, picture.with_suffix(".pdf")):
            require_replaceable(each, option)
        table = picture.with_suffix(".csv")  # has no mark: it is the tool's beside a picture that is
        if table.exists() and not picture.exists():
            raise InputError(_not_ours(table, option))


def _not_ours(target: Path, option: str) -> str:
    return f"{option} {target}: exists and was not written by tausearch, so it is not replaced"


def require_page(storage: Storage, target: Path | None, option: str) -> None:
    """Raise an `InputError` for a page that `require_output` or `require_replaceable` refuses."""
    require_output(storage, target, option)
    require_replaceable(target, option)


def require_picture(storage: Storage, target: Path | None, option: str, beside: Sequence[Path] = ()) -> None:
    """Refuse a picture that cannot be written, or what is written with it: the files `beside`, and the PDF of a PNG."""
    if target is not None and target.suffix not in PICTURES:
        raise InputError(f"{option} {target}: must end in {', '.join(PICTURES)}")
    require_output(storage, target, option)
    if target is not None:
        require_writable(target, option)
    same_as_pdf = [target.with_suffix(".pdf")] if target is not None and target.suffix == ".png" else []
    for each in (target, *same_as_pdf, *beside):
        require_replaceable(each, option)


def require_writable(target: Path, option: str) -> None:
    """Refuse a file that cannot be written; a probe is written and removed in the nearest existing folder."""
    try:
        if target.exists():
            with target.open("ab"):  # a folder, or a file that is not ours
                return
        try_to_write(target.absolute().parent)
    except OSError as error:
        raise InputError(f"{option} {target}: cannot be written ({error.strerror})") from error


def require_new_folder(storage: Storage, folder: Path, option: str) -> None:
    """Raise an `InputError` for a folder that `require_output` refuses, that has content, or that cannot be written."""
    require_output(storage, folder, option)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder}: is not a folder")
    if folder.is_dir() and not is_empty(folder):
        raise InputError(f"{option} {folder}: is not empty; name another folder")
    require_writable_folder(folder, option)


def require_writable_folder(folder: Path, option: str) -> None:
    """Raise an `InputError` for a folder that cannot be made or written into; names the option."""
    try:
        try_to_write(folder.absolute())
    except OSError as error:
        raise InputError(f"{option} {folder}: cannot be written ({error.strerror})") from error


@contextmanager
def remove_on_error(*targets: Path | None) -> Iterator[None]:
    """Remove the files and folders that the block has made, and the folders above them, if the block raises.

    Targets that exist before stay as they are, except that an empty folder is emptied.
    """
    made = [path.absolute() for path in targets if path is not None and (not path.exists() or is_empty(path))]
    before = {path: nearest_folder(path) for path in made}
    try:
        yield
    except BaseException:
        for path in made:
            was_empty = path == before[path]  # a mount point and a link to a folder stay, too
            for each in path.glob("*") if was_empty else (path,):
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink(missing_ok=True)
            if not was_empty:
                remove_empty(path.parent, before[path])
        raise


def remove_empty(path: Path, before: Path) -> None:
    """Remove the empty folders from `path` up to `before`, which stays."""
    for folder in (path, *path.parents):
        if folder == before:
            break
        with suppress(OSError):  # not empty
            folder.rmdir()


def remove_empty_root(storage: Storage, before: Path) -> None:
    """Remove the storage root of a refused command if it has made it, with the cache's folder, which trials make."""
    if not before.is_relative_to(storage.root):
        remove_empty(storage.cache, before)


def is_empty(path: Path) -> bool:
    """Whether a path is a folder without content, or with that of unfinished exports alone."""
    return path.is_dir() and all(each.name.startswith(UNFINISHED) for each in path.iterdir())


@contextmanager
def driver_lock(driven: DrivenDirectory, kind: str = "run") -> Iterator[None]:
    """Lock a run or campaign, so that it has one driver at a time; the lock is released when the process exits.

    If the block raises an `InputError`, a new lock file is removed.

    Raises:
        InputError: If the folder does not exist or cannot be written, or another process drives it.
    """
    if not driven.lock_file.parent.is_dir():  # FileLock would make the folder
        storage = Storage(driven.lock_file.parent.parent)
        raise InputError(f"no {kind} named {driven.name!r} in {storage.root}{storage.hint_for(driven.name)}")
    known = driven.lock_file.exists()
    # Another thread of the driver may release the lock. A soft lock would outlive a driver that was killed.
    lock = FileLock(driven.lock_file, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=1)  # seconds; `is_driven` of another process holds the lock for a moment
    except Timeout:
        raise InputError(f"{kind} {driven.name!r} is being driven by another process") from None
    except OSError as error:
        why, mend = error.strerror, ""
        if error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            mend = "; mount its file system with file locks, or name another --storage"
        raise InputError(f"{driven.lock_file}: cannot be locked ({why}){mend}") from error
    try:
        yield
    except InputError:
        if not known:  # while locked: a process that waits for this file notices, and makes a new one
            with suppress(OSError):
                driven.lock_file.unlink()
        raise
    finally:
        lock.release()


def is_driven(driven: DrivenDirectory) -> bool:
    """Whether a living process drives a run or campaign; needs read access only, and readers never block readers."""
    try:
        file = os.open(driven.lock_file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # no driver yet, or the folder cannot be read
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False
