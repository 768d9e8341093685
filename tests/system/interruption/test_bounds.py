"""`train --with-bounds`: probe and joint follow in the same Ray, and a driver that is killed in one loses nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tausearch.api import SearchRequest, plan_search
from tausearch.runs import Storage
from tausearch.studies import unsearched_best_file
from tests.support.drivers.kills import Table, kill_driver
from tests.support.drivers.searches import started, tasks_done, trials_of, without_time
from tests.support.drivers.services import wait_until
from tests.support.drivers.trained_here import without_ray

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]

NAMES = ("{}", "{}-probe", "{}-joint")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with a best file."""
    folder = tmp_path_factory.mktemp("bounds")
    plan = plan_search(SearchRequest("digits?epochs=1", "finetune", storage=folder))
    unsearched_best_file(plan.spec).save(folder / "best.yaml")
    return folder


@pytest.fixture(scope="module")
def root(folder: Path) -> Path:
    return folder / "tausearch-runs"


def train(name: str, *seeds: str) -> list[str]:
    return [
        "train",
        "best.yaml",
        "--seeds",
        ",".join(seeds),
        "--max-concurrent-trials",
        "1",
        "--name",
        name,
        "--with-bounds",
        "--tracking",
        "none",
    ]


def assert_ended_seeds_stay(earlier: Table, later: Table) -> None:
    """A seed that has ended does not run again: even with equal metrics its times would differ."""
    for trial in earlier:
        assert trial.status == "running" or trial in later


def attempts(root: Path, name: str) -> list[int]:
    """How often Ray was started for a run and for each of its bounds."""
    return [len(list(Storage(root).run(each.format(name)).ray.glob("attempt-*"))) for each in NAMES]


def test_the_bounds_follow_a_final_run_in_the_same_ray(folder: Path, root: Path, call: Callable[..., str]) -> None:
    out = call(*train("f", "3"), cwd=folder)
    assert [f"final {name.format('f')}: " in out for name in NAMES] == [True] * 3
    assert attempts(root, "f") == [1, 0, 0]
    for name in NAMES:
        assert [(trial.seed, trial.status) for trial in trials_of(root, name.format("f"))] == [(3, "complete")]
        assert Storage(root).run(name.format("f")).results_file.exists()
    found = json.loads(call("status", "f", "--format", "json", cwd=folder))["bounds"]
    assert [each["run"] for each in found["found"]] == ["f-probe", "f-joint"] and found["missing"] == []


@pytest.mark.slow
def test_a_kill_in_a_bound_and_a_stop_in_the_next_lose_nothing(
    folder: Path, root: Path, call: Callable[..., str]
) -> None:
    command = [*train("k", "0", "1"), "--resume-if-exists"]
    with started(*command, cwd=folder, out=folder / "first.txt") as process:
        kill_driver(process, root, "k", lambda _: tasks_done(root, "k-probe") >= 7)  # one seed and two tasks
    assert Storage(root).run("k").results_file.exists()  # a thread wrote it while the bound ran
    killed = [trials_of(root, name.format("k")) for name in NAMES]
    with started(*command, cwd=folder, out=folder / "second.txt") as process:
        wait_until(lambda: tasks_done(root, "k-joint") >= 1 or process.poll() is not None, 500, "a seed of joint")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(300) == 128 + signal.SIGINT
    assert "resume k" in (folder / "second.txt").read_text() and attempts(root, "k") == [2, 0, 0]
    stopped = [trials_of(root, name.format("k")) for name in NAMES]
    call("resume", "k", cwd=folder)
    ended = [trials_of(root, name.format("k")) for name in NAMES]
    for before, between, after in zip(killed, stopped, ended, strict=True):
        assert_ended_seeds_stay(before, between)
        assert_ended_seeds_stay(between, after)
    assert [[trial.status for trial in table] for table in ended] == [["complete"] * 2] * 3
    assert killed[0] == ended[0] and stopped[1] == ended[1] and attempts(root, "k") == [3, 0, 0]
    with without_ray(folder / "tune"):
        call(*train("k", "0", "1"), "--storage", "calm", cwd=folder)  # where no bound has been measured
    calm = [trials_of(folder / "calm", name.format("k")) for name in NAMES]
    assert [without_time(table) for table in ended] == [without_time(table) for table in calm]
    call("resume", "k", cwd=folder)
    assert attempts(root, "k") == [3, 0, 0]  # nothing is left to do
