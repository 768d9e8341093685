"""Compositions in MLflow: a run each, told from others by tags, and versions of a benchmark's registered model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient

from tausearch import compose, evaluate, load_model
from tausearch.api import sync_run
from tausearch.runs import Storage, open_storage, read_spec
from tests.support.runs.composable_runs import SMALL, make_composable_run
from trainables.errors import InputError

pytestmark = pytest.mark.system


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A storage root with a final run."""
    storage = open_storage(tmp_path / "runs", write=True)
    make_composable_run(storage, "ita", seeds=[0, 1])
    return storage


def compositions(storage: Storage) -> dict[str, Any]:
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    experiment = client.get_experiment_by_name(SMALL)
    found = client.search_runs([experiment.experiment_id], "tags.kind = 'composition'")
    labels = [run.data.tags["tausearch.composition"] for run in found]
    assert len(set(labels)) == len(labels)
    return dict(zip(labels, found, strict=True))


def test_compositions_in_mlflow(storage: Storage) -> None:
    directory = storage.run("ita")
    first = compose(["ita"], drop=[2], coefficient="negate", storage=storage.root)
    compose(["ita"], drop=[2], coefficient="negate", storage=storage.root)
    ((done,)) = (evaluate(["ita"], storage=storage.root),)
    assert first.tracking_error is None and done[0].tracking_error is None
    found = compositions(storage)
    assert set(found) == {"drop-2-negate", "evaluation"}
    tags, metrics = found["drop-2-negate"].data.tags, found["drop-2-negate"].data.metrics
    assert (tags["composition.of"], tags["method"], tags["rule"]) == ("ita", "ita-lora", "linear")
    assert tags["weights"] == "0.333333,-0.333333,0.333333" and found["evaluation"].data.tags["kept"] == "1,2,3"
    wanted = first.result.summary()["test/final_accuracy"]
    assert metrics["test/final_accuracy/mean"] == wanted.mean and metrics["test/final_accuracy/std"] == wanted.std
    gain = done[0].result.unlearning("subtract")["target_gain"]
    assert found["evaluation"].data.metrics["unlearning/subtract/target_gain/mean"] == gain.mean
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    for run in found.values():
        client.delete_run(run.info.run_id)
    for _ in range(2):  # what is there stays as it is
        sync_run(storage, directory)
        again = compositions(storage)
        assert {k: run.data.metrics for k, run in again.items()} == {k: run.data.metrics for k, run in found.items()}


def test_a_server_that_is_away_costs_nothing_but_a_line(storage: Storage) -> None:
    directory = storage.run("ita")
    read_spec(directory).model_copy(update={"tracking_uri": "http://127.0.0.1:1"}).save(directory)
    done = compose(["ita"], storage=storage.root)
    assert done.tracking_error == "no server answers there" and done.file is not None and done.file.exists()


def test_versions_of_a_registered_model(storage: Storage) -> None:
    whole = compose(["ita"], register=True, storage=storage.root)
    worse = compose(["ita"], weights=[0.0, 0.0, -9.0], register=True, storage=storage.root)
    again = compose(["ita"], register=True, storage=storage.root)
    assert whole.version is not None and worse.version is not None
    model = whole.version.model
    assert whole.version == again.version and (whole.version.number, worse.version.number) == (1, 2)
    assert whole.version.best and not worse.version.best
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    assert int(client.get_model_version_by_alias(model, "best").version) == 1
    wanted = whole.result.summary()["test/final_accuracy"].mean
    assert float(client.get_model_version(model, "1").tags["final_accuracy"]) == pytest.approx(wanted, rel=1e-4)
    forgotten = compose(["ita"], forget=["task:1", "task:2"], register=True, storage=storage.root).version
    assert forgotten is not None and not forgotten.best
    version = client.get_model_version(model, str(forgotten.number))
    assert version.tags["removed"] == "class 1, class 2, class 3, class 4" and "final_accuracy" not in version.tags
    assert int(client.get_model_version_by_alias(model, "best").version) == 1
    tags = client.get_run(client.get_model_version(model, "2").run_id).data.tags
    assert (tags["tausearch.composition"], tags["composition.of"]) == (worse.result.label, "ita")


def test_sync_registers_again_what_mlflow_has_lost(storage: Storage, tmp_path: Path) -> None:
    directory = storage.run("ita")
    compose(["ita"], register=True, storage=storage.root)
    compose(["ita"], keep=[1], register=True, forms=["vectors"], storage=storage.root)
    compose(["ita"], keep=[2], storage=storage.root)
    compose(["ita"], seeds=[0], storage=storage.root)  # of the same label; that it was registered is not forgotten
    anew = f"sqlite:///{tmp_path / 'anew.db'}"
    for _ in range(2):
        sync_run(storage, directory, anew)
    client = MlflowClient(tracking_uri=anew)
    found = client.search_model_versions()
    runs = {client.get_run(each.run_id).data.tags["tausearch.composition"]: each for each in found}
    assert runs.keys() == {"uniform", "keep-1"}
    assert sorted(each.path for each in client.list_artifacts(runs["keep-1"].run_id, "model")) == ["model/vectors"]
    shutil.rmtree(directory.artifacts)
    with pytest.raises(InputError, match="ita"):
        sync_run(storage, directory, f"sqlite:///{tmp_path / 'again.db'}")


def test_what_is_registered_predicts(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = compose(["ita"], register=True, storage=storage.root).version
    assert version is not None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", storage.mlflow_uri)
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/{version.model}@best", dst_path=str(tmp_path / "got")))
    assert sorted(each.relative_to(folder).as_posix() for each in folder.glob("*/*")) == ["timm/seed_0", "timm/seed_1"]
    assert len(load_model(folder / "timm" / "seed_1").classes) == len(load_model("ita", storage=storage.root).classes)


def test_what_cannot_be_registered(storage: Storage, tmp_path: Path) -> None:
    directory = storage.run("ita")
    compose(["ita"], export=tmp_path / "out", forms=["vectors"], storage=storage.root)
    with pytest.raises(InputError, match="--register: needs a final run of this storage"):
        compose([str(tmp_path / "out" / "vectors")], register=True, storage=storage.root)
    read_spec(directory).model_copy(update={"tracking_uri": "http://127.0.0.1:1"}).save(directory)
    sync = f"compose it again, or for its first version: .*runs sync ita --storage {storage.root}$"
    with pytest.raises(InputError, match=f"--register: MLflow cannot be written .no server answers there.; .*{sync}"):
        compose(["ita"], register=True, storage=storage.root)
    assert list(directory.compositions.glob("*"))
