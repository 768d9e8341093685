"""The first line of a run: what will be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.execution.driver import _headline
from tausearch.runs import AnySpec, SearchSpec
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import final_spec, run_of


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 12}, "12 trials, 2 at a time, 3 tasks each, chosen by tpe\n"),
        ({"trials": 1, "steps": 1, "algorithm": "random"}, "1 trial, 1 at a time, 1 task each, chosen by random\n"),
    ],
)
def test_it_says_what_will_be_done(spec: SearchSpec, changes: dict[str, object], said: str) -> None:
    assert f"on digits, {said}" in headline(spec.model_copy(update=changes))


def test_it_says_the_seeds_of_a_final_run(spec: SearchSpec) -> None:
    assert "on digits, seeds 3 5, 2 at a time, 3 tasks each\n" in headline(final_spec(spec, seeds=(3, 5), trials=2))


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.cluster.resources.local_cpus", lambda: 2)


def headline(spec: AnySpec) -> str:
    return _headline(run_of(spec, FixedSearcher([]), Path("root")), on_cluster=False)
