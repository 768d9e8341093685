"""Kill the driver of a run at a moment that its record shows, and hold the record before against the record after."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

from optuna.trial import TrialState

from tausearch.runs import Storage, TrialSummary, is_driven, read_spec
from tests.support.drivers.searches import assert_mlflow_has_each_task_once, kill_tree, study_trials, trials_of
from tests.support.drivers.services import wait_until

Table = list[TrialSummary]
Moment = Callable[[Table], bool]


def one_ended_and_one_runs(table: Table) -> bool:
    """Whether a trial has ended and another has done a task: both have something to lose."""
    return any(t.status != "running" for t in table) and any(t.status == "running" and t.rows for t in table)


def kill_driver(process: subprocess.Popen[bytes], root: Path, name: str, moment: Moment) -> Table:
    """kill -9 the driver of a run at a moment; returns the table after it."""
    directory = Storage(root).run(name)

    def reached() -> bool:
        assert process.poll() is None, "it ended by itself"
        return is_driven(directory) and moment(trials_of(root, name))

    wait_until(reached, 500, f"the moment to kill {name}")
    kill_tree(process.pid)
    return trials_of(root, name)


def repeated(earlier: TrialSummary, later: TrialSummary) -> int:
    """Count the finished tasks that ran again; even with equal metrics their times differ."""
    return sum(row not in later.rows for row in earlier.rows)


def assert_nothing_runs_again(earlier: Table, later: Table) -> None:
    """A trial that has ended stays as it is, its times included; one that ran repeats its last task at most."""
    trials = {trial.number: trial for trial in later}
    for trial in earlier:
        same = trials[trial.number]
        assert repeated(trial, same) <= 1 and same.hyperparameters == trial.hyperparameters
        assert trial.status == "running" or same == trial


def assert_nothing_is_lost(root: Path, name: str, tables: list[Table]) -> None:
    """Assert what holds for every search, with any searcher and with or without early stopping."""
    trials, count = tables[-1], read_spec(Storage(root).run(name)).trials
    assert [trial.number for trial in trials] == list(range(count))
    assert len({trial.hyperparameters["lr"] for trial in trials}) == count
    for earlier, later in itertools.pairwise(tables):
        assert_nothing_runs_again(earlier, later)
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    found = [(trial.user_attrs["trial"], trial.state) for trial in study_trials(root, name)]
    assert found == [(trial.number, states[trial.status]) for trial in trials]
    assert_mlflow_has_each_task_once(root, name, trials)
