"""Processes of trials: as many as there are slots, also while some are starting; they import little."""

from __future__ import annotations

from typing import Any

import pytest
from ray.air.execution._internal import RayActorManager

from benchmarks.many_trials.searching import analytic_search
from tests.support.drivers.trials import LateTrial

pytestmark = pytest.mark.system


def test_a_process_that_is_starting_is_not_replaced_when_another_gets_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tune would end it, and start one for nearly every trial."""
    asked, add_actor = [], RayActorManager.add_actor

    def counted(self: RayActorManager, *arguments: Any, **more: Any) -> Any:
        asked.append(more)
        return add_actor(self, *arguments, **more)

    monkeypatch.setattr(RayActorManager, "add_actor", counted)
    analytic_search(6, [2], LateTrial)  # six trials, two slots
    assert len(asked) == 2
