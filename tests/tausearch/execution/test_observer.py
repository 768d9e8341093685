"""What the observer makes of Tune's events, in the order in which Tune has them."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
import torch
from ray.exceptions import ActorDiedError, RayTaskError

from tausearch.execution import StorageWatch
from tausearch.execution.observer import Observer, is_out_of_memory, status_of
from tausearch.runs import RunDirectory, TrialSummary
from tausearch.studies import FixedSearcher, TrialListener
from tests.support.runs.trials import dispatcher_of, search_spec
from trainables.errors import InputError, OtherImagesError

TRIAL = SimpleNamespace(
    config={"run": "s", "trial": 0, "seed": 0, "hyperparameters": {"lr": 0.1}},
    run_metadata=SimpleNamespace(metric_analysis={}, metric_n_steps={}),
    error_file=None,
    pickled_error_file=None,
    local_path="nowhere",
    path="nowhere",
)

UNMADE = ActorDiedError(RayTaskError("setup", "", ValueError("bad"), proctitle="p", pid=1, ip="127.0.0.1"))


class Heard:
    """Keeps the changes of trials, then raises the error if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.trials: list[TrialSummary] = []
        self.error = error

    def trial_changed(self, trial: TrialSummary) -> None:
        self.trials.append(trial)
        if self.error is not None:
            raise self.error


def result(task: int, *, done: bool = False, **more: Any) -> dict[str, Any]:
    return {"task": float(task), "val/average_accuracy": 50.0, "done": done, **more}


LAST = result(2, done=True, **{"val/final_accuracy": 50.0})


def observing(*listeners: TrialListener, home: Path) -> Observer:
    """An observer of one run, which is called `s`."""
    dispatcher = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]), listeners)
    return Observer(dispatcher, lambda: None, StorageWatch(RunDirectory(home)))


def test_tunes_snapshot_has_nothing_of_it_not_even_what_cannot_be_pickled(tmp_path: Path) -> None:
    observer = observing(home=tmp_path)
    observer.before = threading.Lock()  # type: ignore[attr-defined]
    assert vars(cloudpickle.loads(cloudpickle.dumps(observer))) == {}


def test_what_comes_before_the_first_trial_comes_once_and_keeps_all_changes_back_while_it_fails(tmp_path: Path) -> None:
    calls, heard = [0], Heard()

    def before_first() -> None:
        calls[0] += 1
        if calls[0] < 3:
            raise InputError("a node is unfit")
        assert heard.trials == []

    dispatcher = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]), [heard])
    observer = Observer(dispatcher, lambda: None, StorageWatch(RunDirectory(tmp_path)), before_first)
    for fails in (observer.on_trial_start, observer.on_trial_error):  # a process cannot start on an unfit node
        with pytest.raises(InputError):
            fails(0, [], TRIAL)
    assert heard.trials == [] and list(dispatcher["s"].tune_trials.trials) == []
    observer.on_trial_start(0, [], TRIAL)
    observer.on_trial_result(0, [], TRIAL, result(1))
    assert calls[0] == 3 and [len(each.rows) for each in heard.trials] == [0, 1]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def observer(heard: Heard, tmp_path: Path) -> Observer:
    (tmp_path / "run.yaml").touch()
    return observing(heard, home=tmp_path)


@pytest.mark.parametrize(
    ("last", "status", "tasks", "value", "error"),
    [
        (LAST, "complete", 2, 50.0, None),
        (result(2, done=True), "pruned", 2, None, None),
        (result(2, done=True, diverged="at task 2"), "diverged", 1, None, "at task 2"),
    ],
)
def test_the_end_is_known_with_the_last_result(
    last: dict[str, Any],
    status: str,
    tasks: int,
    value: float | None,
    error: str | None,
    observer: Observer,
    heard: Heard,
) -> None:
    observer.on_trial_start(0, [], TRIAL)
    observer.on_trial_result(0, [], TRIAL, result(1))
    observer.on_trial_result(0, [], TRIAL, last)
    assert [trial.status for trial in heard.trials] == ["running", "running", status]
    assert [trial.value for trial in heard.trials] == [None, None, value]
    assert heard.trials[-1].tasks_done == tasks and heard.trials[-1].error == error


def test_a_trial_that_tune_starts_again_goes_on_after_the_tasks_that_were_reported(observer: Observer) -> None:
    trial = SimpleNamespace(**{**vars(TRIAL), "config": {**TRIAL.config, "tasks_done": 0}})
    observer.on_trial_start(0, [], trial)
    assert trial.config["tasks_done"] == 0
    done = []
    for task in (1, 2, 1):  # the checkpoint of the second was damaged
        observer.on_trial_result(0, [], trial, result(task))
        done.append(trial.config["tasks_done"])
    assert done == [1, 2, 1]


