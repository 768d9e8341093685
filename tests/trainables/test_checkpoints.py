"""Which state a trial that is started again goes on from, and which files it leaves."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from trainables.state import STATE_FILE, Checkpoints, State, checkpoint_after, newest_checkpoint
from trainables.state.files import manifest_of


def after(tasks: int) -> State:
    """A state with one more constant after every task."""
    experts = {f"expert/{t}": torch.full((8,), float(t)) for t in range(tasks)}
    return State({"last": torch.tensor(tasks)}, experts, {"done": tasks})


def tasks_of(state: State | None) -> int:
    """The tasks after which a state was written; its constants are those of that time."""
    assert state is not None
    done = state.values["done"]
    assert isinstance(done, int) and state.constant.keys() == after(done).constant.keys()
    return done


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The folder of a trial after four tasks."""
    checkpoints = Checkpoints(tmp_path / "trial")
    for tasks in range(1, 5):
        checkpoints.write(tasks, after(tasks))
    return tmp_path / "trial"


def test_the_newest_two_are_kept_and_each_constant_is_written_once(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir() if path.is_dir()) == ["task-003", "task-004"]
    assert len(list(written.glob("*.safetensors"))) == 4


def test_a_trial_goes_on_from_what_the_record_has(written: Path) -> None:
    assert [tasks_of(Checkpoints(written).read(tasks)) for tasks in (3, 4, 9)] == [3, 4, 4]
    assert Checkpoints(written).read(2) is None and Checkpoints(written).read(0) is None


def test_a_trial_that_goes_on_writes_no_constant_again(written: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in written.glob("*.safetensors")}
    again = Checkpoints(written)
    again.read(3)
    again.write(4, after(4))
    again.write(5, after(5))
    now = {path: path.stat().st_mtime_ns for path in written.glob("*.safetensors")}
    assert len(now) == 5 and now.items() >= before.items()
    assert tasks_of(Checkpoints(written).read(5)) == 5


def test_what_was_cut_short_is_passed_over(written: Path) -> None:
    state = checkpoint_after(4, written) / STATE_FILE
    state.write_bytes(state.read_bytes()[:-4])
    assert newest_checkpoint(written, 4) == checkpoint_after(3, written)


def test_a_checkpoint_needs_its_constants(written: Path) -> None:
    files = manifest_of(checkpoint_after(4, written))
    files["expert/3"].path_in(written).unlink()
    assert tasks_of(Checkpoints(written).read(4)) == 3
    files["expert/2"].path_in(written).unlink()
    assert Checkpoints(written).read(4) is None


def test_a_storage_that_fails_is_an_error_and_no_trial_begins_anew(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "stale")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="stale"):
        patch.setattr("trainables.state.files.safe_open", fail)
        Checkpoints(written).read(4)
    stat, constants = Path.stat, set(written.glob("*.safetensors"))
    monkeypatch.setattr(Path, "stat", lambda path, **more: fail() if path in constants else stat(path, **more))
    with pytest.raises(OSError, match="stale"):
        newest_checkpoint(written, 4)


def test_on_a_machine_that_does_not_see_the_run_directory_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Checkpoints(tmp_path / "run" / "state" / "trial").write(1, after(1))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    Checkpoints(tmp_path / "run" / "state" / "trial").write(1, after(1))


def test_without_a_folder_nothing_is_written_and_a_missing_one_has_nothing(tmp_path: Path) -> None:
    Checkpoints(None).write(1, after(1))
    assert Checkpoints(None).read(1) is None and Checkpoints(tmp_path / "trial").read(1) is None
    assert list(tmp_path.iterdir()) == []
