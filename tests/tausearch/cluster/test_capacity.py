"""The number of concurrent trials, and the check of a trial's resources against those of the machine or the cluster."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tausearch.cluster import concurrent_trials, ray_session, resources
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


@pytest.mark.parametrize(
    ("has", "words"),
    [
        ({"CPU": 3.0, "GPU": 1.0}, "a trial needs 4 CPU, the cluster has 3 in all"),
        ({"CPU": 4.0}, "a trial needs 0.5 GPU, the cluster has 0 in all"),
        ({"CPU": 4.0, "GPU": 0.5}, None),
    ],
)
def test_a_cluster_must_have_the_resources_of_one_trial(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, float], words: str | None
) -> None:
    joined: list[str] = []
    monkeypatch.setattr("ray.init", lambda address, **_: joined.append(address))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: has)
    trial = Resources(cpus_per_trial=4, gpus_per_trial=0.5)
    with pytest.raises(InputError, match=words) if words else nullcontext(), ray_session(trial, "192.0.2.1:6379"):
        assert words is None
    assert joined == ["192.0.2.1:6379"]


def test_our_own_ray_has_the_cpus_of_a_trial_even_beyond_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("tausearch.cluster.session.local_cpus", lambda: 8)
    monkeypatch.setattr("ray.init", lambda num_cpus, **_: given.append(num_cpus))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0})
    for cpus in (9, 2):
        with ray_session(Resources(cpus_per_trial=cpus)):
            pass
    assert given == [9, 8]