def test_a_task_that_is_repeated_takes_the_place_of_its_first_result(observer: Observer, heard: Heard) -> None:
    for task in (1, 2, 2):
        observer.on_trial_result(0, [], TRIAL, result(task, **{"seconds/training": len(heard.trials)}))
    assert [(row["task"], row["seconds/training"]) for row in heard.trials[-1].rows] == [(1, 0), (2, 2)]
    for task in (3, 2):  # it went on from the checkpoint before the last, which was damaged
        observer.on_trial_result(0, [], TRIAL, result(task))
    assert [row["task"] for row in heard.trials[-1].rows] == [1, 2]


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Run directory and number of the trials whose checkpoints are removed."""
    found: list[tuple[str, int]] = []
    remove = "tausearch.execution.observer.remove_checkpoints"
    monkeypatch.setattr(remove, lambda directory, number: found.append((directory.name, number)))
    return found


@pytest.mark.parametrize(("event", "args"), [("on_step_begin", (1, [])), ("on_experiment_end", ([],))])
def test_the_checkpoints_of_ended_trials_are_removed_only_when_tune_is_done_with_them(
    event: str, args: tuple[Any, ...], observer: Observer, removed: list[tuple[str, int]]
) -> None:
    observer.on_trial_complete(0, [], TRIAL)  # Tune stops one whose last task it has not heard of
    getattr(observer, event)(*args)
    assert removed == []
    for trial in (TRIAL, SimpleNamespace(**{**vars(TRIAL), "config": {**TRIAL.config, "trial": 1}})):
        observer.on_trial_result(0, [], trial, LAST)
        observer.on_trial_complete(0, [], trial)
    assert removed == []
    getattr(observer, event)(*args)
    assert sorted(removed) == [("s", 0), ("s", 1)]
    getattr(observer, event)(*args)
    assert len(removed) == 2


@pytest.mark.usefixtures("removed")
@pytest.mark.parametrize("files", [[], ["error.txt"]])
def test_tunes_own_folder_of_an_ended_trial_goes_unless_something_is_in_it(
    files: list[str], observer: Observer, tmp_path: Path
) -> None:
    folders = [tmp_path / "staged", tmp_path / "storage"]
    for folder in folders:
        folder.mkdir()
        for name in files:
            (folder / name).touch()
    trial = SimpleNamespace(**{**vars(TRIAL), "local_path": str(folders[0]), "path": str(folders[1])})
    observer.on_trial_result(0, [], trial, LAST)
    observer.on_trial_complete(0, [], trial)
    assert all(folder.exists() for folder in folders)
    observer.on_step_begin(0, [])
    assert [folder.exists() for folder in folders] == [bool(files)] * 2


def test_everything_else_is_checked_in_every_step_of_tune(observer: Observer) -> None:
    steps: list[int] = []
    observer.on_step = lambda: steps.append(len(steps))
    observer.on_step_begin(1, [])
    observer.on_experiment_end([])
    assert steps == [0]


@pytest.mark.parametrize(
    ("log", "error", "reason"),
    [
        ("Traceback:\n  File x\nValueError: bad\n\n", ValueError("bad"), "ValueError: bad"),
        ("in its creation task\n  File x\nValueError: bad in x, line 3\n", UNMADE, "ValueError: bad in x, line 3"),
        ("\n", ValueError("bad"), "unknown error"),
        (None, ValueError("bad"), "unknown error"),
        (
            "long\n",
            ActorDiedError(),
            "its process died (killed, crashed, short of memory, or with its node); failures: 3",
        ),
    ],
)
def test_a_trial_that_was_given_up_says_why_in_one_line(
    log: str | None,
    error: Exception,
    reason: str,
    observer: Observer,
    heard: Heard,
    removed: list[tuple[str, int]],
    tmp_path: Path,
) -> None:
    files = SimpleNamespace(**{**vars(TRIAL), "pickled_error_file": str(tmp_path / "error"), "num_failures": 3})
    (tmp_path / "error").write_bytes(cloudpickle.dumps(error))
    if log is not None:
        files.error_file = str(tmp_path / "log")
        (tmp_path / "log").write_text(log)
    observer.on_trial_error(0, [], files)
    observer.on_step_begin(0, [])
    assert [(trial.status, trial.error) for trial in heard.trials] == [("failed", reason)] and removed == [("s", 0)]


def test_a_trial_that_could_not_write_is_not_given_up(observer: Observer, heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "error").write_bytes(cloudpickle.dumps(OSError(errno.ENOSPC, "no space")))
    failed = SimpleNamespace(config=TRIAL.config, error_file=None, pickled_error_file=str(tmp_path / "error"))
    observer.on_trial_error(0, [], failed)
    assert heard.trials == [] and "no space" in str(observer.watch.problem)


def test_a_trial_that_meets_other_images_is_not_given_up_and_ends_its_run(
    observer: Observer, heard: Heard, tmp_path: Path
) -> None:
    error = RayTaskError("train", "traceback", OtherImagesError("data.train was 9 images, is now 8"))
    (tmp_path / "error").write_bytes(cloudpickle.dumps(error))
    failed = SimpleNamespace(config=TRIAL.config, error_file=None, pickled_error_file=str(tmp_path / "error"))
    observer.on_trial_error(0, [], failed)
    queue: Any = observer.dispatcher.queue
    assert heard.trials == [] and queue.errors == ["s: data.train was 9 images, is now 8"]


def test_of_several_problems_of_the_storage_the_first_is_kept(tmp_path: Path) -> None:
    watch = StorageWatch(RunDirectory(tmp_path))
    watch.problem = "the first"
    assert watch.look() and watch.is_storage_error(OSError(errno.ENOSPC, "no space")) and watch.problem == "the first"
    gone = StorageWatch(RunDirectory(tmp_path / "gone"))
    assert gone.is_storage_error(OSError(errno.EIO, "input/output error")) and str(gone.problem).endswith(
        "/gone: is gone"
    )


def test_an_error_that_is_not_the_storages_stops_the_driver(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    broken = Heard(FileNotFoundError(errno.ENOENT, "not there"))
    observer = observing(broken, home=tmp_path)
    with pytest.raises(FileNotFoundError, match="not there"):
        observer.on_trial_result(0, [], TRIAL, result(1))
    assert observer.error is broken.error  # Tune has the text of a traceback alone


def test_once_the_storage_has_failed_only_the_record_is_told(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    record = Heard()
    observer = observing(record, heard, home=tmp_path)
    observer.on_trial_result(0, [], TRIAL, result(1))
    record.error = OSError(errno.ENOSPC, "no space")
    observer.on_trial_result(0, [], TRIAL, result(2))
    record.error = None
    observer.on_trial_result(0, [], TRIAL, LAST)
    assert [trial.tasks_done for trial in record.trials] == [1, 2, 2]
    assert [trial.tasks_done for trial in heard.trials] == [1]


@pytest.mark.parametrize(
    ("last", "given_up", "status"),
    [
        ({"val/final_accuracy": 0.0}, False, "complete"),
        ({"val/final_accuracy": 50.0}, True, "failed"),
        (None, True, "failed"),
        (None, False, "pruned"),
    ],
)
def test_a_trial_ends_as_its_last_result_and_its_process_say(
    last: dict[str, Any] | None, given_up: bool, status: str
) -> None:
    assert status_of(last, given_up, "val/final_accuracy") == status


def test_memory_that_lacks_in_the_process_of_a_trial_is_told_from_other_errors() -> None:
    lack = torch.OutOfMemoryError("no memory")
    found = [is_out_of_memory(RayTaskError("train", "traceback", error)) for error in (lack, ValueError("bad"))]
    assert found == [True, False] and is_out_of_memory(lack) and not is_out_of_memory(None)


@pytest.mark.parametrize(
    ("error", "caused"),
    [
        (OSError(errno.EDQUOT, "disk quota exceeded"), True),
        (RayTaskError("train", "traceback", OSError(errno.ENOSPC, "no space left on device")), True),
        (PermissionError(errno.EACCES, "permission denied"), False),
        (RayTaskError("train", "traceback", ValueError("bad")), False),
        (None, False),
    ],
)
def test_the_storage_causes_errors_of_writing_here_and_in_the_process_of_a_trial_and_no_others(
    error: BaseException | None, caused: bool, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").touch()
    watch = StorageWatch(RunDirectory(tmp_path))
    assert watch.is_storage_error(error) is caused is (watch.problem is not None)


def test_an_error_where_the_storage_may_be_written_no_more_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.yaml").touch()
    monkeypatch.setattr("os.access", lambda path, right: path != tmp_path or right != os.W_OK)
    watch = StorageWatch(RunDirectory(tmp_path))
    assert watch.is_storage_error(PermissionError(errno.EACCES, "ticket expired"))
    assert watch.problem == f"storage {tmp_path}: [Errno {errno.EACCES}] ticket expired"
