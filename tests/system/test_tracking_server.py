"""A team's tracking server: real ones, with PostgreSQL behind them, lost in the middle of a search and back again."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tausearch.runs import Record, Storage, read_spec
from tests.support.drivers.searches import assert_mlflow_has_each_task_once, started, trials_of
from tests.support.drivers.services import postgresql, tracking_server, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

TIMEOUT = 5.0  # seconds, of a request to the tracking server
LONG, SHORT = ["--trials", "8"], ["--trials", "2", "--epochs", "1"]  # LONG takes longer than two outages


def search(size: list[str], uri: str) -> list[str]:
    return ["search", "digits", "finetune", *size, "--max-concurrent-trials", "1", "--name", "s", "--tracking-uri", uri]


def assert_once(uri: str, root: Path) -> None:
    """Each trial is there once with its parameters, each metric of each task as recorded; the chosen one is drawn."""
    trials = trials_of(root, "s")
    assert {trial.status for trial in trials} == {"complete"}
    client = MlflowClient(tracking_uri=uri)
    runs = assert_mlflow_has_each_task_once(root, "s", trials, uri=uri, killed=False)
    parent = runs[0].data.tags["mlflow.parentRunId"]
    assert {file.path for file in client.list_artifacts(parent)} >= {"best.yaml", "run.yaml"}
    for run in runs:
        pictures = ["accuracy_matrix.png"] if "chosen" in run.data.tags else []
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == pictures


def done_in(record: Record) -> int:
    return sum(trial.tasks_done for trial in record.trials())


def outage(record: Record, stop: Callable[[], None], back: Callable[[], None]) -> None:
    """Take the server away for longer than a request may take, in which the search goes on as before."""
    stop()
    lost, done = time.monotonic(), done_in(record)
    arrivals = [lost]
    while time.monotonic() < lost + TIMEOUT + 2 or len(arrivals) < 5:
        assert time.monotonic() < lost + 240, arrivals
        if done_in(record) > done:
            arrivals.append(time.monotonic())
            done = done_in(record)
        time.sleep(0.05)
    back()
    assert max(later - earlier for earlier, later in pairwise(arrivals)) < TIMEOUT, arrivals


def test_the_server_hangs_then_dies_in_the_middle_of_a_search_and_comes_back(
    call: Callable[..., str], tmp_path: Path
) -> None:
    root, out = tmp_path / "tausearch-runs", tmp_path / "out.txt"
    record = Record(Storage(root).run("s").record)
    with tracking_server(tmp_path) as server:
        with started(*search(LONG, server.uri), cwd=tmp_path, out=out) as process:
            wait_until(lambda: process.poll() is not None or done_in(record) >= 4, 400, "four tasks")
            outage(record, lambda: server.signal(signal.SIGSTOP), lambda: server.signal(signal.SIGCONT))
            outage(record, lambda: server.signal(signal.SIGKILL), server.start)
            assert process.wait(900) == 0 and "does not have all of" not in out.read_text(), out.read_text()
        trials = record.trials()
        assert [(trial.status, trial.tasks_done) for trial in trials] == [("complete", 5)] * 8
        assert_once(server.uri, root)
        assert "0 of them new" in call("runs", "sync", "s")  # there, because the run knows where it was tracked
        assert_once(server.uri, root)
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    said = call("runs", "sync", "s", "--tracking-uri", elsewhere)
    assert "8 trials, 40 tasks in MLflow, 40 of them new" in said
    assert_once(elsewhere, root)
    assert "0 of them new" in call("runs", "sync", "s")  # it is tracked there from now on
    assert_once(elsewhere, root)


def test_sync_writes_what_a_server_that_stays_away_lacks(call: Callable[..., str], tmp_path: Path) -> None:
    root, out = tmp_path / "tausearch-runs", tmp_path / "out.txt"
    record = Record(Storage(root).run("s").record)
    with tracking_server(tmp_path) as server:
        with started(*search(SHORT, server.uri), cwd=tmp_path, out=out) as process:
            wait_until(lambda: process.poll() is not None or done_in(record) >= 4, 400, "four tasks")
            server.signal(signal.SIGKILL)
            assert process.wait(900) == 0, out.read_text()
        said = out.read_text()
        assert "does not have all of s (no server answers there)" in said and "sync s" in said, said
        assert "run 's': MLflow at" in call("runs", "sync", "s", code=2)
        server.start()
        (synced,) = json.loads(call("runs", "sync", "--format", "json"))  # and nothing else on stdout
        assert (synced["trials"], synced["tasks"]) == (2, 10)
        assert_once(server.uri, root)


def test_a_search_tracked_in_postgresql(call: Callable[..., str], tmp_path: Path) -> None:
    with postgresql() as store, tracking_server(tmp_path, store) as server:
        out = call(*search(SHORT, server.uri))
        assert "does not have all of" not in out, out
        directory = Storage(tmp_path / "tausearch-runs").run("s")
        assert_once(server.uri, tmp_path / "tausearch-runs")
        assert read_spec(directory).tracking_uri == server.uri
        assert not (tmp_path / "tausearch-runs" / "mlflow.db").exists()
