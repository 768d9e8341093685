"""Processes of trials: as many as there are slots, also while some are starting; they import little."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from ray.air.execution._internal import RayActorManager

from benchmarks.many_trials.searching import analytic_search
from tausearch.runs import Reevaluate
from tests.support.drivers.trials import LateTrial, PairedTrial

pytestmark = pytest.mark.system


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that Tune asks for."""
    asked, add_actor = [], RayActorManager.add_actor

    def counted(self: RayActorManager, *arguments: Any, **more: Any) -> Any:
        asked.append(more)
        return add_actor(self, *arguments, **more)

    monkeypatch.setattr(RayActorManager, "add_actor", counted)
    return asked


def test_a_process_that_is_starting_is_not_replaced_when_another_gets_free(asked: list[Any]) -> None:
    """Tune would end it, and start one for nearly every trial."""
    analytic_search(6, [2], LateTrial)  # six trials, two slots
    assert len(asked) == 2


def test_no_process_is_started_for_the_re_evaluation_of_a_search(asked: list[Any]) -> None:
    """Tune would end one of the two when the last trial ends, before the re-evaluation gives it another."""
    analytic_search(4, [2], PairedTrial, reevaluate=Reevaluate(best=2, runs=2))
    assert len(asked) == 2


WAITING = """
import os, sys, time
import psutil, ray
from tausearch.cluster import local_cpus, ray_session
from tausearch.runs import Resources

class Asked:
    def loaded(self, names):
        return os.getpid(), [name in sys.modules for name in names]

with ray_session([Resources()], processes=local_cpus()):
    there = set()
    while len(there) < local_cpus():
        there = {each.pid for each in psutil.Process().children(recursive=True) if each.name().startswith("ray::IDLE")}
        time.sleep(0.1)
    number, loaded = ray.get(ray.remote(Asked).remote().loaded.remote(["torch", "timm", "trainables.trial"]))
print(number in there, *loaded)
"""
"""Ask a Ray of our own for a process, once those that it starts by itself are there."""


def test_a_process_of_our_own_ray_was_there_before_it_was_asked_for_and_has_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split() == ["True"] * 4
