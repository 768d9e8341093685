"""Kill the drivers of a search with early stopping, whose trials run on a Ray that outlives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tausearch.runs import Storage
from tausearch.studies import load_best
from tausearch.studies.schedulers import FIRST_STOP
from tests.support.drivers.kills import Table, assert_nothing_is_lost, kill_driver, one_ended_and_one_runs
from tests.support.drivers.searches import started, trials_of, without_time
from tests.support.drivers.trained_here import without_ray

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TRIALS = 8
SEARCH = ["search", "digits", "finetune", "--epochs", "1", "--scheduler", "median", "--trials", str(TRIALS)]
ONE_AT_A_TIME = ["--max-concurrent-trials", "1"]  # so that the sampler knows the same trials whenever a trial starts


def one_was_stopped_early(table: Table) -> bool:
    return any(trial.status == "pruned" for trial in table) and one_ended_and_one_runs(table)


def all_have_ended(table: Table) -> bool:
    return sum(trial.status != "running" for trial in table) == TRIALS


def test_killed_in_the_middle_and_before_its_results_are_written(
    call: Callable[..., str], address: str, tmp_path: Path
) -> None:
    root, place, tables = tmp_path / "tausearch-runs", [*ONE_AT_A_TIME, "--address", address], list[Table]()
    with without_ray(tmp_path / "tune"):
        call(*SEARCH, "--name", "calm", *ONE_AT_A_TIME, "--tracking", "none")
    for command, moment in (([*SEARCH, "--name", "s"], one_was_stopped_early), (["resume", "s"], all_have_ended)):
        with started(*command, *place, cwd=tmp_path, out=tmp_path / "out.txt") as process:
            tables.append(kill_driver(process, root, "s", moment))
    call("resume", "s", *place)
    tables.append(trials_of(root, "s"))
    assert_nothing_is_lost(root, "s", tables)
    assert without_time(tables[-1]) == without_time(trials_of(root, "calm"))
    assert all(trial.tasks_done >= FIRST_STOP for trial in tables[-1])
    assert all((trial.status == "complete") == (trial.tasks_done == 5) for trial in tables[-1])
    calm, best = (load_best(Storage(root).run(name).best_file).selection for name in ("calm", "s"))
    assert calm is not None and best is not None
    assert best.value == max(trial.value or 0 for trial in tables[-1] if trial.status == "complete")
    assert (best.trial, best.value) == (calm.trial, calm.value)
