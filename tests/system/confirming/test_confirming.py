"""Searches that confirm, through the command line: one to its end, and one whose driver is killed as it confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tausearch.choosing import load_best
from tausearch.runs import Record, Storage, TrialSummary
from tests.support.searches import kill_tree, run, started, trials_of, without_time
from tests.support.services import wait_until

SEARCH = ["search", "digits", "finetune", "--tasks", "2", "--epochs", "1", "--algorithm", "grid", "--trials", "3"]
CONFIRM = ["--confirm", "2", "--confirm-runs", "2"]


def confirmations(root: Path, name: str) -> list[TrialSummary]:
    return Record(Storage(root).run(name).confirmation.record).trials()


@pytest.mark.slow
def test_a_search_confirms_and_its_choice_is_trained(tmp_path: Path) -> None:
    root = tmp_path / "tausearch-runs"
    shown = run(*SEARCH, *CONFIRM, "--name", "s", cwd=tmp_path)
    assert "confirmation of trial 0, seed 1 complete" in shown
    assert len(trials_of(root, "s")) == 3 and len(confirmations(root, "s")) == 4
    selection = load_best(Storage(root).run("s").best_file).selection
    assert selection is not None and selection.confirmation is not None and selection.confirmation.seeds == (1, 2)
    status = json.loads(run("status", "s", "--json", cwd=tmp_path))
    assert status["state"] == "finished" and status["confirmation"]["verdict"]["chosen"] == selection.trial
    client = MlflowClient(tracking_uri=Storage(root).mlflow_uri)
    (experiment,) = [each for each in client.search_experiments() if each.name.startswith("digits")]
    roles = [each.data.tags.get("role") for each in client.search_runs([experiment.experiment_id])]
    assert sorted(map(str, roles)) == ["None", *["confirmation"] * 4, *["trial"] * 3]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_as_it_confirms_and_resumed_it_has_what_it_would_have_had(tmp_path: Path) -> None:
    root = tmp_path / "tausearch-runs"
    run(*SEARCH, *CONFIRM, "--name", "calm", cwd=tmp_path)
    with started(*SEARCH, *CONFIRM, "--name", "killed", cwd=tmp_path, out=tmp_path / "out.txt") as driver:
        wait_until(lambda: any(each.tasks_done for each in confirmations(root, "killed")), 600, "a fresh run")
        kill_tree(driver.pid)
    before = confirmations(root, "killed")
    assert any(each.status == "running" for each in before)
    run("resume", "killed", cwd=tmp_path)
    after = confirmations(root, "killed")
    for each in before:
        same = next(other for other in after if other.number == each.number)
        assert each.status == "running" or same == each
        assert sum(row not in same.rows for row in each.rows) <= 1
    assert without_time(after) == without_time(confirmations(root, "calm"))
    assert without_time(trials_of(root, "killed")) == without_time(trials_of(root, "calm"))
    chosen = [load_best(Storage(root).run(name).best_file) for name in ("calm", "killed")]
    assert chosen[0].hyperparameters == chosen[1].hyperparameters
    assert chosen[0].selection.confirmation == chosen[1].selection.confirmation  # type: ignore[union-attr]
