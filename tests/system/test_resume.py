"""Kill the driver at random moments, resume, and lose nothing: slow, because every round starts Ray twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tausearch.best import load_best
from tausearch.files import Storage
from tausearch.record import Record, TrialSummary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRIALS = 4
SEARCH = ["search", "digits", "finetune", "--algorithm", "grid", "--trials", str(TRIALS)]
GRID = [sys.executable, "-m", "tausearch", *SEARCH]


def run(*arguments: str, cwd: Path) -> str:
    command = [sys.executable, "-m", "tausearch", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_without_time(trial: TrialSummary) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in trial.rows]


def kill_tree(pid: int) -> None:
    """kill -9 the driver; the rest of its processes, which would otherwise linger for a minute, follow."""
    process = psutil.Process(pid)
    children = process.children(recursive=True)
    process.kill()
    process.wait(30)
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> list[TrialSummary]:
    run(*SEARCH, "--name", "calm", cwd=folder)
    return Record(Storage(folder / "tausearch-runs").run("calm").record).trials()


@pytest.mark.parametrize("moment", range(4))
def test_kill_and_resume(moment: int, folder: Path, undisturbed: list[TrialSummary]) -> None:
    name = f"killed-{moment}"
    directory = Storage(folder / "tausearch-runs").run(name)
    record, log = Record(directory.record), directory.path.parent / f"{name}.out"
    with open(log, "w") as out:
        process = subprocess.Popen([*GRID, "--name", name], cwd=folder, stdout=out, stderr=out, start_new_session=True)
    wanted = random.Random(moment).randint(1, 5 * TRIALS - 2)  # kill once so many tasks are done
    deadline = time.monotonic() + 240
    while sum(trial.tasks_done for trial in record.trials()) < wanted:
        assert time.monotonic() < deadline and process.poll() is None, log.read_text()
        time.sleep(0.05)
    kill_tree(process.pid)
    before = {trial.number: trial for trial in record.trials()}
    done_before = sum(trial.tasks_done for trial in before.values())
    run("resume", name, cwd=folder)
    trials = record.trials()
    assert [t.number for t in trials] == list(range(TRIALS)) and {t.status for t in trials} == {"complete"}
    assert [rows_without_time(t) for t in trials] == [rows_without_time(t) for t in undisturbed]
    for trial in trials:
        earlier = before.get(trial.number)
        if earlier is not None and earlier.status == "complete":
            assert trial.rows == earlier.rows  # not run again: even its times are the same
    repeated = sum(
        earlier.rows[i] != trials[n].rows[i] for n, earlier in before.items() for i in range(earlier.tasks_done)
    )
    running = sum(trial.status == "running" for trial in before.values())
    assert repeated <= running, f"{repeated} of {done_before} tasks were run again"
    calm = load_best(directory.path.parent / "calm" / "best.yaml")
    again = load_best(directory.best_file)
    assert (again.selection.trial, again.selection.value) == (calm.selection.trial, calm.selection.value)
    assert_mlflow_has_each_task_once(directory.path.parent, name, trials)


def assert_mlflow_has_each_task_once(root: Path, name: str, trials: list[TrialSummary]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=Storage(root).mlflow_uri)
    experiment = client.get_experiment_by_name("digits").experiment_id
    parents = client.search_runs([experiment], f"tags.`tausearch.run` = '{name}'")
    assert len(parents) == 1
    children = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parents[0].info.run_id}'")
    assert sorted(int(run.data.tags["trial"]) for run in children) == [trial.number for trial in trials]
    for child in children:
        steps = [m.step for m in client.get_metric_history(child.info.run_id, "val/average_accuracy")]
        assert steps == [1, 2, 3, 4, 5] and child.info.status == "FINISHED"
    assert sum("chosen" in child.data.tags for child in children) == 1


def test_extend(folder: Path) -> None:
    run("search", "digits", "finetune", "--trials", "1", "--name", "short", cwd=folder)
    run("extend", "short", "--trials", "3", cwd=folder)
    trials = Record(Storage(folder / "tausearch-runs").run("short").record).trials()
    assert [trial.status for trial in trials] == ["complete"] * 3
    assert len({trial.hyperparameters["lr"] for trial in trials}) == 3
    again = json.loads(run("resume", "short", "--json", cwd=folder))  # nothing is left to do, and stdout is JSON alone
    assert [trial["value"] for trial in again["trials"]] == [trial.value for trial in trials]


def test_a_killed_worker_goes_on_from_its_last_task(folder: Path, undisturbed: list[TrialSummary]) -> None:
    name = "worker"
    record = Record(Storage(folder / "tausearch-runs").run(name).record)
    process = subprocess.Popen([*GRID, "--name", name], cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 240
    while not any(trial.tasks_done >= 2 for trial in record.trials()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if "ray::" in " ".join(child.cmdline()) and "train" in child.cmdline()[0]]
    assert workers
    os.kill(workers[0].pid, signal.SIGKILL)
    assert process.wait(300) == 0
    trials = record.trials()
    assert [rows_without_time(t) for t in trials] == [rows_without_time(t) for t in undisturbed]
