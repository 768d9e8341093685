"""Compositions in MLflow: each is there once, told from runs by its tags, and built again from the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tausearch import compose, edit
from tausearch.api import export_adapters, sync_run
from tausearch.runs import Storage, open_storage
from tausearch.studies import BestFile
from tests.support.runs.composable_runs import SMALL, make_composable_run
from trainables.errors import InputError

pytestmark = pytest.mark.system


def compositions(storage: Storage) -> dict[str, Any]:
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    experiment = client.get_experiment_by_name(SMALL)
    found = client.search_runs([experiment.experiment_id], "tags.kind = 'composition'")
    labels = [run.data.tags["tausearch.composition"] for run in found]
    assert len(set(labels)) == len(labels)
    return dict(zip(labels, found, strict=True))


def test_compositions_in_mlflow(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    directory = make_composable_run(storage, "ita", seeds=[0, 1])
    first = compose(["ita"], drop=[2], coefficient="negate", storage=tmp_path)
    compose(["ita"], drop=[2], coefficient="negate", storage=tmp_path)
    ((done,)) = (edit(["ita"], storage=tmp_path),)
    assert first.tracking_error is None and done[0].tracking_error is None
    found = compositions(storage)
    assert set(found) == {"drop-2-negate", "edit"}
    tags, metrics = found["drop-2-negate"].data.tags, found["drop-2-negate"].data.metrics
    assert (tags["composition.of"], tags["method"], tags["rule"]) == ("ita", "ita-lora", "linear")
    assert tags["weights"] == "0.333333,-0.333333,0.333333" and found["edit"].data.tags["kept"] == "1,2,3"
    wanted = first.result.summary()["test/final_accuracy"]
    assert metrics["test/final_accuracy/mean"] == wanted.mean and metrics["test/final_accuracy/std"] == wanted.std
    gain = done[0].result.unlearning("subtract")["target_gain"]
    assert found["edit"].data.metrics["unlearning/subtract/target_gain/mean"] == gain.mean
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    for run in found.values():
        client.delete_run(run.info.run_id)
    for _ in range(2):  # what is there stays as it is
        sync_run(storage, directory)
        again = compositions(storage)
        assert {k: run.data.metrics for k, run in again.items()} == {k: run.data.metrics for k, run in found.items()}


def test_a_server_that_is_away_costs_nothing_but_a_line(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    make_composable_run(storage, "ita", seeds=[0])
    directory = storage.run("ita")
    from tausearch.runs import read_spec

    read_spec(directory).model_copy(update={"tracking_uri": "http://127.0.0.1:1"}).save(directory)
    done = compose(["ita"], storage=tmp_path)
    assert done.tracking_error == "no server answers there" and done.file is not None and done.file.exists()


def test_what_export_copies_is_composed_again(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    make_composable_run(storage, "ita", seeds=[0])
    make_composable_run(storage, "plain", "finetune", seeds=[0])
    from tausearch.runs import read_spec

    def best(name: str) -> Any:
        spec = read_spec(storage.run(name))
        return BestFile.model_construct(benchmark=spec.benchmark, method=spec.method, hyperparameters=spec.fixed)

    export_adapters(storage, best("ita"), tmp_path / "out")
    here = compose(["ita"], storage=storage.root)
    assert compose([str(tmp_path / "out")], storage=storage.root).result.accuracies == here.result.accuracies
    with pytest.raises(InputError, match="run 'plain': its method 'finetune' leaves no task vectors"):
        export_adapters(storage, best("plain"), tmp_path / "none")
