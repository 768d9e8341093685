"""Undisturbed runs without Ray: the driver is the real one, and its trials train in this process.

A run that was killed is held against one, so that the processes of Ray are held against this process, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.drivers.simulated_tune import Simulation
from trainables.config import TrialConfig
from trainables.process import threads
from trainables.trial import build_sequence


class TrainedHere(Simulation):
    """Trains the trials, a task at a time, in place of a formula."""

    def _trial(self, name: str, config: dict[str, Any]) -> Any:
        trial = super()._trial(name, config)
        trial.sequence = build_sequence(replace(TrialConfig(**config), checkpoints=None))
        return trial

    def _row(self, trial: Any) -> dict[str, Any]:
        return {**trial.sequence.run_next_task(), "done": trial.sequence.finished}

    def _goes_on(self, trial: Any, *tune: Any) -> bool:
        goes_on = super()._goes_on(trial, *tune)
        if not goes_on:
            trial.sequence.close()
        return goes_on


@contextmanager
def without_ray(folder: Path) -> Iterator[None]:
    """Have drivers of this process train their trials here; `folder` is for files of failures."""
    with pytest.MonkeyPatch.context() as patch, threads(torch.get_num_threads()):  # which each trial sets
        TrainedHere().installed(patch, folder)
        yield
