"""What a round has left behind: processes, locks, temporary files; and what MLflow has twice or lacks."""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil
from mlflow import MlflowClient

from benchmarks.soak.work import Work
from tausearch.runs import TrialSummary, read_spec
from tests.support.drivers.searches import study_trials

_PATIENCE = 120.0  # seconds in which the processes of a driver that was killed notice it


def family(pid: int) -> set[psutil.Process]:
    """Return the living processes below one."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def still_there(processes: Iterable[psutil.Process], patience: float = _PATIENCE) -> list[psutil.Process]:
    """Return which processes have not ended after a while."""
    deadline = time.monotonic() + patience
    while (left := [each for each in processes if _lives(each)]) and time.monotonic() < deadline:
        time.sleep(1)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def held_locks(folder: Path) -> list[Path]:
    """Return the lock files below a folder that a process still holds."""
    found = []
    for path in folder.rglob("*.lock"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(path)
    return found


def temporary_files(*folders: Path) -> list[Path]:
    """Return what was to be renamed or removed and was not."""
    return [path for folder in folders for path in folder.rglob("*") if ".tmp" in path.suffixes or "probe" in path.name]


def in_mlflow(work: Work, name: str, trials: list[TrialSummary]) -> tuple[int, int]:
    """Hold MLflow's view of a run against its record; returns what is there twice, and what is missing."""
    spec = read_spec(work.storage.run(name))
    client = MlflowClient(tracking_uri=spec.tracking_uri or work.storage.mlflow_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    parents = client.search_runs(experiments, f"tags.`tausearch.run` = '{name}'")
    if not parents:
        return 0, 1 + len(trials)
    children = client.search_runs(experiments, f"tags.`mlflow.parentRunId` = '{parents[0].info.run_id}'")
    there, expected = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for child in children:
        number = int(child.data.tags["trial"])
        points = client.get_metric_history(child.info.run_id, spec.metrics.average_accuracy)
        there.update([(number, -1), *((number, point.step) for point in points)])
    for trial in trials:
        expected.update([(trial.number, -1), *((trial.number, int(row["task"])) for row in trial.rows)])
    doubled = len(parents) - 1 + sum((there - Counter(dict.fromkeys(there, 1))).values())
    return doubled, sum((expected - there).values())


def twice_in_study(work: Work, name: str) -> int:
    """Return how many trials the study file of a search has more than once."""
    if read_spec(work.storage.run(name)).purpose != "search":
        return 0
    numbers = [trial.user_attrs["trial"] for trial in study_trials(work.storage.root, name)]
    return len(numbers) - len(set(numbers))
