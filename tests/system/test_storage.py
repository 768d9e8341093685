"""Storage that fills up or goes away in the middle of a search: a message, and a search that can be resumed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tausearch.runs import Record, RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

TRIALS = 4  # storage is looked at every two seconds, by when it must not have ended
SEARCH = ["search", "digits", "finetune", "--epochs", "1", "--trials", str(TRIALS), "--max-concurrent-trials", "1"]


def mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


@pytest.fixture
def mount_point(tmp_path: Path) -> Iterator[Path]:
    target = tmp_path / "mounted"
    target.mkdir()
    yield target
    subprocess.run(["umount", "--lazy", str(target)], capture_output=True, check=False)


def search_until(storage: Path, disturb: Callable[[], None]) -> tuple[int, str]:
    """Start a search, disturb it after three tasks; returns exit code and the last line of stderr."""
    command = [sys.executable, "-m", "tausearch", *SEARCH, "--name", "hurt", "--storage", str(storage)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    record, deadline = Record(storage / "hurt" / "record"), time.monotonic() + 500
    while sum(trial.tasks_done for trial in record.trials()) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    disturb()
    _, errors = process.communicate(timeout=500)
    return process.returncode, errors.strip().splitlines()[-1]


def assert_resumes(storage: Path, call: Callable[..., str]) -> None:
    call("resume", "hurt", "--storage", str(storage))
    trials = Record(RunDirectory(storage / "hurt").record).trials()
    assert [trial.status for trial in trials] == ["complete"] * TRIALS
    assert [[row["task"] for row in trial.rows] for trial in trials] == [[1, 2, 3, 4, 5]] * TRIALS


def test_a_full_disk(call: Callable[..., str], mount_point: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=200m", "tmpfs", str(mount_point))
    filler = mount_point / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:  # what a buffer still held would fail once more at the end
            try:
                while True:
                    file.write(b"0" * 2**16)
            except OSError:
                return

    code, message = search_until(mount_point, fill)
    assert (
        code == 1
        and message.startswith("tausearch: storage")
        and f"tausearch resume hurt --storage {mount_point}" in message
    )
    assert "MB free, needs" in message or "No space left" in message
    filler.unlink()
    assert_resumes(mount_point, call)


def test_storage_that_goes_away(call: Callable[..., str], mount_point: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    mount("--bind", str(real), str(mount_point))

    def unmount() -> None:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)

    code, message = search_until(mount_point, unmount)
    assert code == 1 and message.startswith("tausearch: storage") and "is gone" in message
    mount("--bind", str(real), str(mount_point))
    assert_resumes(mount_point, call)
