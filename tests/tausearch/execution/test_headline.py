"""The first line of a run: what will be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.execution.driver import _headline
from tausearch.runs import SearchSpec
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import run_of


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 12}, "12 trials, 2 at a time, 3 tasks each, chosen by tpe\n"),
        ({"trials": 1, "steps": 1, "algorithm": "random"}, "1 trial, 1 at a time, 1 task each, chosen by random\n"),
        ({"purpose": "final", "seeds": (3, 5), "trials": 2}, "seeds 3 5, 2 at a time, 3 tasks each\n"),
    ],
)
def test_it_says_what_will_be_done(
    spec: SearchSpec, changes: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.cluster.resources.local_cpus", lambda: 2)
    run = run_of(spec.model_copy(update=changes), FixedSearcher([]), Path("root"))
    assert f"on digits, {said}" in _headline(run, on_cluster=False)
