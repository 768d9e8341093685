"""Choices between two records of MLflow, with a client that keeps them in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from filelock import Timeout
from safetensors.torch import save_file

from tausearch.runs import AnySpec, DataFacts, FinalSpec, SearchSpec, Storage
from tausearch.tracking import (
    TABLE_TAG,
    MlflowRun,
    TableRow,
    benchmark_tags,
    compositions,
    log_benchmark_table,
    provenance,
    track_composition,
)
from tausearch.tracking.mlflow_run import ID_TAG, PARENT_TAG, RUN_TAG
from tausearch.tracking.mlflow_store import store_lock
from tests.support.runs.trials import final_spec
from tests.tausearch.tracking.memory_store import Store


class Registry:
    """A client with versions of one model."""

    def __init__(self, accuracies: dict[str, str | None]) -> None:
        self.accuracies = accuracies
        self.best = ""

    def search_model_versions(self, query: str) -> list[Any]:
        assert query == "name = 'digits'"
        tags = {
            number: {} if text is None else {compositions.ACCURACY_TAG: text}
            for number, text in self.accuracies.items()
        }
        return [SimpleNamespace(version=number, tags=tags[number]) for number in self.accuracies]

    def set_registered_model_alias(self, model: str, alias: str, version: str) -> None:
        assert (model, alias) == ("digits", "best")
        self.best = version


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [
        ({"1": "70", "2": "90", "3": "80"}, 2),
        ({"3": "90", "2": "90", "1": "70"}, 2),  # of equal ones the first
        ({"1": "9.5", "10": "80", "2": "80", "3": None}, 2),  # numbers, not texts
    ],
)
def test_the_best_version(accuracies: dict[str, str | None], best: int) -> None:
    client = Registry(accuracies)
    assert compositions._mark_best(client, "digits") == best == int(client.best)


class Versions(Registry):
    """A client that makes versions of the model of digits, as those of compositions become registered."""

    def __init__(self, store: Store) -> None:
        super().__init__({})
        self.store, self.made, self.promoted = store, list[Any](), list[Any]()
        self.loses_answers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def search_registered_models(self, query: str) -> list[str]:
        assert query == "name = 'digits-tasks-2'"
        return ["digits-tasks-2"] * bool(self.made)

    def search_model_versions(self, query: str) -> list[Any]:
        asked = dict(re.findall(r"(\w+) = '(.*?)'", query))
        return [each for each in (*self.promoted, *self.made) if asked.items() <= vars(each).items()]

    def create_registered_model(self, name: str) -> None:
        assert not self.made, "it is there"

    def log_artifacts(self, run: str, folder: str, place: str) -> None:
        self.store.runs[run].info.artifact_uri, self.place = "artifacts", place

    def create_model_version(self, model: str, source: str, run: str, tags: dict[str, str]) -> Any:
        assert source == f"artifacts/{self.place}"
        number = str(len(self.made) + 1)
        self.made.append(SimpleNamespace(name=model, version=number, run_id=run, source=source, tags=tags))
        if self.loses_answers:
            raise ConnectionError
        return self.made[-1]

    def set_model_version_tag(self, model: str, version: str, name: str, value: str) -> None:
        assert model == self.made[0].name
        self.made[int(version) - 1].tags[name] = value

    def set_registered_model_alias(self, model: str, alias: str, version: str) -> None:
        self.best = version


@pytest.fixture
def client(store: Store, monkeypatch: pytest.MonkeyPatch) -> Versions:
    """The server that compositions are registered on."""
    server = Versions(store)
    monkeypatch.setattr(compositions, "open_store", lambda *_: (server, "1"))
    return server


@pytest.fixture
def final(spec: SearchSpec) -> FinalSpec:
    return final_spec(spec, benchmark="digits?tasks=2")


def test_a_composition_becomes_one_version_and_the_best_is_the_most_accurate_of_all_classes(
    client: Versions, final: FinalSpec, store: Store, tmp_path: Path
) -> None:
    """What a user has copied or registered by hand is none of the benchmark's model, which may be renamed."""
    storage = Storage(tmp_path)
    found: list[compositions.Version] = []
    for label, accuracy, removed in (("a", 70.0, "dog"), ("b", 60.0, None), ("c", 50.0, None), ("b", 60.0, None)):
        tags = {} if removed is None else {compositions.REMOVED_TAG: removed}
        track_composition(final, storage, label, {"test/final_accuracy/mean": accuracy}, tags)
        copy = {"name": "prod", "version": "1", "source": "models:/digits-tasks-2/1", "tags": {"final_accuracy": "1"}}
        client.promoted += [SimpleNamespace(**copy, run_id=run) for run in store.runs]
        assert compositions.is_registered(final, storage, label) == (len(found) == 3)
        found.append(compositions.register_model(final, storage, label, tmp_path))
    assert [(each.number, each.best) for each in found] == [(1, False), (2, True), (3, False), (2, True)]
    assert found[0].uri == "models:/digits-tasks-2/1" and client.best == "2"
    contents = {each.tags["content"] for each in client.made}
    assert len(contents) == 1 and [{**each.tags, "content": "-"} for each in client.made] == [
        {"removed": "dog", "content": "-"},
        {"final_accuracy": "60", "content": "-"},
        {"final_accuracy": "50", "content": "-"},
    ]
    client.promoted.append(SimpleNamespace(**vars(client.made[2]) | {"name": "made by hand", "tags": {"mine": "1"}}))
    assert compositions.register_model(final, storage, "c", tmp_path).number == 3
    deleted = client.made.pop()
    assert not compositions.is_registered(final, storage, "c"), "what was made by hand is another's"
    assert compositions.register_model(final, storage, "c", tmp_path).uri == "models:/digits-tasks-2/3"
    assert client.made[-1].tags == deleted.tags
    del client.promoted[-1]
    for each in client.made:
        each.name = "renamed"
    assert compositions.is_registered(final, storage, "c")
    again = compositions.register_model(final, storage, "c", tmp_path)
    assert again == compositions.Version("renamed", 3, False) and len(client.made) == 3


