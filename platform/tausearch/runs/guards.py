"""What guards a run while it is driven: one driver at a time, and room on the disk for what it writes.

The lock on a run directory falls with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tausearch.runs.directories import DrivenDirectory, Storage, nearest_folder
from trainables.errors import InputError

PICTURES = (".png", ".pdf", ".svg", ".jpg")
LEAST_FREE = 64 * 2**20  # bytes that the last checkpoints, the record and the best file surely fit in


def shortage(path: Path) -> str | None:
    """Return in a few words that the disk of a folder is too full for a run; None if it is not.

    Raises:
        OSError: If the folder does not exist any more.
    """
    free = shutil.disk_usage(path).free
    return f"has {free / 1e6:.0f} MB free, needs {LEAST_FREE / 1e6:.0f}" if free < LEAST_FREE else None


def require_space(path: Path) -> None:
    """Make sure that a storage root has room for a run.

    Raises:
        InputError: If the disk of the storage root is too full for a run.
    """
    if problem := shortage(nearest_folder(path)):
        raise InputError(f"--storage {path}: {problem}")


def require_output(storage: Storage, target: Path | None, option: str) -> None:
    """Make sure that what a user wants written is no file of a run, nor one that a storage root keeps for all runs.

    Args:
        storage: The storage root of the command; of others only run directories are known by their look.
        target: File or folder to write; None where it is left to the command.
        option: What named it, for the error.

    Raises:
        InputError: If something of tausearch's own could be lost.
    """
    if target is None:
        return
    place = target.resolve()
    runs = [folder for folder in (place, *place.parents) if (folder / "run.yaml").is_file()]
    kept = [each.resolve() for each in (storage.store, storage.mlflow_artifacts, storage.campaigns_folder)]
    beside = place.parent == storage.root.resolve() and place.name.startswith("mlflow.")
    if runs or beside or any(place.is_relative_to(each) for each in kept):
        owner = f"the run {runs[-1].name!r}" if runs else f"the storage {storage.root}"
        raise InputError(f"{option} {target}: lies among the files of {owner}; name a place outside")


def require_picture(storage: Storage, target: Path | None, option: str) -> None:
    """Make sure that a picture can be drawn to a file; see `require_output`.

    Raises:
        InputError: If its ending names no kind of picture, or something of tausearch's own could be lost.
    """
    if target is not None and target.suffix not in PICTURES:
        raise InputError(f"{option} {target}: must end in {', '.join(PICTURES)}")
    require_output(storage, target, option)


def require_new_folder(storage: Storage, folder: Path, option: str) -> None:
    """Make sure that an export writes into a folder of its own: a new or empty one outside of what a storage keeps.

    Raises:
        InputError: If it would overwrite something, or lie among the files of a run or a storage root.
    """
    require_output(storage, folder, option)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder}: is not a folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{option} {folder}: is not empty; name another folder")


@contextmanager
def nothing_left(*targets: Path | None) -> Iterator[None]:
    """Take away what a command has made if it does not end well, with the folders that it made on the way.

    Args:
        targets: Files and folders that the block may make; what exists when it begins stays, an empty folder empty.

    Yields:
        Nothing.
    """
    made = [path.absolute() for path in targets if path is not None and (not path.exists() or _is_empty(path))]
    before = {path: nearest_folder(path) for path in made}
    try:
        yield
    except BaseException:
        for path in made:
            _remove(path, before[path])
        raise


def _remove(path: Path, before: Path) -> None:
    """Remove a file or folder, and the folders above it that are empty and were not there before."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    if path == before:
        path.mkdir(exist_ok=True)
        return
    remove_empty(path.parent, before)


def remove_empty(path: Path, before: Path) -> None:
    """Remove a folder and those above it that were not there before, as far as they are empty."""
    for folder in (path, *path.parents):
        if folder == before:
            break
        with suppress(OSError):  # somebody else has put something there
            folder.rmdir()


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@contextmanager
def driver_lock(driven: DrivenDirectory, kind: str = "run") -> Iterator[None]:
    """Hold a run or campaign, so that there is one driver at a time; the lock falls with the process.

    A command that is refused leaves no lock file where there was none.

    Raises:
        InputError: If there is nothing of that name, another process drives it, or its folder cannot be written.
    """
    if not driven.lock_file.parent.is_dir():  # the lock would make it
        raise InputError(f"no {kind} named {driven.name!r} in {driven.lock_file.parent.parent}")
    known = driven.lock_file.exists()
    lock = FileLock(driven.lock_file, thread_local=False)  # a thread of the driver may end a run
    try:
        lock.acquire(timeout=1)  # seconds: whoever asks `is_driven` holds it for a moment
    except Timeout:
        raise InputError(f"{kind} {driven.name!r} is being driven by another process") from None
    except OSError as error:
        raise InputError(f"{driven.lock_file}: cannot be locked ({error.strerror})") from error
    try:
        yield
    except InputError:
        if not known:  # while it is held: whoever waits for this file sees that it is gone, and makes another
            with suppress(OSError):
                driven.lock_file.unlink()
        raise
    finally:
        lock.release()


def is_driven(driven: DrivenDirectory) -> bool:
    """Whether a living process drives it; whoever may only read can ask, and no other reader is in the way."""
    try:
        file = os.open(driven.lock_file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # nobody has driven it yet, or its folder cannot be read
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
