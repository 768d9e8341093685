"""What a driver passes on to the process that writes to MLflow; the process itself is a thread here."""

from __future__ import annotations

import os
import threading
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tausearch.runs import Conclusion, SearchSpec, Storage, TrialSummary
from tausearch.tracking import (
    Deliveries,
    MlflowCallback,
    MlflowRun,
    RunBegan,
    RunEnded,
    RunInfo,
    log_benchmark_table,
    mlflow_process,
    secrets,
    table_writer,
)
from tausearch.tracking.mlflow_process import MlflowProcess, RemoteRun
from tests.support.runs.trials import make_trial


def test_a_run_in_another_process_takes_what_it_is_told_and_says_what_mlflow_refuses(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[object, ...]] = []
    ended: list[str] = []

    class Run:
        changes = 0

        def __init__(self, *how: object) -> None:
            opened.append(how)

        def write(self, trial: TrialSummary) -> None:
            self.changes += 1 + trial.number

        def conclude(self, status: str, conclusion: Conclusion) -> None:
            ended.append(status)
            raise RuntimeError("HTTP: Connection refused")

    monkeypatch.setattr(mlflow_process, "MlflowRun", Run)
    monkeypatch.setattr(mlflow_process, "log_benchmark_table", lambda *table: f"page of {table[2:]}")
    monkeypatch.setattr(secrets, "_uris_with_secrets", {})
    monkeypatch.setenv("TAUSEARCH_OWN", "before")
    ours, theirs = Pipe()
    threading.Thread(target=mlflow_process._serve_run, args=(theirs,), daemon=True).start()
    run, storage, uri = RemoteRun(ours), Storage(tmp_path), "postgresql://me@host/db"
    run.ask("take_over", {"TAUSEARCH_OWN": "after"}, "postgresql://me:pw@host/db", uri)
    assert os.environ["TAUSEARCH_OWN"] == "after" and secrets.with_secrets(uri) == "postgresql://me:pw@host/db"
    run.ask("open", spec, storage, uri)
    run.write(make_trial(1))
    assert opened == [(spec, storage, uri)] and run.changes == 2
    with pytest.raises(RuntimeError, match="^no server answers there$"):
        run.conclude("KILLED", Conclusion())
    assert run.changes == 2, "what it has written stays"
    assert ended == ["KILLED"]
    other, gone = Pipe()
    gone.close()
    with pytest.raises(ConnectionError, match="the process that writes to MLflow was killed"):
        RemoteRun(other).write(make_trial(0))
    ours, theirs = Pipe()
    threading.Thread(target=mlflow_process._serve_run, args=(theirs,), daemon=True).start()
    assert RemoteRun(ours).ask("log_benchmark_table", storage, uri, "digits", "t", []) == "page of ('digits', 't', [])"


def test_the_process_is_told_the_password_of_its_store(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    full, uri = "postgresql://me:pw@host/db", "postgresql://me@host/db"
    monkeypatch.setattr(secrets, "_uris_with_secrets", {uri: full})
    monkeypatch.setattr(mlflow_process, "remember", lambda *uris: told.append(uris))
    monkeypatch.setattr(mlflow_process, "MlflowRun", lambda *how: SimpleNamespace(changes=0))
    ours, theirs = Pipe()
    monkeypatch.setattr(MlflowProcess, "_connection", lambda self: ours)
    threading.Thread(target=mlflow_process._serve_run, args=(theirs,), daemon=True).start()
    MlflowProcess().open(spec, Storage(tmp_path), uri)
    assert told == [(full, uri)]


@pytest.mark.parametrize(("uri", "at_once"), [("http://a", True), ("sqlite:////a", False)])
def test_runs_wait_for_each_other_in_a_file_alone_not_on_a_server(uri: str, at_once: bool) -> None:
    began, over, answered = (threading.Event() for _ in range(3))
    for write in (lambda: (began.set(), over.wait(60)), answered.set):
        served = mlflow_process._ServedRun()
        served.answer("take_over", (dict(os.environ), uri, uri))
        served._run = cast(MlflowRun, SimpleNamespace(write=write, changes=0))
        threading.Thread(target=served.answer, args=("write", ()), daemon=True).start()
        assert began.wait(5)
    assert answered.wait(5 if at_once else 0.05) is at_once
    over.set()
    assert answered.wait(5)


def test_the_end_of_a_run_has_its_files_and_is_waited_for_once(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Conclusion] = []
    tracker = SimpleNamespace(end=lambda _, conclusion: told.append(conclusion), wait=lambda longest: None, error="no")
    process = SimpleNamespace(open=None, log_benchmark_table=lambda *table: table)
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowProcess", lambda: process)
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowWriter", lambda *_: tracker)
    info, deliveries = RunInfo(spec, tmp_path, Storage(tmp_path)), Deliveries(trackers={"mlflow": MlflowCallback})
    assert table_writer(deliveries) is log_benchmark_table, "no run has been told"
    callback = deliveries.tracker("mlflow").callback
    assert isinstance(callback, MlflowCallback)
    assert table_writer(deliveries)(Storage(tmp_path), "sqlite:///a", 1) == (Storage(tmp_path), "sqlite:///a", 1)
    callback.on_event(RunBegan(info))
    callback.on_event(RunEnded(info, stopped=False, metrics={"a": 1.0}, files=(tmp_path,)))
    assert [(each.metrics, each.files) for each in told] == [({"a": 1.0}, (tmp_path,))]
    assert [callback.finish(spec) for _ in range(2)] == ["no", "it was not told of the run"]
