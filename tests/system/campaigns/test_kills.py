"""Kill a campaign's driver at random moments, and a node under it: the same command again, and nothing is lost."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from tausearch.campaigning import read_standing
from tausearch.runs import Storage, TrialSummary, is_driven
from tests.support.searches import (
    assert_mlflow_has_each_task_once,
    kill_tree,
    run,
    started,
    train_workers,
    trials_of,
    without_time,
)
from tests.support.services import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TABLE = """
campaign: {name}
benchmarks: [{benchmark}]
methods: [finetune, ita-ia3]
search: {{algorithm: grid, trials: 3}}
train: {{seeds: [0, 1]}}
cells: [{{method: joint, search: null}}]
"""
METHODS = ("finetune", "ita-ia3", "joint")
KILLS = 6
Tables = dict[str, list[TrialSummary]]  # by the names of runs, without that of the campaign


def tables(root: Path, campaign: str) -> Tables:
    """All trials of a campaign's runs, as far as they have come."""
    found = {directory.name: trials_of(root, directory.name) for directory in Storage(root).runs()}
    return {name.removeprefix(f"{campaign}-"): trials for name, trials in found.items() if name.startswith(campaign)}


def tasks(root: Path, campaign: str) -> int:
    return sum(trial.tasks_done for trials in tables(root, campaign).values() for trial in trials)


def written(folder: Path, name: str, benchmark: str = "digits") -> list[str]:
    """The command that makes a table, whose file is written."""
    (folder / f"{name}.yaml").write_text(TABLE.format(name=name, benchmark=benchmark))
    return ["campaign", "run", f"{name}.yaml"]


def assert_nothing_runs_again(earlier: Tables, later: Tables, what: str) -> None:
    """A trial that has ended stays as it is, its times included; one that ran repeats its last task at most."""
    for name, trials in earlier.items():
        for trial in trials:
            same = next(other for other in later[name] if other.number == trial.number)
            assert trial.status == "running" or same == trial, f"{what}: {name} {trial.number}"
            assert sum(row not in same.rows for row in trial.rows) <= 1, f"{what}: {name} {trial.number}"


def assert_all_is_there(root: Path, campaign: str) -> None:
    standing = read_standing(Storage(root), Storage(root).campaign(campaign))
    assert [each.state for each in standing.cells] == ["done"] * len(METHODS)
    names = [each for cell in standing.cells for each in (cell.cell.search, cell.cell.final) if each is not None]
    for name in names:
        assert_mlflow_has_each_task_once(root, name, trials_of(root, name), chosen=int(not name.endswith("-final")))


def test_killed_at_six_random_moments(tmp_path: Path) -> None:
    root, dice = tmp_path / "tausearch-runs", random.Random(0)
    run(*written(tmp_path, "calm"), cwd=tmp_path)
    calm = tables(root, "calm")
    command, total = written(tmp_path, "killed"), tasks(root, "calm")
    after: list[Tables] = []
    for number in range(KILLS):
        wanted = dice.randint(total * number // KILLS, total * (number + 1) // KILLS)
        with started(*command, cwd=tmp_path, out=tmp_path / f"{number}.txt") as process:

            def reached(process: subprocess.Popen[bytes] = process, wanted: int = wanted) -> bool:
                assert process.poll() is None, "it ended by itself"
                return is_driven(Storage(root).campaign("killed")) and tasks(root, "killed") >= min(wanted, total - 1)

            wait_until(reached, 500, f"task {wanted}")
            time.sleep(dice.uniform(0, 0.5))
            if process.poll() is None:
                kill_tree(process.pid)
        after.append(tables(root, "killed"))
    said = run(*command, cwd=tmp_path)
    assert "3/3 cells done" in said
    last = tables(root, "killed")
    for number, each in enumerate(after):
        assert_nothing_runs_again(each, last, f"kill {number}")
    assert {name: without_time(trials) for name, trials in last.items()} == {
        name: without_time(trials) for name, trials in calm.items()
    }
    assert_all_is_there(root, "killed")
    assert not list(Storage(root).campaign("killed").ray.glob("attempt-*/*/checkpoint_*"))


def test_a_lost_node_of_three_costs_a_task_at_most(tmp_path: Path) -> None:
    root, node = tmp_path / "tausearch-runs", {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        lost = [cluster.add_node(**node), cluster.add_node(**node)][1]
        command = [*written(tmp_path, "nodes"), "--address", cluster.address]
        with started(*command, cwd=tmp_path, out=tmp_path / "out.txt") as process:
            raylet = lost.all_processes["raylet"][0].process.pid

            def in_the_middle() -> bool:
                assert process.poll() is None, (tmp_path / "out.txt").read_text()
                return tasks(root, "nodes") >= 4 and bool(train_workers(raylet))

            wait_until(in_the_middle, 400, "a trial on the node that will be lost")
            cluster.remove_node(lost, allow_graceful=False)
            before = tables(root, "nodes")
            assert process.wait(600) == 0, (tmp_path / "out.txt").read_text()
    finally:
        cluster.shutdown()
    assert_nothing_runs_again(before, tables(root, "nodes"), "the node")
    assert_all_is_there(root, "nodes")
