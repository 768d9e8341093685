"""Choices between two records of MLflow, with a client that keeps them in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.runs import AnySpec, SearchSpec
from tausearch.tracking import compositions, provenance
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
