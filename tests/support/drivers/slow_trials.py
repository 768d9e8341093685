"""A trial that only waits: processes of trials can be lost and moved while it costs no CPU."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.analytic import AnalyticTrial
from trainables.metrics import seconds


class SlowTrial(AnalyticTrial):
    """As many tasks as digits has, together longer than the start of a process; a task run again takes another time."""

    tasks = 5

    def step(self) -> dict[str, Any]:
        time.sleep(2)
        return {**super().step(), seconds("training"): time.time()}
