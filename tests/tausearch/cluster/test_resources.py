"""The resources of a trial are checked against those of the machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tausearch.cluster import capacity, cluster_capacity, local_cpus, resources, trials_that_fit
from tausearch.cluster.resources import plan_resources
from tausearch.runs import Resources
from trainables.errors import InputError


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]) -> None:
    """Pretend to have 8 CPUs and no GPU."""
    for name in ("local_cpus", "cpus_to_run_on"):
        monkeypatch.setattr(resources, name, lambda: 8)
    gpus(0)


@pytest.mark.usefixtures("small_machine")
def test_a_request_is_reduced_to_what_fits_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_resources(2, 0, 9, None).max_concurrent_trials == 4
    assert plan_resources(2, 0, 3, None).max_concurrent_trials == 3
    with pytest.raises(InputError, match="--cpus-per-trial 9: this machine has 8 CPUs"):
        plan_resources(9, 0, None, None)
    with pytest.raises(InputError, match=r"--gpus-per-trial 0.5: this machine has no GPU"):
        plan_resources(2, 0.5, None, None)
    asked: list[str] = []
    monkeypatch.setattr(resources, "require_reachable", asked.append)
    assert plan_resources(9, 0, 90, "auto") == Resources(cpus_per_trial=9, max_concurrent_trials=90)
    assert asked == ["auto"]


@pytest.mark.usefixtures("small_machine")
def test_a_trial_may_have_more_threads_than_a_container_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "local_cpus", lambda: 2)
    assert plan_resources(4, 0, 3, None) == Resources(cpus_per_trial=4, max_concurrent_trials=1)


@pytest.mark.parametrize(
    ("cpus", "gpus", "share", "fits"),
    [
        (64, 2.0, 1 / 3, 6),
        (64, 1.5, 0.5, 2),  # half a GPU of a machine with another driver is no place for two halves
        (8, 2.0, 1 / 3, 4),  # of two CPUs each
        (64, 0.0, 0.5, 1),
        (1, 0.0, 0, 1),
    ],
)
def test_a_trial_needs_its_cpus_and_its_share_of_one_gpu(cpus: float, gpus: float, share: float, fits: int) -> None:
    assert trials_that_fit(Resources(cpus_per_trial=2, gpus_per_trial=share), cpus, gpus) == fits


def test_a_cluster_that_has_lost_its_nodes_has_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.cluster_resources", dict)
    assert cluster_capacity() == (1, 0)


def test_only_the_cpus_of_this_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5, 7})
    assert local_cpus() == 3


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "1600000 100000\n"}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n"}, 8),
        ({}, 8),
    ],
)
def test_the_limit_of_a_container_counts(
    files: dict[str, str], cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(capacity, "_CGROUP", tmp_path)
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert local_cpus() == cpus


@pytest.mark.usefixtures("small_machine")
@pytest.mark.parametrize(("share", "allowed"), [(1 / 64, True), (1 / 65, False), (0.4, False), (1, True), (2, False)])
def test_a_share_of_a_gpu_divides_it(share: float, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "require_gpu", lambda wish: None)
    with nullcontext() if allowed else pytest.raises(InputError, match="--gpus-per-trial must be auto, 0, 1 or 1/k"):
        assert plan_resources(8, share, None, None).gpus_per_trial == share
