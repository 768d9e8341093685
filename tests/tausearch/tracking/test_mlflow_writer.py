"""MLflow as a view: every task once, the chosen trial tagged, and a dead server that stops nothing."""

from __future__ import annotations

import getpass
import json
import subprocess
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.tracking._tracking_service import utils

from tausearch.runs import (
    Conclusion,
    RunSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    open_storage,
)
from tausearch.tracking import MlflowRun, MlflowWriter, mlflow_writer as writer_module, provenance
from tausearch.tracking.mlflow_run import MATRIX_FILE, PARENT_TAG, RUN_TAG
from tests.support.drivers.services import wait_until
from tests.support.imports import ROOT
from tests.support.runs.trials import make_trial

pytestmark = pytest.mark.system  # each makes a database schema, which takes seconds


@pytest.fixture
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picture of the chosen trial, as the end of a search draws it."""
    file = tmp_path_factory.mktemp("figures") / MATRIX_FILE
    file.touch()
    return file


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path, write=True)


def track(
    spec: RunSpec, storage: Storage, *trials: TrialSummary, uri: str | None = None, status: str = "FINISHED"
) -> None:
    """Write a run to its end."""
    tracker = MlflowWriter(spec, storage, uri)
    for trial in trials:
        tracker.note(trial)
    end(tracker, status=status)
    assert tracker.error is None


def end(tracker: MlflowWriter, conclusion: Conclusion | None = None, status: str = "FINISHED") -> None:
    """End a run, and wait until MLflow has it."""
    tracker.end(status, conclusion or Conclusion())
    tracker.wait()


def runs_of(uri: str, query: str = "", benchmark: str = "digits") -> list[Run]:
    client = MlflowClient(tracking_uri=uri)
    return list(client.search_runs([client.get_experiment_by_name(benchmark).experiment_id], query))


def history(uri: str, run: str) -> list[Any]:
    return list(MlflowClient(tracking_uri=uri).get_metric_history(run, "val/average_accuracy"))


@pytest.mark.parametrize("own", ["", "mine.db"])
def test_every_task_once_and_the_chosen_trial_tagged(
    spec: SearchSpec, storage: Storage, tmp_path: Path, own: str
) -> None:
    uri = f"sqlite:///{tmp_path / own}" if own else storage.mlflow_uri
    (tmp_path / "best.yaml").write_text("x")
    tracker = MlflowWriter(spec, storage, uri=uri)
    best = make_trial(0, value=70.0)
    for trial in (*(make_trial(0, tasks=tasks) for tasks in (0, 1, 2)), best, best):
        tracker.note(trial)
    tracker.note(make_trial(1, tasks=1, status="diverged", error="not finite"))
    tracker.note(make_trial(2, tasks=1))
    files = (tmp_path / "best.yaml", tmp_path / "absent")
    end(tracker, Conclusion(best, {"x": 1.0}, files))
    assert tracker.error is None
    runs = {run.info.run_name: run for run in runs_of(uri)}
    assert runs.keys() == {spec.name, *(f"{spec.name}/trial-{number}" for number in range(3))}
    first = runs[f"{spec.name}/trial-0"].info.run_id
    assert [(m.step, m.value) for m in history(uri, first)] == [(1, 90.0), (2, 80.0), (3, 70.0)]
    chosen, diverged, killed = (runs[f"{spec.name}/trial-{number}"] for number in range(3))
    assert chosen.data.tags["chosen"] == "true" and "chosen" not in diverged.data.tags | killed.data.tags
    assert (diverged.info.status, diverged.data.tags["error"]) == ("FAILED", "not finite")
    assert killed.info.status == "KILLED"
    parent = runs[spec.name]
    assert parent.data.tags["best/alpha"] == "1.0"
    artifacts = MlflowClient(tracking_uri=uri).list_artifacts(parent.info.run_id)
    assert [file.path for file in artifacts] == ["best.yaml"]
    assert parent.info.artifact_uri.startswith(storage.mlflow_artifacts.as_uri())


def test_a_dead_server_is_noted_and_delays_nothing(
    spec: SearchSpec, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def hang(*arguments: Any) -> MlflowRun:
        asked.set()
        assert answered.wait(200), "the search waits for its server"
        return MlflowRun(*arguments)

    assert writer_module.PATIENCE_SECONDS <= 10  # that the end of a run waits for it, and no longer
    monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(writer_module, "MlflowRun", hang)
    tracker = MlflowWriter(spec, storage, uri="http://127.0.0.1:9")
    tracker.note(make_trial(0, value=1.0))
    assert asked.wait(200)
    for number in range(100):  # while the first request hangs
        tracker.note(make_trial(number, value=1.0))
    answered.set()
    end(tracker)
    assert tracker.error is not None


@pytest.mark.parametrize("second", ["digits", "glyphs"])
def test_two_searches_share_the_store(spec: SearchSpec, storage: Storage, second: str) -> None:
    (storage.root / "mlflow.db.1.tmp").write_bytes(b"SQLite half")  # what a kill leaves behind
    specs = [spec, spec.model_copy(update={"name": "other", "benchmark": second})]
    trackers = [MlflowWriter(s, storage) for s in specs]  # both create the schema, at the same time
    for tracker in trackers:
        tracker.note(make_trial(0, value=1.0))
    for tracker in trackers:
        end(tracker)
        assert tracker.error is None
    experiments = MlflowClient(tracking_uri=storage.mlflow_uri).search_experiments()
    assert {e.name for e in experiments} >= {"digits", second}


def test_a_storage_root_that_was_moved_has_its_pictures_where_it_is(
    spec: SearchSpec, tmp_path: Path, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, trials = open_storage(tmp_path / "a_b", write=True), [make_trial(n, value=70.0 + n) for n in (0, 1)]
    before.root.mkdir()
    first = MlflowRun(spec, before, before.mlflow_uri)
    first.write(trials[0])
    first.conclude("FINISHED", Conclusion(trials[0], files=(picture,)))
    moved = open_storage(tmp_path / "b c", write=True)
    before.root.rename(moved.root)
    monkeypatch.setattr(utils, "_artifact_repos_cache", OrderedDict())  # as in a new process
    run = MlflowRun(spec, moved, moved.mlflow_uri)
    run.write(trials[1])
    run.conclude("FINISHED", Conclusion(trials[1], files=(picture,)))
    client = MlflowClient(tracking_uri=moved.mlflow_uri)
    for number in (0, 1):
        found = client.get_run(run._nested[number].id)
        assert found.info.artifact_uri == f"{moved.mlflow_artifacts.as_uri()}/{found.info.run_id}/artifacts"
        assert [file.path for file in client.list_artifacts(found.info.run_id)] == ["accuracy_matrix.png"]
    assert [path.name for path in tmp_path.iterdir()] == ["b c"]


def test_every_run_says_whose_it_is_which_code_ran_and_on_what_data(spec: SearchSpec, storage: Storage) -> None:
    own = spec.model_copy(update={"benchmark": "folder:/data/birds?tasks=3", "id": "abc"})
    first = MlflowRun(own, storage, storage.mlflow_uri)
    first.write(make_trial(0, value=1.0))
    first.conclude("FINISHED", Conclusion())
    renamed = own.model_copy(update={"name": "renamed"})
    MlflowRun(renamed, storage, storage.mlflow_uri).conclude("FINISHED", Conclusion())
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    runs = {run.info.run_name: run for run in runs_of(storage.mlflow_uri, benchmark=own.benchmark)}
    assert set(runs) == {"renamed", f"{own.name}/trial-0"}
    for run in runs.values():
        tags = run.data.tags
        assert tags["mlflow.source.name"] == "tausearch search" and tags["mlflow.user"] == getpass.getuser()
        assert tags["mlflow.source.git.commit"] == head.stdout.strip()
    parent = runs["renamed"]
    (given,) = parent.inputs.dataset_inputs  # written once, though the run was opened twice
    assert (given.dataset.name, given.dataset.source_type) == (own.benchmark, "local")
    assert json.loads(given.dataset.source) == {"uri": "/data/birds"} and parent.data.tags[RUN_TAG] == "renamed"


def test_a_repository_that_only_lies_around_the_code_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "provenance.py").touch()
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    provenance.commit.cache_clear()
    try:
        assert provenance.commit() is None
    finally:
        provenance.commit.cache_clear()


def test_what_a_store_missed_is_written_when_it_is_there(
    spec: SearchSpec, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 120.0)  # a database is made meanwhile
    folder = tmp_path / "later"
    folder.touch()  # in the way of the store's folder
    tracker = MlflowWriter(spec, storage, uri=f"sqlite:///{folder / 'm.db'}")
    for tasks in (0, 1, 2):
        tracker.note(make_trial(0, tasks=tasks))
    wait_until(lambda: tracker.error is not None, 120, "the first failure")
    folder.unlink()
    best = make_trial(0, value=70.0)
    tracker.note(best)
    end(tracker, Conclusion(best))
    assert tracker.error is None
    (run,) = runs_of(tracker.uri, f"tags.`{PARENT_TAG}` != ''")
    assert [metric.step for metric in history(tracker.uri, run.info.run_id)] == [1, 2, 3]


def test_runs_and_points_that_arrived_twice_are_there_once(spec: SearchSpec, storage: Storage) -> None:
    uri = storage.mlflow_uri
    MlflowRun(spec, storage, uri).write(make_trial(0, tasks=2))
    (nested,) = runs_of(uri, f"tags.`{PARENT_TAG}` != ''")
    client, parent, experiment = MlflowClient(tracking_uri=uri), nested.data.tags[PARENT_TAG], nested.info.experiment_id
    # What a slow server does with requests that timed out and were sent again.
    client.create_run(experiment, tags={PARENT_TAG: parent, "trial": "0", "role": "trial"})
    client.create_run(experiment, run_name=spec.name, tags={RUN_TAG: spec.name})
    client.set_tag(nested.info.run_id, "tasks", "1")  # the batch of task 2 arrived, its tag did not
    again = MlflowRun(spec, storage, uri)
    again.write(make_trial(0, value=70.0))
    again.conclude("FINISHED", Conclusion(make_trial(0, value=70.0)))
    assert [run.info.run_id for run in runs_of(uri, f"tags.`{PARENT_TAG}` != ''")] == [nested.info.run_id]
    assert [run.info.run_id for run in runs_of(uri, f"tags.`{RUN_TAG}` = '{spec.name}'")] == [parent]
    found = [(metric.step, metric.value) for metric in history(uri, nested.info.run_id)]
    assert found == [(1, 90.0), (2, 80.0), (3, 70.0)]


def test_what_a_store_refuses_holds_up_neither_the_rest_nor_the_end(
    spec: SearchSpec, storage: Storage, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 3.0)
    storage.mlflow_artifacts.touch()  # a file where artifacts should lie: no picture can be written
    tracker = MlflowWriter(spec, storage)
    tracker.note(make_trial(0, value=1.0))
    tracker.note(make_trial(1, tasks=2))
    end(tracker, Conclusion(make_trial(0, value=1.0), files=(picture,)))  # comes back though one write fails for good
    assert tracker.error is not None
    tasks = {run.info.run_name: run.data.tags.get("tasks") for run in runs_of(storage.mlflow_uri)}
    assert tasks[f"{spec.name}/trial-0"] == "3" and tasks[f"{spec.name}/trial-1"] == "2"


def test_a_server_that_is_back_after_it_was_given_up_does_not_pass_for_whole(
    spec: SearchSpec, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SILENCE_SECONDS", 0.3)
    busy, write = threading.Event(), MlflowRun.write

    def hang(self: MlflowRun, trial: TrialSummary) -> None:
        busy.wait(200)
        write(self, trial)

    MlflowRun(spec, storage, storage.mlflow_uri)  # its database is there already
    monkeypatch.setattr(MlflowRun, "write", hang)
    tracker = MlflowWriter(spec, storage)
    tracker.note(make_trial(0, value=1.0))
    end(tracker)
    busy.set()
    tracker._thread.join(200)
    assert not tracker._thread.is_alive()
    end(tracker)
    assert tracker.error == "no answer"


def test_searches_of_one_name_from_two_roots_are_two_on_one_server(spec: SearchSpec, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'shared.db'}"
    for who, tasks in (("ada", 3), ("bob", 1)):
        storage = open_storage(tmp_path / who, write=True)
        for _ in range(2):  # the second is the one that continues
            track(spec.model_copy(update={"id": who}), storage, make_trial(0, tasks=tasks), uri=uri, status="KILLED")
    assert len(runs_of(uri, f"tags.`{RUN_TAG}` = '{spec.name}'")) == 2
    nested = [run for run in runs_of(uri) if PARENT_TAG in run.data.tags]
    assert sorted(run.data.tags["tasks"] for run in nested) == ["1", "3"]
