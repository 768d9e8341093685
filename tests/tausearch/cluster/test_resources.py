"""The number of concurrent trials, and the check of a trial's resources against those of the machine."""

from __future__ import annotations

import pytest

from tausearch.cluster import concurrent_trials, resources
from tausearch.cluster.resources import plan_resources, slots_of
from tausearch.runs import Resources, SearchSpec
from trainables.errors import InputError


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to have 8 CPUs and no GPU."""
    monkeypatch.setattr(resources, "local_cpus", lambda: 8)
    monkeypatch.setattr(resources.torch.cuda, "device_count", lambda: 0)


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
        (40, "tpe", 7, 64, 7),
    ],
)
def test_concurrent_trials(
    spec: SearchSpec, trials: int, algorithm: str, asked: int | None, cpus: int, wanted: int
) -> None:
    assert concurrent_trials(with_trials(spec, trials, algorithm, asked), cpus, 0) == wanted


@pytest.mark.usefixtures("small_machine")
def test_slots_are_limited_by_machine_request_and_trials(spec: SearchSpec) -> None:
    assert slots_of(with_trials(spec, 40, "random"), on_cluster=False) == 4
    assert slots_of(with_trials(spec, 40, "random"), on_cluster=True) is None
    assert slots_of(with_trials(spec, 40, "random", 9), on_cluster=True) == 9
    assert slots_of(with_trials(spec, 3, "random", 9), on_cluster=True) == 3


@pytest.mark.usefixtures("small_machine")
def test_a_request_is_reduced_to_what_fits_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_resources(2, 0, 9, None).max_concurrent_trials == 4
    assert plan_resources(2, 0, 3, None).max_concurrent_trials == 3
    with pytest.raises(InputError, match="--cpus-per-trial 9: this machine has 8 CPUs"):
        plan_resources(9, 0, None, None)
    monkeypatch.setattr(resources, "require_reachable", lambda address: None)
    assert plan_resources(9, 0, 90, "auto") == Resources(cpus_per_trial=9, max_concurrent_trials=90)
