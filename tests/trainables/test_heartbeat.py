"""Progress inside a task: written at most once a second, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.methods.tiny_trials import tiny_context, tiny_task
from trainables.methods.training import fit
from trainables.state import Epoch, Heartbeat, heartbeat as module, read_heartbeat


def test_every_epoch_of_a_task_is_told_after_it_is_done() -> None:
    told: list[tuple[Epoch, int]] = []
    steps: list[float] = []
    context = tiny_context(epochs=3, on_epoch=lambda epoch: told.append((epoch, len(steps))))

    def step(batch: object, factor: float) -> torch.Tensor:
        steps.append(factor)
        return torch.tensor(1.0)

    fit(tiny_task(context, 2), context, step)
    assert told == [(Epoch(2, 1, 3), 2), (Epoch(2, 2, 3), 4), (Epoch(2, 3, 3), 6)]  # 6 images, 4 a step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_it_is_written_now_and_then(tmp_path: Path, clock: list[float]) -> None:
    folder = tmp_path / "state" / "trial-00003"
    heartbeat = Heartbeat(folder)
    heartbeat(Epoch(1, 1, 50))
    assert not folder.exists() and read_heartbeat(folder) is None  # a quick task leaves nothing
    clock[0] += 1.0
    heartbeat(Epoch(1, 2, 50))
    heartbeat(Epoch(1, 3, 50))
    assert read_heartbeat(folder) == Epoch(task=1, done=2, of=50)
    clock[0] += 1.0
    heartbeat(Epoch(1, 4, 50))
    assert read_heartbeat(folder) == Epoch(1, 4, 50)
    assert (
        Heartbeat(folder).folder == folder and read_heartbeat(folder) is None
    )  # another attempt begins the task again


@pytest.mark.parametrize("content", ["", "1 2", "1 2 x", "1 2 3 4"])
def test_half_a_line_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "epoch.txt").write_text(content)
    assert read_heartbeat(tmp_path) is None


def test_a_run_directory_that_is_not_there_is_not_made(tmp_path: Path, clock: list[float]) -> None:
    """Else a checkpoint could be written after it, on the disk of a machine that does not see the storage."""
    heartbeat = Heartbeat(tmp_path / "run" / "state" / "trial-00000")
    clock[0] += 9.0
    heartbeat(Epoch(1, 1, 2))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, clock: list[float]) -> None:
    (tmp_path / "state").write_text("a file")
    heartbeat = Heartbeat(tmp_path / "state" / "trial-00000")
    clock[0] += 9.0
    heartbeat(Epoch(1, 1, 2))
    assert (tmp_path / "state").read_text() == "a file" and read_heartbeat(heartbeat.folder) is None
