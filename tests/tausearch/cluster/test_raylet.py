"""A raylet that has died is noticed, whether or not anybody has waited for its process."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch.cluster import raylet_watch as raylet
from tausearch.cluster import raylet_watched


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A child of this process that is called what Ray calls its own."""
    monkeypatch.setattr(raylet, "_EVERY", 0.02)
    monkeypatch.setattr(raylet, "GRACE_SECONDS", 0.1)
    sleep = shutil.copy(shutil.which("sleep") or "sleep", tmp_path / "raylet")
    with subprocess.Popen([sleep, "1000"]) as process:
        yield process
        process.kill()


def test_the_death_of_one_of_two_is_told(running: subprocess.Popen[bytes]) -> None:
    told = threading.Event()
    with subprocess.Popen(running.args) as other, raylet_watched(told.set):
        other.kill()
        assert told.wait(60)


@pytest.mark.parametrize("reaped", [True, False])
def test_its_death_is_told(running: subprocess.Popen[bytes], reaped: bool) -> None:
    told = threading.Event()
    with raylet_watched(told.set):
        assert not told.wait(0.3)
        running.kill()
        if reaped:
            running.wait()
        assert told.wait(60)


def test_one_that_goes_after_the_block_is_in_order(running: subprocess.Popen[bytes]) -> None:
    told = threading.Event()
    with raylet_watched(told.set):
        running.kill()  # Ray's own shutdown follows at once
    assert not told.wait(0.5)
