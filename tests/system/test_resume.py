"""Kill the driver at random moments, resume, kill again, resume, and lose nothing: slow, it starts 30 drivers."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from optuna.trial import TrialState

from tausearch.choosing import FIRST_STOP, load_best
from tausearch.runs import Storage, TrialSummary, is_driven, read_spec
from tests.support.searches import (
    SEARCH,
    TRIALS,
    assert_mlflow_has_each_task_once,
    kill_tree,
    run,
    started,
    study_trials,
    tasks_done,
    train_workers,
    trials_of,
    without_time,
)
from tests.support.services import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

MEDIAN_TRIALS = 8
MEDIAN = ["search", "digits", "finetune", "--scheduler", "median", "--trials", str(MEDIAN_TRIALS), "--concurrent", "2"]
STOPPED_EARLY = (3, 8)  # rounds that search with TPE and stop trials early; the others are grids
OWN_RAY = (0, 5)  # rounds with a Ray of their own, which is killed with the driver; the others share a cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def root(folder: Path) -> Path:
    return folder / "tausearch-runs"


@pytest.fixture(scope="module")
def undisturbed(folder: Path, root: Path) -> list[TrialSummary]:
    run(*SEARCH, "--name", "calm", cwd=folder)
    return trials_of(root, "calm")


def kill_driver(process: subprocess.Popen[bytes], root: Path, name: str, wanted: int, dice: random.Random) -> None:
    """kill -9 a driver that holds its run, some time after so many tasks are done."""
    directory = Storage(root).run(name)

    def reached() -> bool:
        assert process.poll() is None, "it ended by itself"
        return is_driven(directory) and tasks_done(root, name) >= wanted

    wait_until(reached, 500, f"task {wanted} of {name}")
    time.sleep(dice.choice([0.0, dice.uniform(0, 0.5)]) if wanted else dice.uniform(0, 5))
    assert process.poll() is None
    kill_tree(process.pid)


def killed_twice(number: int, folder: Path, address: str) -> list[list[TrialSummary]]:
    """Kill a search, then its continuation, and let the third driver end it; returns the table after each."""
    name, dice = f"killed-{number}", random.Random(number)
    place = [] if number in OWN_RAY else ["--address", address]
    search, tasks = (MEDIAN, MEDIAN_TRIALS * FIRST_STOP) if number in STOPPED_EARLY else (SEARCH, TRIALS * 5)
    root = folder / "tausearch-runs"
    tables: list[list[TrialSummary]] = []
    for command in ([*search, "--name", name], ["resume", name]):
        done = tasks_done(root, name)
        with started(*command, *place, cwd=folder, out=folder / f"{name}.txt") as process:
            kill_driver(process, root, name, dice.randint(done, max(done, tasks)), dice)
        tables.append(trials_of(root, name))
    run("resume", name, *place, cwd=folder)
    return [*tables, trials_of(root, name)]


def lost(earlier: TrialSummary, later: TrialSummary) -> int:
    """How many finished tasks were run again: even one that comes to the same numbers takes another time."""
    return sum(row not in later.rows for row in earlier.rows)


def assert_nothing_is_lost(root: Path, name: str, tables: list[list[TrialSummary]]) -> None:
    """What holds for every search, whatever chooses its trials and whether some are stopped early."""
    trials, count = tables[-1], read_spec(Storage(root).run(name)).trials
    assert [trial.number for trial in trials] == list(range(count))
    assert len({trial.hyperparameters["lr"] for trial in trials}) == count
    for earlier, later in itertools.pairwise(tables):
        for trial in earlier:
            same = next(other for other in later if other.number == trial.number)
            assert lost(trial, same) <= 1 and same.hyperparameters == trial.hyperparameters
            assert trial.status == "running" or same == trial  # not run again: even its times are the same
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    found = [(trial.user_attrs["trial"], trial.state) for trial in study_trials(root, name)]
    assert found == [(trial.number, states[trial.status]) for trial in trials]
    assert_mlflow_has_each_task_once(root, name, trials)


def assert_only_whole_trials_win(root: Path, name: str, trials: list[TrialSummary]) -> None:
    assert all(trial.tasks_done >= FIRST_STOP for trial in trials)
    assert all((trial.status == "complete") == (trial.tasks_done == 5) for trial in trials)
    best = load_best(Storage(root).run(name).best_file).selection
    assert best.value == max(trial.value or 0 for trial in trials if trial.status == "complete")


def assert_same_as_undisturbed(
    root: Path, name: str, trials: list[TrialSummary], undisturbed: list[TrialSummary]
) -> None:
    assert without_time(trials) == without_time(undisturbed)
    calm, again = (load_best(Storage(root).run(each).best_file).selection for each in ("calm", name))
    assert (again.trial, again.value) == (calm.trial, calm.value)


@pytest.mark.parametrize("first", range(0, 10, 2))
def test_kill_resume_kill_resume(
    first: int, folder: Path, root: Path, address: str, undisturbed: list[TrialSummary]
) -> None:
    """Ten rounds, two at a time: a driver that starts, which takes most of the time, uses one core."""
    rounds = (first, first + 1)
    with ThreadPoolExecutor(2) as pool:
        tables = list(pool.map(lambda number: killed_twice(number, folder, address), rounds))
    for number, found in zip(rounds, tables, strict=True):
        name = f"killed-{number}"
        assert_nothing_is_lost(root, name, found)
        if number in STOPPED_EARLY:
            assert_only_whole_trials_win(root, name, found[-1])
        else:
            assert_same_as_undisturbed(root, name, found[-1], undisturbed)


def test_extend(folder: Path, root: Path) -> None:
    run("search", "digits", "finetune", "--trials", "1", "--name", "short", cwd=folder)
    run("extend", "short", "--trials", "3", cwd=folder)
    trials = trials_of(root, "short")
    assert [trial.status for trial in trials] == ["complete"] * 3
    assert len({trial.hyperparameters["lr"] for trial in trials}) == 3
    started_before = sorted(path.name for path in (root / "short" / "ray").iterdir())
    (root / "short" / "best.yaml").unlink()
    again = json.loads(run("resume", "short", "--json", cwd=folder))  # nothing is left to do, and stdout is JSON alone
    assert [trial["value"] for trial in again["trials"]] == [trial.value for trial in trials]
    assert sorted(path.name for path in (root / "short" / "ray").iterdir()) == started_before  # nor is Ray started
    assert (root / "short" / "best.yaml").is_file()


def test_a_killed_worker_goes_on_from_its_last_task(folder: Path, root: Path, undisturbed: list[TrialSummary]) -> None:
    name = "worker"
    workers: list[psutil.Process] = []
    with started(*SEARCH, "--name", name, cwd=folder, out=folder / f"{name}.txt") as process:

        def in_the_middle() -> bool:
            workers[:] = train_workers(process.pid)
            return bool(workers) and any(trial.tasks_done >= 2 for trial in trials_of(root, name))

        wait_until(in_the_middle, 500, "a trial in the middle")
        before = trials_of(root, name)
        workers[0].kill()
        assert process.wait(500) == 0
    after = trials_of(root, name)
    assert without_time(after) == without_time(undisturbed)
    assert all(lost(earlier, after[earlier.number]) <= 1 for earlier in before)


def test_a_final_run_goes_on_past_a_damaged_checkpoint(
    folder: Path, root: Path, address: str, undisturbed: list[TrialSummary]
) -> None:
    command = ["train", str(Storage(root).run("calm").best_file), "--seeds", "0 1", "--address", address]
    run(*command, "--name", "calm-final", cwd=folder)
    with started(*command, "--name", "final", cwd=folder, out=folder / "final.txt") as process:
        kill_driver(process, root, "final", 4, random.Random(0))
    directory = Storage(root).run("final")
    assert not directory.results_file.exists()
    before = trials_of(root, "final")
    damaged = max(directory.ray.glob("*/*/checkpoint_*/state.safetensors"), key=lambda path: path.stat().st_mtime)
    with damaged.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 4]))
    assert f"{damaged} is damaged and was put aside" in run("resume", "final", "--address", address, cwd=folder)
    after = trials_of(root, "final")
    assert without_time(after) == without_time(trials_of(root, "calm-final"))
    assert sum(lost(earlier, after[earlier.number]) for earlier in before) <= 3  # one more for the checkpoint
    calm, final = (json.loads(Storage(root).run(name).results_file.read_text()) for name in ("calm-final", "final"))
    assert final["seeds"] == calm["seeds"] and final["summary"] == calm["summary"]
    assert_mlflow_has_each_task_once(root, "final", after, chosen=0)
