"""Kill a campaign's driver among its searches and among its final runs: the same command again, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from tausearch.runs import Storage, is_driven
from tests.support.drivers.campaigns import Tables, assert_all_is_there, assert_no_run_loses_anything, tables
from tests.support.drivers.kills import one_ended_and_one_runs
from tests.support.drivers.searches import kill_tree, started, without_time
from tests.support.drivers.services import wait_until
from tests.support.drivers.trained_here import without_ray

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TABLE = """
campaign: {name}
benchmarks: ["digits?tasks=3&epochs=1"]
methods: [finetune, ita-ia3]
search: {{algorithm: grid, trials: 2}}
train: {{seeds: [0, 1]}}
cells: [{{method: joint, search: null}}]
"""
CELLS = 3


def written(folder: Path, name: str) -> list[str]:
    """The command that makes a table, whose file is written."""
    (folder / f"{name}.yaml").write_text(TABLE.format(name=name))
    return ["campaign", "run", f"{name}.yaml"]


def among_searches(found: Tables) -> bool:
    return one_ended_and_one_runs(list(chain.from_iterable(found.values())))


def among_final_runs(found: Tables) -> bool:
    """Whether a final run whose configuration a search has chosen is under way."""
    return any(trial.rows for name, table in found.items() for trial in table if name.endswith("ita-ia3-final"))


def killed(command: list[str], folder: Path, moment: Callable[[Tables], bool]) -> Tables:
    root = folder / "tausearch-runs"
    with started(*command, cwd=folder, out=folder / "out.txt") as process:

        def reached() -> bool:
            assert process.poll() is None, "it ended by itself"
            return is_driven(Storage(root).campaign("killed")) and moment(tables(root, "killed"))

        wait_until(reached, 500, moment.__name__)
        kill_tree(process.pid)
    return tables(root, "killed")


def test_killed_among_its_searches_and_among_its_final_runs(call: Callable[..., str], tmp_path: Path) -> None:
    root = tmp_path / "tausearch-runs"
    with without_ray(tmp_path / "tune"):
        call(*written(tmp_path, "calm"), "--tracking", "none")
    command = written(tmp_path, "killed")
    after = [killed(command, tmp_path, moment) for moment in (among_searches, among_final_runs)]
    assert "3/3 cells done" in call(*command)
    last = tables(root, "killed")
    for each in after:
        assert_no_run_loses_anything(each, last)
    assert {name: without_time(trials) for name, trials in last.items()} == {
        name: without_time(trials) for name, trials in tables(root, "calm").items()
    }
    assert_all_is_there(root, "killed", CELLS)
    assert not list(root.rglob("state/*"))
