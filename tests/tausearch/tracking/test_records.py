"""Choices between two records of MLflow, with a client that keeps them in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.runs import AnySpec, SearchSpec, Storage
from tausearch.tracking import TABLE_TAG, MlflowRun, TableRow, compositions, mlflow_run, provenance, tables, write_table
from tausearch.tracking.mlflow_run import ID_TAG, PARENT_TAG, RUN_TAG
from tests.support.runs.trials import final_spec


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


class Page(list[Any]):
    """The only page of an answer."""

    token = None


class Store:
    """A client with the runs of one experiment, by their ids."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}

    def add(self, name: str, tags: dict[str, str], start: int = 0) -> None:
        self.runs[name] = SimpleNamespace(
            info=SimpleNamespace(run_id=name, start_time=start, status="RUNNING"),
            data=SimpleNamespace(tags=tags, params={"lr": "0.1"}, metrics={}),
            inputs=SimpleNamespace(dataset_inputs=["digits"]),
        )

    def search_runs(self, experiments: list[str], query: str, page_token: None) -> Page:
        asked = re.fullmatch(r"tags\.`(.+)` (=|!=) '(.*)'", query)
        assert asked is not None and page_token is None
        tag, sign, value = asked.groups()
        having = [run for run in self.runs.values() if tag in run.data.tags]
        return Page(run for run in having if (run.data.tags[tag] == value) == (sign == "="))

    def set_tag(self, run: str, tag: str, value: str) -> None:
        self.runs[run].data.tags[tag] = value

    def delete_tag(self, run: str, tag: str) -> None:
        del self.runs[run].data.tags[tag]

    def delete_run(self, run: str) -> None:
        del self.runs[run]

    def update_run(self, run: str, status: str, name: str) -> None:
        assert run in self.runs

    def set_experiment_tag(self, experiment: str, tag: str, value: str) -> None:
        assert experiment == "1"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    for module in (mlflow_run, tables):
        monkeypatch.setattr(module, "open_store", lambda *_: (made, "1"))
    return made


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


@pytest.mark.parametrize(
    ("make", "command", "judged_on"), [(lambda search: search, "search", "validation"), (final_spec, "train", "test")]
)
def test_a_run_names_its_command_and_the_images_that_judge_it(
    spec: SearchSpec, make: Callable[[SearchSpec], AnySpec], command: str, judged_on: str
) -> None:
    run = make(spec).model_copy(update={"data_root": "/data"})
    assert provenance.provenance(run)["mlflow.source.name"] == f"tausearch {command}"
    found = provenance.dataset_of(run)
    assert found.tags[0].value == f"training and {judged_on}"
    assert json.loads(found.dataset.source) == {"uri": "/data"}


def test_a_folder_of_images_is_the_source_even_with_a_data_root(spec: SearchSpec) -> None:
    run = spec.model_copy(update={"benchmark": "folder:/birds?tasks=3", "data_root": "/data"})
    assert json.loads(provenance.dataset_of(run).dataset.source) == {"uri": "/birds"}


def test_a_table_untags_earlier_runs_of_its_own_methods_only(spec: SearchSpec, store: Store, tmp_path: Path) -> None:
    written = [("A", "finetune", "tuned"), ("B", "ita-lora", "older"), ("B", "ita-lora", "newer")]
    for _, method, name in written:
        store.add(name, {ID_TAG: name, "method": method})
    for table, method, name in written:
        run = final_spec(spec, id=name, method=method)
        write_table(Storage(tmp_path), "http://a:1", "digits", table, [TableRow(method, (run,), None)])
    marks = {name: run.data.tags.get(TABLE_TAG) for name, run in store.runs.items()}
    assert marks == {"tuned": "A", "older": None, "newer": "B"}


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
    assert MlflowRun(spec, Storage(tmp_path), "http://a:1").run_ids == {0: kept}
    assert set(store.runs) == {"parent", kept}
