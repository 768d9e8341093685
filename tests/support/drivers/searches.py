"""Start the command line, watch its record, kill it, and read its results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TextIO

import optuna
import psutil
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tausearch.cli import main
from tausearch.runs import Record, Storage, TrialSummary, read_spec
from trainables.metrics import repeatable


def tausearch(*arguments: str, cwd: Path) -> str:
    """Run the command line in a process of its own; returns stdout. Stderr is empty where `is_quiet` says so."""
    done = _finished(arguments, cwd, 0)
    assert done.stderr == "" or not is_quiet(arguments), done.stderr
    return done.stdout


def is_quiet(arguments: Sequence[str]) -> bool:
    """Whether a command writes nothing to stderr; others say there how far they are, and keep stdout for the result."""
    return "json" not in arguments and arguments[0] not in ("predict", "compose", "evaluate")


def run(*arguments: str, cwd: Path, code: int = 0) -> str:
    """Run the command line to its end; returns stdout, or stderr where an error is expected."""
    done = _finished(arguments, cwd, code)
    return done.stderr if code else done.stdout


def _finished(arguments: Sequence[str], cwd: Path, code: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tausearch", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def run_here(*arguments: str, cwd: Path, capture: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Call the command line in this process, which saves the imports of a new one, and check stderr as `tausearch`.

    `capture` is the fixture `capfd`, because Ray and the progress display write to the file descriptors. Returns
    stdout, or stderr where an error is expected.
    """
    streams = [_stream(1), _stream(2)]
    with pytest.MonkeyPatch.context() as patch, chdir(cwd):
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "argv", ["tausearch", *arguments])
        patch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        for stream in streams:
            stream.flush()
    out, err = capture.readouterr()
    assert ended.value.code == code, out + err
    assert code or err == "" or not is_quiet(arguments), err
    return err if code else out


def _stream(descriptor: int) -> TextIO:
    """Open a stream as a process of its own has it; it stays open, because loggers keep it."""
    return open(descriptor, "w", encoding="utf-8", closefd=False)


@contextmanager
def started(*arguments: str, cwd: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during the block, and kill it at its end; its output goes to the file `out`."""
    command = [sys.executable, "-m", "tausearch", *arguments]
    with out.open("w") as file:
        process = subprocess.Popen(command, cwd=cwd, stdout=file, stderr=file, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
            process.wait(120)


def kill_tree(pid: int) -> None:
    """kill -9 the driver; the rest of its processes, which would otherwise linger for a minute, follow."""
    process = psutil.Process(pid)
    children = process.children(recursive=True)
    process.kill()
    process.wait(120)
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def train_workers(parent: int) -> list[psutil.Process]:
    """Processes below a raylet or a driver that run a task of a trial just now."""
    found = []
    for child in psutil.Process(parent).children(recursive=True):
        try:
            name = child.cmdline()[0]
        except (psutil.Error, IndexError):  # it has just ended
            continue
        if name.startswith("ray::") and "train" in name:
            found.append(child)
    return found


def trials_of(root: Path, name: str) -> list[TrialSummary]:
    return Record(Storage(root).run(name).record).trials()


def tasks_done(root: Path, name: str) -> int:
    return sum(trial.tasks_done for trial in trials_of(root, name))


def without_time(trials: list[TrialSummary]) -> list[tuple[object, ...]]:
    """All of a table that is the same whenever it is computed."""
    rows = [[repeatable(row) for row in trial.rows] for trial in trials]
    return [(t.number, t.seed, t.status, t.hyperparameters, r, t.error) for t, r in zip(trials, rows, strict=True)]


def study_trials(root: Path, name: str) -> list[optuna.trial.FrozenTrial]:
    """Return the trials of the study file, ordered by their number in the search."""
    storage = JournalStorage(JournalFileBackend(str(Storage(root).run(name).study_file)))
    study = optuna.load_study(study_name=name, storage=storage)
    return sorted(study.trials, key=lambda trial: trial.user_attrs["trial"])


def nested_runs(root: Path, name: str, uri: str | None = None) -> list[Run]:
    """MLflow's runs of the trials of a search, by number; the search itself must be there once, and have ended."""
    client = MlflowClient(tracking_uri=uri or Storage(root).mlflow_uri)
    experiment = client.get_experiment_by_name(read_spec(Storage(root).run(name)).benchmark).experiment_id
    (parent,) = client.search_runs([experiment], f"tags.`tausearch.run` = '{name}'")
    assert parent.info.status == "FINISHED"
    children = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    return sorted(children, key=lambda run: int(run.data.tags["trial"]))


def assert_mlflow_has_each_task_once(
    root: Path, name: str, trials: list[TrialSummary], chosen: int = 1, uri: str | None = None, killed: bool = True
) -> list[Run]:
    """Return the runs of the trials. Where nothing was killed all metrics and hyperparameters are compared.

    A task that runs again has other times than the first time, which MLflow keeps.
    """
    runs = nested_runs(root, name, uri)
    assert [int(run.data.tags["trial"]) for run in runs] == [trial.number for trial in trials]
    client = MlflowClient(tracking_uri=uri or Storage(root).mlflow_uri)
    accuracy = read_spec(Storage(root).run(name)).metrics.average_accuracy
    for run, trial in zip(runs, trials, strict=True):
        known = {} if killed else {key: str(value) for key, value in trial.hyperparameters.items()}
        assert run.data.params.items() >= known.items()
        for metric in {accuracy} if killed else {key for row in trial.rows for key in row} - {"task"}:
            points = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)]
            wanted = [(int(row["task"]), row[metric]) for row in trial.rows if metric in row]
            assert points == wanted, (metric, points)
        ends = {"complete": "FINISHED", "pruned": "KILLED", "diverged": "FAILED", "failed": "FAILED"}
        assert (run.data.tags["status"], run.info.status) == (trial.status, ends[trial.status])
    assert sum("chosen" in run.data.tags for run in runs) == chosen
    return runs
