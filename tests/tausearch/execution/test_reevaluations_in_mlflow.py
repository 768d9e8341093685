"""Re-evaluations in MLflow: nested runs of their search, once, with their role, and what they say of the choice."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from tausearch.api import sync_run
from tausearch.runs import Conclusion, Record, ReevaluationSpec, read_status
from tausearch.tracking import MlflowWriter
from tausearch.tracking.mlflow_run import PARENT_TAG
from tests.support.runs.trials import make_trial
from tests.tausearch.execution.reevaluated import drive, reevaluated_search

pytestmark = pytest.mark.system  # each makes a database schema, which takes seconds


def test_sync_writes_trials_and_reevaluations_once(tmp_path: Path) -> None:
    spec, storage, directory = reevaluated_search(tmp_path)
    drive(spec, storage, directory)
    assert sync_run(storage, directory).written == (5 + 6) * spec.steps
    assert sync_run(storage, directory).written == 0
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    runs = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    (parent,) = [run for run in runs if PARENT_TAG not in run.data.tags]
    verdict = read_status(directory).reevaluation.verdict  # type: ignore[union-attr]
    assert verdict is not None and parent.info.status == "FINISHED"
    assert parent.data.metrics["reevaluated/val/final_accuracy"] == verdict.mean
    assert parent.data.metrics["reevaluated/val/final_accuracy_ahead_error"] == verdict.ahead_error
    nested = [run for run in runs if run.data.tags.get(PARENT_TAG) == parent.info.run_id]
    by_role = {role: [run for run in nested if run.data.tags["role"] == role] for role in ("trial", "reevaluation")}
    assert [len(found) for found in by_role.values()] == [5, 6] and len(nested) == 11
    (chosen,) = [run for run in nested if run.data.tags.get("chosen") == "true"]
    assert chosen.data.tags["trial"] == str(verdict.chosen) and chosen in by_role["trial"]
    reevaluating = {run.number: run for run in Record(directory.reevaluation.record).trials()}
    for run in by_role["reevaluation"]:
        known = reevaluating[int(run.data.tags["tausearch.number"])]
        assert run.data.tags["trial"] == run.data.tags["reevaluates"]
        assert run.data.metrics["val/final_accuracy"] == known.value
        assert run.data.params["seed"] == run.data.params["split_seed"] == str(known.seed)
        assert run.info.run_name == f"{spec.name}/trial-{run.data.tags['reevaluates']}-seed-{known.seed}"


def test_reevaluations_wait_for_the_run_that_they_are_part_of(tmp_path: Path) -> None:
    spec, storage, _ = reevaluated_search(tmp_path)
    search = MlflowWriter(spec, storage)
    reevaluating = MlflowWriter(ReevaluationSpec.of(spec), storage, parent=search)
    reevaluating.note(make_trial(0, value=80.0))  # nobody has told the search's own tracker of anything
    for tracker in (reevaluating, search):
        tracker.end("FINISHED", Conclusion())
        tracker.wait()
    assert reevaluating.error is None and search.error is None
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    runs = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert sorted(PARENT_TAG in run.data.tags for run in runs) == [False, True]
