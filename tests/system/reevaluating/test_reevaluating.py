"""A search for a front that re-evaluates, by command: undisturbed, and with a driver that is killed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tausearch.runs import Record, Storage, TrialSummary
from tausearch.studies import load_best
from tests.support.drivers.kills import assert_nothing_runs_again, one_ended_and_one_runs
from tests.support.drivers.searches import kill_tree, started, trials_of, without_time
from tests.support.drivers.services import wait_until
from tests.support.drivers.trained_here import without_ray

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SHORT = ["search", "digits", "finetune", "--tasks", "2", "--epochs", "1", "--algorithm", "grid"]
AIMS = ["--objective", "final_accuracy", "--objective", "forgetting"]
SEARCH = [*SHORT, *AIMS, "--trials", "3", "--reevaluate", "2", "--reevaluate-runs", "2", "--max-concurrent-trials", "1"]


def reevaluations(root: Path, name: str) -> list[TrialSummary]:
    return Record(Storage(root).run(name).reevaluation.record).trials()


def assert_reevaluated(root: Path, name: str, status: dict[str, Any]) -> None:
    """Best file, status and MLflow of a search that has re-evaluated two of three trials with two runs each."""
    assert len(trials_of(root, name)) == 3 and len(reevaluations(root, name)) == 4
    selection = load_best(Storage(root).run(name).best_file).selection
    assert selection is not None and selection.reevaluation is not None and selection.reevaluation.seeds == (1, 2)
    assert status["state"] == "finished" and status["reevaluation"]["verdict"]["chosen"] == selection.trial
    assert set(selection.reevaluation.objectives) == {"val/final_accuracy", "val/forgetting"}
    front = [f"trial-{each['trial']:05}.yaml" for each in status["front"]]
    assert sorted(front) == sorted(each.name for each in Storage(root).run(name).front.iterdir()) and front
    client = MlflowClient(tracking_uri=Storage(root).mlflow_uri)
    (experiment,) = [each for each in client.search_experiments() if each.name.startswith("digits")]
    roles = [each.data.tags.get("role") for each in client.search_runs([experiment.experiment_id])]
    assert sorted(map(str, roles)) == ["None", *["reevaluation"] * 4, *["trial"] * 3]


def test_killed_as_it_reevaluates_and_resumed_it_has_what_it_would_have_had(
    call: Callable[..., str], tmp_path: Path
) -> None:
    root = tmp_path / "tausearch-runs"
    with without_ray(tmp_path / "tune"):
        assert "re-evaluation of trial 0, seed 1 complete" in call(*SEARCH, "--name", "calm")
    calm = json.loads(call("status", "calm", "--format", "json"))
    assert_reevaluated(root, "calm", calm)
    asked = [*SEARCH, "--name", "killed", "--tracking", "none"]
    with started(*asked, cwd=tmp_path, out=tmp_path / "out.txt") as driver:
        wait_until(lambda: one_ended_and_one_runs(reevaluations(root, "killed")), 600, "the second fresh run")
        kill_tree(driver.pid)
    before = reevaluations(root, "killed")
    assert any(each.status == "running" for each in before)
    call("resume", "killed")
    after = reevaluations(root, "killed")
    assert_nothing_runs_again(before, after)
    assert without_time(after) == without_time(reevaluations(root, "calm"))
    assert without_time(trials_of(root, "killed")) == without_time(trials_of(root, "calm"))
    assert json.loads(call("status", "killed", "--format", "json"))["front"] == calm["front"]
    chosen = [load_best(Storage(root).run(name).best_file) for name in ("calm", "killed")]
    assert chosen[0].hyperparameters == chosen[1].hyperparameters
    assert chosen[0].selection.reevaluation == chosen[1].selection.reevaluation  # type: ignore[union-attr]
