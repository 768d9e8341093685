"""The resources of a trial are checked against those of the machine."""

from __future__ import annotations

import pytest

from tausearch.cluster import resources
from tausearch.cluster.resources import plan_resources
from tausearch.runs import Resources
from trainables.errors import InputError


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to have 8 CPUs and no GPU."""
    monkeypatch.setattr(resources, "local_cpus", lambda: 8)
    monkeypatch.setattr(resources.torch.cuda, "device_count", lambda: 0)


@pytest.mark.usefixtures("small_machine")
def test_a_request_is_reduced_to_what_fits_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_resources(2, 0, 9, None).max_concurrent_trials == 4
    assert plan_resources(2, 0, 3, None).max_concurrent_trials == 3
    with pytest.raises(InputError, match="--cpus-per-trial 9: this machine has 8 CPUs"):
        plan_resources(9, 0, None, None)
    monkeypatch.setattr(resources, "require_reachable", lambda address: None)
    assert plan_resources(9, 0, 90, "auto") == Resources(cpus_per_trial=9, max_concurrent_trials=90)