def test_other_weights_of_a_composition_become_another_version(
    client: Versions, final: FinalSpec, tmp_path: Path
) -> None:
    storage = Storage(tmp_path)
    file = tmp_path / "model" / "timm" / "model.safetensors"
    file.parent.mkdir(parents=True)
    numbers: list[int] = []
    composed = ((1.0, 48.0), (2.0, 93.0), (2.0, 93.0), (3.0, 20.0), (3.0, 20.0), (2.0, 93.0))
    for number, (weight, accuracy) in enumerate(composed):
        save_file({"w": torch.full((2,), weight)}, file, metadata={"number": str(number)})  # which is no weight
        track_composition(final, storage, "mine", {"test/final_accuracy/mean": accuracy}, {})
        numbers.append(compositions.register_model(final, storage, "mine", tmp_path / "model").number)
    assert numbers == [1, 2, 2, 3, 3, 2] and client.best == "2", "of equal weights there is one version"
    assert client.made[0].source == "artifacts/model" and len({each.source for each in client.made}) == 3
    assert [each.tags["final_accuracy"] for each in client.made] == ["48", "93", "20"]


def test_two_processes_that_register_a_composition_at_once_make_one_version(
    client: Versions, final: FinalSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    track_composition(final, storage, "mine", {"test/final_accuracy/mean": 48.0}, {})
    upload, make, others = client.log_artifacts, client.create_model_version, list[int]()

    def log(*given: str) -> None:
        upload(*given)
        monkeypatch.setattr(client, "log_artifacts", upload)
        others.append(compositions.register_model(final, storage, "mine", tmp_path).number)

    def make_alone(*given: Any) -> object:
        with pytest.raises(Timeout):
            store_lock(storage).acquire(timeout=0)
        return make(*given)

    monkeypatch.setattr(client, "log_artifacts", log)
    monkeypatch.setattr(client, "create_model_version", make_alone)
    assert compositions.register_model(final, storage, "mine", tmp_path).number == 1
    assert others == [1] and len(client.made) == 1


def test_a_version_whose_answer_was_lost_is_found_again(client: Versions, final: FinalSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    track_composition(final, storage, "mine", {"test/final_accuracy/mean": 48.0}, {})
    client.loses_answers = True
    with pytest.raises(ConnectionError):
        compositions.register_model(final, storage, "mine", tmp_path)
    assert client.made[0].tags["final_accuracy"] == "48", "or the model's best version may be another one"
    client.loses_answers = False
    assert compositions.register_model(final, storage, "mine", tmp_path).number == len(client.made) == 1


@pytest.mark.parametrize(
    ("make", "command", "judged_on"), [(lambda search: search, "search", "validation"), (final_spec, "train", "test")]
)
def test_a_run_names_its_command_and_the_images_that_judge_it(
    spec: SearchSpec, make: Callable[[SearchSpec], AnySpec], command: str, judged_on: str
) -> None:
    run = make(spec).model_copy(update={"data_root": "/data"})
    assert provenance.provenance(run)["mlflow.source.name"] == f"tausearch {command}"
    found = provenance.datasets_of(run)[0]
    assert found.tags[0].value == f"training and {judged_on}"
    assert json.loads(found.dataset.source) == {"uri": "/data"}


def marks_of(store: Store) -> dict[str, str | None]:
    """Return run to the table that it is tagged with."""
    return {name: run.data.tags.get(TABLE_TAG) for name, run in store.runs.items()}


def test_a_table_untags_earlier_runs_of_its_own_methods_only(spec: SearchSpec, store: Store, tmp_path: Path) -> None:
    written = [("A", "finetune", "tuned"), ("B", "ita-lora", "older"), ("B", "ita-lora", "newer")]
    for _, method, name in written:
        store.add(name, {ID_TAG: name, "method": method})
    for table, method, name in written:
        run = final_spec(spec, id=name, method=method)
        log_benchmark_table(Storage(tmp_path), "http://a:1", "digits", table, [TableRow(method, (run,), None)])
    assert marks_of(store) == {"tuned": "A", "older": None, "newer": "B"}


def test_methods_that_have_left_a_table_lose_its_tag_and_get_it_back(
    spec: SearchSpec, store: Store, tmp_path: Path
) -> None:
    tags = {"stays": ("ewc", "T"), "left": ("ita-lora", "T"), "other": ("ita-lora", "U"), "trial": ("seed", "T")}
    for name, (method, table) in tags.items():
        store.add(name, {ID_TAG: name, "method": method, TABLE_TAG: table})
    stays, left = (TableRow(tags[name][0], (final_spec(spec, id=name),), None) for name in ("stays", "left"))
    for rows, gone, mark in (([stays], ["ita-lora"], None), ([stays, left], [], "T"), ([], ["ita-lora"], None)):
        log_benchmark_table(Storage(tmp_path), "http://a:1", "digits", "T", rows, gone)
        assert marks_of(store) == {"stays": "T", "left": mark, "other": "U", "trial": "T"}


def test_a_table_has_search_and_final_run_the_latest_paper_and_the_final_runs_hyperparameters(
    spec: SearchSpec, store: Store, tmp_path: Path
) -> None:
    search = spec.model_copy(update={"id": "search", "fixed": {"of_the_search": 1}})
    finals = [final_spec(spec, id=name, fixed=fixed) for name, fixed in (("a", {"x": 1, "y": 1}), ("b", {"y": 1}))]
    for run in (search, *finals):
        store.add(run.id, {ID_TAG: run.id, "method": run.method})
    for paper in (70.0, 80.0, 80.0):
        rows = [TableRow("ita-lora", (search, finals[0]), paper), TableRow("ita-lora", (finals[1],), None)]
        page = log_benchmark_table(Storage(tmp_path), "http://a:1", "digits", f"t{paper:g}", rows)
    assert {run.data.tags[TABLE_TAG] for run in store.runs.values()} == {"t80"}
    papers = [run.data.metrics.get(benchmark_tags.PAPER_METRIC) for run in store.runs.values()]
    assert papers == [80.0, 80.0, None] and len(store.batches) == 0
    assert store.logged == [("search", 70.0), ("a", 70.0), ("search", 80.0), ("a", 80.0)]  # only what is new
    view = json.loads(store.experiment_tags[f"{benchmark_tags.VIEW_TAG}{page.rpartition('=')[2]}"])
    assert view["orderByKey"] == "metrics.`test/final_accuracy/mean`" and view["orderByAsc"] is False
    assert view["searchFilter"] == f"tags.`{TABLE_TAG}` = 't80' and tags.kind = 'final'"
    wanted = [
        f"metrics.`test/{name}/mean`" for name in ("final_accuracy", "average_incremental_accuracy", "forgetting")
    ]
    assert [name for name in view["selectedColumns"] if name in wanted] == wanted
    chosen = [name for name in view["selectedColumns"] if name.startswith("params")]
    assert chosen == ["params.`method`", "params.`y`", "params.`x`"]  # the most common first


def test_a_composition_that_changed_is_written_and_what_is_equal_is_not(
    spec: SearchSpec, store: Store, tmp_path: Path
) -> None:
    final, told = final_spec(spec, id="f", tracking_uri="http://team:1"), []
    for metrics, tags in (({"a": 1.0}, {"b": "x"}), ({"a": 1.0}, {"b": "x"}), ({"a": 2.0, "c": 3.0}, {"b": "y"})):
        track_composition(final, Storage(tmp_path), "keep-1", metrics, tags)
        told.append(len(store.batches))
    (run,) = store.runs.values()
    assert told == [1, 1, 2] and run.data.metrics == {"a": 2.0, "c": 3.0} and run.data.tags["b"] == "y"
    track_composition(final, Storage(tmp_path), "keep-1", {"a": 2.0}, {"b": "z"})
    assert run.data.tags["b"] == "z"  # of the same metrics
    assert run.info.status == "FINISHED" and run.info.run_name == f"{final.name}/keep-1"
    assert run.data.tags["kind"] == "composition"
    track_composition(final, Storage(tmp_path), "keep-2", {}, {})
    assert len(store.runs) == 2 and store.opened == {"http://team:1"}
    assert {each.info.status for each in store.runs.values()} == {"FINISHED"}, "nothing of it runs"
    track_composition(final_spec(spec, id="g"), Storage(tmp_path), "keep-2", {}, {})
    assert len(store.runs) == 3  # of another storage
    track_composition(final_spec(spec, id="f"), Storage(tmp_path), "keep-2", {}, {})
    assert store.opened == {"http://team:1", Storage(tmp_path).mlflow_uri}


def test_a_composition_of_a_renamed_run_is_the_same_one_under_the_new_name(
    spec: SearchSpec, store: Store, tmp_path: Path
) -> None:
    for final in (final_spec(spec, id="f"), final_spec(spec, id="f", name="renamed")):
        track_composition(final, Storage(tmp_path), "keep-1", {"a": 1.0}, {})
    (run,) = store.runs.values()
    assert run.data.tags["composition.of"] == "renamed"
    assert (run.info.run_name, run.info.status) == ("renamed/keep-1", "FINISHED")
    for name in ("early", "of an early version"):  # without an id
        track_composition(final_spec(spec, id="", name=name), Storage(tmp_path), "keep-1", {}, {})
    assert len(store.runs) == 3


def test_a_user_without_a_name_is_unknown(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", Mock(side_effect=KeyError("name")))
    assert provenance.provenance(spec)["mlflow.user"] == "unknown"


@pytest.mark.parametrize(
    ("benchmark", "data_root", "kind", "source"),
    [
        ("digits", None, "code", {"benchmark": "digits"}),
        ("digits?tasks=2", None, "code", {"benchmark": "digits?tasks=2"}),
        ("cub200", "/data", "local", {"uri": "/data"}),
        ("parquet:/birds?tasks=3", None, "local", {"uri": "/birds"}),
        ("folder:/birds?tasks=3", "/data", "local", {"uri": "/birds"}),
        ("python:mine:load", None, "code", {"benchmark": "python:mine:load"}),
    ],
)
def test_the_source_of_the_images(
    spec: SearchSpec, benchmark: str, data_root: str | None, kind: str, source: dict[str, str]
) -> None:
    found = provenance.datasets_of(spec.model_copy(update={"benchmark": benchmark, "data_root": data_root}))[0].dataset
    assert (found.source_type, json.loads(found.source)) == (kind, source)


def test_the_digest_of_the_images_is_their_own_or_else_that_of_their_name_and_place(spec: SearchSpec) -> None:
    def digest(**changes: Any) -> str:
        return str(provenance.datasets_of(spec.model_copy(update=changes))[0].dataset.digest)

    facts = DataFacts(digest="0123456789" * 6, train=90, evaluation=10)
    assert digest(data=facts) == ("0123456789" * 6)[:36]
    assert len({digest(), digest(data_root="/data"), digest(benchmark="glyphs")}) == 3
    profile = json.loads(provenance.datasets_of(spec.model_copy(update={"data": facts}))[0].dataset.profile)
    assert profile == {"tasks": 3, "train": 90, "validation": 10}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("1", "2", "second"),  # more tasks, though it started later
        ("2", "2", "first"),
        ("9", "10", "second"),  # numbers, not texts
    ],
)
def test_of_two_nested_runs_of_a_trial_the_one_with_more_tasks_stays(
    spec: SearchSpec, store: Store, tmp_path: Path, first: str, second: str, kept: str
) -> None:
    nested = {PARENT_TAG: "parent", "trial": "0", "role": "trial"}
    store.add("parent", {RUN_TAG: spec.run_name})
    store.add("second", {**nested, "tasks": second}, start=2)
    store.add("first", {**nested, "tasks": first}, start=1)
    assert MlflowRun(spec, Storage(tmp_path), "http://a:1")._nested[0].id == kept
    assert set(store.runs) == {"parent", kept}
