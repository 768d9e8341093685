"""Finetune: the whole ViT and a head per task, trained on one task after the other with nothing held. A lower bound.

Joint is the same training on all tasks at once: the upper bound. Both take the schedule, batch size and epochs of the
other methods. Source: the paper, section Experiments; the local cross-entropy is applied to Finetune as to the others.
The paper gives no optimiser for it and the authors' code defaults to plain SGD; here AdamW is the default, as for the
composable methods, and the paper's learning rates go with `optimizer: sgd`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import ConfigDict
from torch import Tensor

from trainables.composition import Origin
from trainables.data import Batch, Task
from trainables.heads import Heads, new_head
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import Positive
from trainables.methods.training import fit, local_loss, require_finite
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import Consolidation
from trainables.randomness import make_generator
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Hyperparameters of Finetune and Joint.

    Attributes:
        lr: Learning rate at the start; the schedule scales it.
        optimizer: "adamw" or plain "sgd"; no weight decay in either.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    lr: Positive
    optimizer: Literal["adamw", "sgd"] = "adamw"


class Finetune:
    """Sequential full fine-tuning.

    Args:
        context: The backbone, the protocol's numbers, seed and device.
        config: The method's hyperparameters.
    """

    def __init__(self, context: Context, config: FinetuneConfig) -> None:
        self.context = context
        self.config = config
        self.model = context.backbone.load(context.device)
        self.heads = Heads(self.model.num_features, context.device)

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        """Begin the head of a new task at fresh rows."""
        generator = make_generator(self.context.seed, "head", task.index)
        self.heads.begin(new_head(len(task.classes), self.model.num_features, generator))

    def train_task(self, task: Task) -> dict[str, float]:
        """Train every weight of the ViT and the task's head."""
        parameters = [*self.model.parameters(), *self.heads.current]
        kind = torch.optim.AdamW if self.config.optimizer == "adamw" else torch.optim.SGD
        optimizer = kind(parameters, lr=self.config.lr, weight_decay=0.0, fused=True)

        def step(batch: Batch, factor: float) -> Tensor:
            loss = local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.param_groups[0]["lr"] = self.config.lr * factor
            optimizer.step()
            return loss.detach()

        metrics = {TRAIN_LOSS: fit(task, self.context, step)}
        require_finite(parameters, self.context, task)
        return metrics

    def end_task(self, task: Task) -> None:
        """Freeze the task's head."""
        self.heads.end()

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far."""
        return self.heads.logits(self.context.features(self.model, images))

    def save_artifacts(self, folder: Path, origin: Origin) -> None:
        """Write nothing: there is one model, and the checkpoint holds it."""

    def state(self) -> State:
        """Return the state of the model and of the finished heads."""
        return State(self.model.state_dict()).within("model") | self.heads.state().within("heads")

    def load_state(self, state: State) -> None:
        """Continue from what `state` returned."""
        self.model.load_state_dict(state.part("model").tensors)
        self.heads.load_state(state.part("heads"))
