"""Callbacks of the user, and runs without a tracker, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import Storage, read_spec
from tests.support.drivers.searches import started, tasks_done, trials_of
from tests.support.drivers.services import wait_until

# One keeps a line per event, slowly; the other cannot take the first task.
MODULE = """
import json
import time

import tausearch


class Keeper:
    def on_event(self, event: tausearch.Event) -> None:
        trial = getattr(event, "trial", None)
        task = int(event.row["task"]) if isinstance(event, tausearch.TaskDone) else None
        line = [type(event).__name__, event.run.name, None if trial is None else trial.number, task]
        with open("told.jsonl", "a") as file:
            file.write(json.dumps(line) + "\\n")


class Slow(Keeper):
    def on_event(self, event: tausearch.Event) -> None:
        time.sleep(0.2)
        super().on_event(event)


class Broken:
    def on_event(self, event: tausearch.Event) -> None:
        if isinstance(event, tausearch.TaskDone):
            raise ValueError("no way")
"""


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The user's module, under a name of its own for each test: this process imports it."""
    name = f"callbacks_of_{request.node.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


def told(folder: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines()]


@pytest.mark.system
@pytest.mark.timeout(900)
def test_slow_and_broken_callbacks_and_no_tracker_from_search_to_export(
    call: Callable[..., str], module: str, tmp_path: Path
) -> None:
    storage, untracked = Storage(tmp_path / "tausearch-runs"), ("--tracking", "none")
    own = ("--callback", f"{module}:Slow", "--callback", f"{module}:Broken")
    size = ("--trials", "2", "--tasks", "2", "--max-concurrent-trials", "1", "--name", "s")
    said = call("search", "digits?epochs=1", "ita-lora", *size, *own, *untracked)
    assert said.count(f"callback {module}:Broken failed on TaskDone: ValueError: no way in ") == 1
    assert "MLflow  " not in said and "MLflow lacks" not in said
    trials = trials_of(storage.root, "s")
    assert [(trial.status, trial.tasks_done) for trial in trials] == [("complete", 2)] * 2
    tasks = [["TaskDone", "s", trial.number, task] for trial in trials for task in (1, 2)]
    lines = told(tmp_path)
    assert [line for line in lines if line[0] == "TaskDone"] == tasks
    assert (lines[0][0], lines[-1][0]) == ("RunBegan", "RunEnded") and ["BestFileWritten", "s", None, None] in lines

    trained = json.loads(call("train", "s", "--seeds", "0", "--name", "f", *own[:2], *untracked, "--format", "json"))
    assert (trained["tracking_uri"], trained["tracking_error"]) == (None, None) and trained["summary"]
    assert ["ResultsWritten", "f", None, None] in told(tmp_path)
    call("compose", "f", "--keep", "1")
    assert "--register: MLflow does not have f" in call("compose", "f", "--register", code=2)
    call("export", read_spec(storage.run("s")).benchmark, "ita-lora", "-o", "best.yaml")
    assert "mlflow" not in (tmp_path / "best.yaml").read_text()
    assert "f: 1 trial, 2 tasks, not in MLflow\n" in call("runs", "sync")
    assert "its runs are not tracked by MLflow" in call("runs", "ui", code=2)
    assert not storage.mlflow_file.exists() and not storage.mlflow_artifacts.exists()

    assert "f: 1 trial, 2 tasks in MLflow, 2 of them new\n" in call("runs", "sync", "f", "--tracking", "mlflow")
    assert "f: 1 trial, 2 tasks in MLflow, 0 of them new\n" in call("runs", "sync", "f")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_kill_callbacks_are_told_all_that_the_record_has(
    call: Callable[..., str], module: str, tmp_path: Path
) -> None:
    root, own = tmp_path / "tausearch-runs", ("--callback", f"{module}:Keeper", "--tracking", "none")
    size = ("--epochs", "1", "--trials", "4", "--tasks", "3", "--max-concurrent-trials", "1", "--name", "s")
    with started("search", "digits", "finetune", *size, *own, cwd=tmp_path, out=tmp_path / "first.txt"):
        wait_until(lambda: (root / "s").exists() and tasks_done(root, "s") > 0, 300, "the first task")
    assert tasks_done(root, "s") < 12  # it was killed under way
    (tmp_path / "told.jsonl").unlink(missing_ok=True)  # as if the kill had come before the callback wrote anything
    call("resume", "s", *own[:2])
    lines = told(tmp_path)
    assert {tuple(line) for line in lines if line[0] == "TaskDone"} == {
        ("TaskDone", "s", trial.number, task) for trial in trials_of(root, "s") for task in (1, 2, 3)
    }
    assert sorted(line[2] for line in lines if line[0] == "TrialEnded") == [0, 1, 2, 3] and lines[-1][0] == "RunEnded"
    assert not Storage(root).mlflow_file.exists()  # a run that goes on is tracked as before
