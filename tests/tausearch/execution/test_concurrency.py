"""The number of concurrent trials."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tausearch.execution import concurrency
from tausearch.execution.concurrency import concurrent_trials, known_concurrent_trials
from tausearch.runs import Resources, SearchSpec
from tests.support.runs.trials import final_spec
from tests.tausearch.several.made import parts, several_spec


def with_trials(spec: SearchSpec, trials: int, algorithm: str, asked: int | None = None) -> SearchSpec:
    wanted = Resources(cpus_per_trial=2, max_concurrent_trials=asked)
    return spec.model_copy(update={"trials": trials, "algorithm": algorithm, "resources": wanted})


@pytest.mark.parametrize(
    ("trials", "algorithm", "asked", "cpus", "wanted"),
    [
        (3, "random", None, 64, 3),  # fewer trials than fit
        (40, "random", None, 8, 4),  # more trials than fit
        (4, "tpe", None, 64, 2),  # a quarter would be 1
        (40, "tpe", None, 64, 10),
        (11, "tpe", None, 64, 2),  # no more than a quarter
        (40, "tpe", 7, 64, 7),
        (12, "gp", None, 64, 3),
        (12, "grid", None, 64, 12),
        (1, "tpe", None, 64, 1),
        (400, "tpe", None, 64, 32),
    ],
)
def test_concurrent_trials(
    spec: SearchSpec, trials: int, algorithm: str, asked: int | None, cpus: int, wanted: int
) -> None:
    assert concurrent_trials(with_trials(spec, trials, algorithm, asked), cpus, 0) == wanted


def test_of_a_search_on_several_benchmarks_a_quarter_of_the_trials_runs_with_all_parts() -> None:
    assert concurrent_trials(parts(several_spec(trials=16, algorithm="tpe")), 64, 0) == 4 * 2
    assert concurrent_trials(parts(several_spec(trials=16, algorithm="tpe", scheduler="asha")), 64, 0) == 4


def test_concurrent_trials_are_limited_by_machine_request_and_trials(
    spec: SearchSpec, monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]
) -> None:
    monkeypatch.setattr(concurrency, "local_cpus", lambda: 8)
    gpus(1)
    shared = spec.model_copy(update={"resources": Resources(gpus_per_trial=0.5), "trials": 3, "algorithm": "random"})
    assert known_concurrent_trials(shared, on_cluster=False) == 2
    gpus(0)
    assert known_concurrent_trials(with_trials(spec, 40, "random"), on_cluster=False) == 4
    assert known_concurrent_trials(several_spec(trials=3, algorithm="random"), on_cluster=False) == 3 * 2
    assert known_concurrent_trials(final_spec(spec, trials=3, seeds=(0, 1, 2)), on_cluster=False) == 3
    assert known_concurrent_trials(with_trials(spec, 40, "random"), on_cluster=True) is None
    assert known_concurrent_trials(with_trials(spec, 40, "random", 9), on_cluster=True) == 9
    assert known_concurrent_trials(with_trials(spec, 3, "random", 9), on_cluster=True) == 3
