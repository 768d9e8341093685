"""The process that writes to MLflow: what it writes, and what happens to it and its driver when one of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from tausearch.runs import Conclusion, SearchSpec, Storage
from tausearch.tracking import (
    TABLE_TAG,
    Deliveries,
    MlflowCallback,
    TableRow,
    checked_uri,
    log_benchmark_table,
    table_writer,
)
from tausearch.tracking.mlflow_process import MlflowProcess
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial

pytestmark = pytest.mark.system  # the process imports MLflow, which takes seconds

_DRIVER = """
import os, signal, time
from tausearch.tracking.mlflow_process import MlflowProcess
made = MlflowProcess()
connection = made._connection()
for number in (None, signal.SIGTERM, signal.SIGUSR1):
    if number is not None:
        os.kill(made._process.pid, number)
        time.sleep(0.5)
    connection.send(("write", ()))
    connection.recv()  # it runs, and has no run to write
print(made._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def process() -> MlflowProcess:
    return MlflowProcess()


def pid_of(process: MlflowProcess) -> int:
    assert process._process is not None
    return process._process.pid


def test_it_writes_what_an_mlflow_run_writes(process: MlflowProcess, spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    run = process.open(spec, storage, storage.mlflow_uri)
    assert run.changes == 0
    run.write(make_trial(0, tasks=2, value=70.0))
    assert run.changes == 3  # the run is made, gets its metrics, and ends
    other = process.open(spec, storage, storage.mlflow_uri)  # as after a failure; it knows what MLflow has
    other.write(make_trial(0, tasks=2, value=70.0))
    assert other.changes == 0
    other.conclude("FINISHED", Conclusion(make_trial(0, tasks=2, value=70.0), {"a": 1.0}))
    client = MlflowClient(storage.mlflow_uri)
    [experiment] = client.search_experiments(filter_string="name = 'digits'")
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.info.status for name, run in found.items()} == {
        spec.name: "FINISHED",
        f"{spec.name}/trial-0": "FINISHED",
    }
    assert found[spec.name].data.metrics["a"] == 1.0 and found[f"{spec.name}/trial-0"].data.tags["chosen"] == "true"


def test_it_writes_tables_once_a_run_was_told(process: MlflowProcess, spec: SearchSpec, tmp_path: Path) -> None:
    storage, deliveries = Storage(tmp_path), Deliveries(trackers={"mlflow": MlflowCallback})
    assert table_writer(deliveries) is log_benchmark_table  # in this process
    deliveries.tracker("mlflow").callback._unused = process  # type: ignore[attr-defined]  # has imported MLflow
    spec = spec.model_copy(update={"id": "1" * 32})
    process.open(spec, storage, storage.mlflow_uri).write(make_trial(0))
    rows = [TableRow(spec.method, (spec,), paper=50.0)]
    page = table_writer(deliveries)(storage, storage.mlflow_uri, "digits", "mine", rows)
    client = MlflowClient(storage.mlflow_uri)
    [experiment] = client.search_experiments(filter_string="name = 'digits'")
    assert page == f"#/experiments/{experiment.experiment_id}/runs?viewStateShareKey=tausearch-mine"
    tagged = client.search_runs([experiment.experiment_id], f"tags.`{TABLE_TAG}` = 'mine'")
    assert [run.info.run_name for run in tagged] == [spec.name]
    table_writer(deliveries)(storage, storage.mlflow_uri, "digits", "mine", [], [spec.method])
    assert not client.search_runs([experiment.experiment_id], f"tags.`{TABLE_TAG}` = 'mine'")
    with pytest.raises(RuntimeError):
        process.log_benchmark_table(storage, "http://127.0.0.1:9", "digits", "mine", rows)


def test_why_mlflow_refuses_has_no_password(process: MlflowProcess, spec: SearchSpec, tmp_path: Path) -> None:
    uri = checked_uri("postgresql://me:s3cr@127.0.0.1:9/no")
    assert uri is not None
    with pytest.raises(RuntimeError) as error:
        process.open(spec, Storage(tmp_path), uri)
    assert "s3cr" not in str(error.value)


def test_the_driver_s_variables_of_now_count(
    process: MlflowProcess, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    process.open(spec, storage, storage.mlflow_uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "soon")
    with pytest.raises(RuntimeError, match="soon"):
        process.open(spec, storage, "http://127.0.0.1:9")


def test_one_that_was_killed_is_said_and_started_again(
    process: MlflowProcess, spec: SearchSpec, tmp_path: Path
) -> None:
    storage, before = Storage(tmp_path), pid_of(process)
    run = process.open(spec, storage, storage.mlflow_uri)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(ConnectionError, match="was killed"):
        run.write(make_trial(0))
    wait_until(lambda: process._process is not None and process._process.poll() is not None, 60, "its end")
    process.open(spec, storage, storage.mlflow_uri).write(make_trial(0))
    assert pid_of(process) != before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_driver_and_not_before(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _DRIVER], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        writer = psutil.Process(int(driver.stdout.readline()))
        assert driver.poll() is None and writer.is_running()  # a signal to the process alone has not ended it
        driver.send_signal(number)
    writer.wait(60)


def test_it_ends_with_its_object() -> None:
    made = MlflowProcess()
    writer = psutil.Process(pid_of(made))
    del made
    assert not writer.is_running()
