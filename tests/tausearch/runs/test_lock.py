"""One driver at a time, whichever of its threads lets go."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tausearch.runs import RunDirectory, driver_lock, is_driven
from tests.support.drivers.services import wait_until
from trainables.errors import InputError


def test_a_lock_that_another_thread_lets_go_is_free(tmp_path: Path) -> None:
    directory, held = RunDirectory(tmp_path), ExitStack()
    held.enter_context(driver_lock(directory))
    assert is_driven(directory)
    with pytest.raises(InputError, match="driven by another process"), driver_lock(directory):
        pass
    thread = threading.Thread(target=held.close)
    thread.start()
    thread.join()
    assert not is_driven(directory)
    with driver_lock(directory):
        assert is_driven(directory)


def test_who_looks_at_a_run_hinders_nobody_who_looks_and_without_locks_nothing_is_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(tmp_path)
    directory.lock_file.touch()
    with directory.lock_file.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_driven(directory)

    def without_locks(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("tausearch.runs.guards.fcntl.flock", without_locks)
    assert not is_driven(directory)


def test_a_refused_command_leaves_no_lock_file_where_there_was_none(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for known in (False, True):
        with pytest.raises(InputError, match="refused"), driver_lock(directory):
            raise InputError("refused")
        assert directory.lock_file.exists() == known
        with driver_lock(directory):
            assert is_driven(directory)


def test_a_driver_that_fails_otherwise_leaves_its_lock_file(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    with pytest.raises(RuntimeError), driver_lock(directory):
        raise RuntimeError
    assert directory.lock_file.exists() and not is_driven(directory)


def test_whoever_waits_while_a_command_is_refused_holds_the_run_alone(tmp_path: Path) -> None:
    directory, ready, done = RunDirectory(tmp_path), threading.Event(), threading.Event()

    def wait_and_hold() -> None:
        ready.wait(60)
        with driver_lock(directory):
            done.wait(60)

    waiting = threading.Thread(target=wait_and_hold)
    waiting.start()
    with pytest.raises(InputError, match="refused"), driver_lock(directory):
        ready.set()
        time.sleep(0.2)  # in which the other opens the file that goes
        raise InputError("refused")
    wait_until(lambda: is_driven(directory), 60, "the other to hold it")
    try:
        with pytest.raises(InputError, match="driven by another process"), driver_lock(directory):
            pass
        assert directory.lock_file.exists()
    finally:
        done.set()
        waiting.join()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (errno.ENOSYS, r"\(Function not implemented\); mount its file system with file locks"),
        (errno.ENOLCK, r"\(No locks available\); mount its file system with file locks"),
        (errno.EIO, r"\(Input/output error\)$"),
    ],
)
def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, why: str
) -> None:
    def flock(*_: object) -> None:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(InputError, match=f"driver.lock: cannot be locked {why}"), driver_lock(RunDirectory(tmp_path)):
        pass
