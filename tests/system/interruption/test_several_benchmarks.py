"""A search on several benchmarks: a driver that is killed between parts loses none, and the choice trains on each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.drivers.kills import assert_nothing_runs_again, kill_driver, one_ended_and_one_runs
from tests.support.drivers.searches import started, trials_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BENCHMARKS = ("digits?epochs=1", "digits?tasks=2&epochs=1")
SEARCH = [
    *("search", ",".join(BENCHMARKS), "finetune", "--algorithm", "random", "--trials", "3", "--reevaluate", "0"),
    *("--max-concurrent-trials", "2", "--tracking", "none", "--resume-if-exists", "--name"),
]


def test_a_kill_between_parts_loses_none_and_the_choice_trains_on_each(
    tmp_path: Path, call: Callable[..., str]
) -> None:
    root = tmp_path / "tausearch-runs"
    with started(*SEARCH, "killed", cwd=tmp_path, out=tmp_path / "first.txt") as process:
        before = kill_driver(process, root, "killed", one_ended_and_one_runs)
    call(*SEARCH, "killed")
    after = trials_of(root, "killed")
    assert_nothing_runs_again(before, after)
    assert [part.status for part in after] == ["complete"] * 6  # three configurations, each on two benchmarks
    assert len({part.hyperparameters["lr"] for part in after}) == 3
    found = json.loads(call("status", "killed", "--format", "json"))
    assert found["counts"]["complete"] == 3 and [each["title"] for each in found["left_out"]] == list(BENCHMARKS)
    call("train", "tausearch-runs/killed/best.yaml", "--benchmark", BENCHMARKS[1], "--seeds", "0", "--name", "f")
    (final,) = trials_of(root, "f")
    assert final.tasks_done == 2 and final.hyperparameters["lr"] == found["best"]["hyperparameters"]["lr"]
