"""What a method is: the contract between an incremental learner and the sequence that drives it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainables.backbones import Backbone
from trainables.config import Precision
from trainables.data import Task
from trainables.preconsolidation import Consolidation


@dataclass(frozen=True)
class Capabilities:
    """What a method declares about itself, so that nobody asks for its name.

    Attributes:
        composable: It learns one task vector per task and evaluates their composition.
        needs_preconsolidation: `begin_task` is given the task's pre-consolidation; its config has `preconsolidation`.
        joint: It sees all tasks at once: its sequence has one step.
    """

    composable: bool = False
    needs_preconsolidation: bool = False
    joint: bool = False


@dataclass(frozen=True)
class Context:
    """What a method is handed when it is made.

    Attributes:
        backbone: theta_0.
        num_classes: C, over all tasks.
        epochs: Passes over a task's training images.
        batch_size: Examples per optimiser step.
        seed: Of the trial.
        device: Where to compute.
        precision: "bf16" runs forward passes of fine-tuning and evaluation under autocast.
    """

    backbone: Backbone
    num_classes: int
    epochs: int
    batch_size: int
    seed: int
    device: torch.device
    precision: Precision = "fp32"

    def features(self, model: nn.Module, images: Tensor) -> Tensor:
        """Run the backbone, under bf16 autocast if the precision says so.

        Heads stay out of it: logits with the eight bits of bf16 would tie, and ties go to the older class.

        Args:
            model: `(b, c, h, w)` to `(b, d)`.
            images: `(b, c, h, w)`.

        Returns:
            `(b, d)`, in the precision of the heads.
        """
        if self.precision == "fp32":
            return model(images)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return model(images).float()


class Method(Protocol):
    """An incremental learner: begin a task, train on it, end it, predict over all classes seen so far."""

    capabilities: Capabilities

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        """Prepare for a task; `consolidation` is given if the capabilities ask for it."""
        ...

    def train_task(self, task: Task) -> dict[str, float]:
        """Train on the task begun last; returns metrics, among them `train/loss`.

        Raises:
            DivergedError: If the loss or the weights become NaN or infinite.
        """
        ...

    def end_task(self, task: Task) -> None:
        """Do what follows training: compose, consolidate."""
        ...

    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far: `(b, c, h, w)` to `(b, C_seen)`."""
        ...

    def save_artifacts(self, folder: Path, task: Task) -> None:
        """Write what the task just ended has learned for use elsewhere, if there is such a thing."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return ALL state that later tasks depend on, as tensors and plain values; called between tasks."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        ...
