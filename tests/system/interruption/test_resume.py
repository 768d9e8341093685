"""Kill a search's driver, the driver that continues it, and a worker of the third; kill a final run's driver."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import tausearch
from tausearch.runs import Storage
from tausearch.studies import load_best
from tests.support.drivers.kills import Table, assert_nothing_is_lost, kill_driver, one_ended_and_one_runs, repeated
from tests.support.drivers.searches import (
    assert_mlflow_has_each_task_once,
    started,
    train_workers,
    trials_of,
    without_time,
)
from tests.support.drivers.services import wait_until
from tests.support.drivers.trained_here import without_ray
from trainables.state import STATE_FILE, checkpoint_after

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TRIALS = 4
SEARCH = ["search", "digits", "finetune", "--epochs", "1"]
GRID = ["--algorithm", "grid", "--trials", str(TRIALS), "--max-concurrent-trials", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def root(folder: Path) -> Path:
    """A storage root with the undisturbed search `calm`."""
    root = folder / "tausearch-runs"
    with without_ray(folder / "tune"):
        tausearch.search(
            "digits?epochs=1",
            "finetune",
            algorithm="grid",
            trials=TRIALS,
            max_concurrent_trials=2,
            tracking="none",
            name="calm",
            storage=root,
        )
    return root


def killed_in_the_middle(folder: Path, root: Path) -> Table:
    with started(*SEARCH, *GRID, "--name", "killed", cwd=folder, out=folder / "first.txt") as process:
        return kill_driver(process, root, "killed", one_ended_and_one_runs)


def killed_while_it_starts_again(folder: Path, root: Path) -> Table:
    """Kill the second driver when Tune has its folder and starts the processes of trials."""
    ray = Storage(root).run("killed").ray
    with started("resume", "killed", cwd=folder, out=folder / "second.txt") as process:
        return kill_driver(process, root, "killed", lambda _: len(list(ray.glob("attempt-*"))) == 2)


def goes_on_without_a_worker(folder: Path, root: Path) -> Table:
    """Kill a process of a trial; the driver ends by itself. Returns the table before."""
    workers: list[psutil.Process] = []
    with started("resume", "killed", cwd=folder, out=folder / "third.txt") as process:

        def in_the_middle() -> bool:
            assert process.poll() is None, "it ended by itself"
            workers[:] = train_workers(process.pid)
            return bool(workers) and any(t.status == "running" and t.tasks_done >= 2 for t in trials_of(root, "killed"))

        wait_until(in_the_middle, 500, "a trial in the middle")
        before = trials_of(root, "killed")
        workers[0].kill()
        assert process.wait(500) == 0
    return before


def test_kill_resume_kill_resume_kill_a_worker(folder: Path, root: Path) -> None:
    middle = killed_in_the_middle(folder, root)
    starting = killed_while_it_starts_again(folder, root)
    assert starting == middle
    before_the_worker = goes_on_without_a_worker(folder, root)
    tables = [middle, starting, before_the_worker, trials_of(root, "killed")]
    assert_nothing_is_lost(root, "killed", tables)
    assert without_time(tables[-1]) == without_time(trials_of(root, "calm"))
    calm, again = (load_best(Storage(root).run(each).best_file).selection for each in ("calm", "killed"))
    assert calm is not None and again is not None
    assert (again.trial, again.value) == (calm.trial, calm.value)


def flip_a_bit(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(-5, os.SEEK_END)
        byte = opened.read(1)
        opened.seek(-5, os.SEEK_END)
        opened.write(bytes([byte[0] ^ 4]))


def one_runs_after_two_tasks(table: Table) -> bool:
    """Whether the last checkpoint of a trial that runs has another before it."""
    return any(trial.status == "running" and trial.tasks_done >= 2 for trial in table)


def test_a_final_run_goes_on_past_a_damaged_checkpoint(call: Callable[..., str], folder: Path, root: Path) -> None:
    command = ["train", str(Storage(root).run("calm").best_file), "--seeds", "0,1", "--max-concurrent-trials", "1"]
    with without_ray(folder / "tune"):
        call(*command, "--name", "calm-final", cwd=folder)
    tracked = ("--tracking", "mlflow")  # its search is not
    with started(*command, *tracked, "--name", "final", cwd=folder, out=folder / "final.txt") as process:
        before = kill_driver(process, root, "final", one_runs_after_two_tasks)
    directory = Storage(root).run("final")
    assert not directory.results_file.exists()
    running = next(trial for trial in before if trial.status == "running" and trial.tasks_done)
    damaged = checkpoint_after(running.tasks_done, directory.checkpoints(running.number)) / STATE_FILE
    flip_a_bit(damaged)
    assert f"{damaged} is damaged and was put aside" in call("resume", "final", cwd=folder)
    after = trials_of(root, "final")
    assert without_time(after) == without_time(trials_of(root, "calm-final"))
    assert sum(repeated(earlier, after[earlier.number]) for earlier in before) <= 2  # one more for the checkpoint
    calm, final = (json.loads(Storage(root).run(name).results_file.read_text()) for name in ("calm-final", "final"))
    assert final["seeds"] == calm["seeds"] and final["summary"] == calm["summary"]
    assert_mlflow_has_each_task_once(root, "final", after, chosen=0)


def test_extend(call: Callable[..., str], folder: Path, root: Path) -> None:
    with without_ray(folder / "tune"):
        call(*SEARCH, "--trials", "1", "--name", "short", cwd=folder)
    call("extend", "short", "--trials", "3", "--max-concurrent-trials", "1", cwd=folder)
    trials = trials_of(root, "short")
    assert [trial.status for trial in trials] == ["complete"] * 3
    assert len({trial.hyperparameters["lr"] for trial in trials}) == 3
    started_before = sorted(path.name for path in (root / "short" / "ray").iterdir())
    (root / "short" / "best.yaml").unlink()
    # Nothing is left to do, and stdout is JSON alone.
    again = json.loads(call("resume", "short", "--format", "json", cwd=folder))
    assert [trial["value"] for trial in again["trials"]] == [trial.value for trial in trials]
    assert sorted(path.name for path in (root / "short" / "ray").iterdir()) == started_before  # nor is Ray started
    assert (root / "short" / "best.yaml").is_file()
