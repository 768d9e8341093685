"""Trials that compute nothing, in a module that imports no test: processes of trials import it, too."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.many_trials.analytic import AnalyticTrial
from trainables.metrics import seconds


class FiveTasks(AnalyticTrial):
    """As many tasks as digits has."""

    tasks = 5


class LateTrial(FiveTasks):
    """One process starts at once, the others when it has run three trials. None imports what a driver needs."""

    def setup(self, config: dict[str, Any]) -> None:
        """Wait, the first time in a process."""
        assert not {"optuna", "tausearch.execution"} & sys.modules.keys()
        if not hasattr(self, "folder"):
            self.folder = Path(config["checkpoints"]).parents[2] / ".late"
            self.folder.mkdir(exist_ok=True)
            try:
                (self.folder / "first").touch(exist_ok=False)
            except FileExistsError:
                while len(list(self.folder.glob("ended-*"))) < 3:
                    time.sleep(0.05)
        super().setup(config)

    def step(self) -> dict[str, Any]:
        row = super().step()
        if row["done"]:
            (self.folder / f"ended-{self.config['trial']}").touch()
        return row


class PairedTrial(FiveTasks):
    """The first trial of a process waits until another process has one, too."""

    def setup(self, config: dict[str, Any]) -> None:
        """Wait, the first time in a process."""
        if not hasattr(self, "folder"):
            self.folder = Path(config["checkpoints"]).parents[2] / ".paired"
            self.folder.mkdir(exist_ok=True)
            (self.folder / str(os.getpid())).touch()
            while len(list(self.folder.iterdir())) < 2:
                time.sleep(0.05)
        super().setup(config)


HOLD = "hold"  # a file beside the storage root


class HeldTrial(FiveTasks):
    """Stops after two tasks while the file `hold` lies beside the storage root; each task takes another time."""

    def step(self) -> dict[str, Any]:
        start = time.perf_counter()
        time.sleep(0.5)
        while self.task == 2 and Path(self.config["checkpoints"]).parents[3].joinpath(HOLD).exists():
            time.sleep(0.2)
        return {**super().step(), seconds("training"): time.perf_counter() - start}
