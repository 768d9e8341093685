"""Task arithmetic: each task is fine-tuned alone from theta_0; the model is theta_0 plus a multiple of the mean vector.

Source: Ilharco et al. 2023, "Editing Models with Task Arithmetic", https://arxiv.org/abs/2212.04089. Departures: the
head of each task begins at linear probing, is trained and stays as it is; the multiple is of the mean, not of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from trainables.composition import Composition, Origin, SavedVector, composed, saved_vector
from trainables.curvature import TaskCurvature
from trainables.data import Batch, Task
from trainables.heads import Head, Heads
from trainables.methods import Capabilities, Context
from trainables.methods.training import fit, gradient_steps, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import PreconsolidationConfig
from trainables.randomness import make_generator
from trainables.state import State
from trainables.task_vectors import FullTaskVectors


@dataclass(frozen=True, kw_only=True)
class TaskArithmeticConfig:
    """Hyperparameters of task arithmetic."""

    lr: Annotated[float, Field(gt=0)]  # of Adam
    scaling: Annotated[float, Field(gt=0)] = 1.0  # of the mean; the paper's lambda times T
    lr_pre: Annotated[float, Field(gt=0)] = 0.03  # of linear probing


class TaskArithmetic:
    """A task vector for each task, learned alone."""

    config = TaskArithmeticConfig
    capabilities = Capabilities(composable=True, curvature=True)

    def __init__(self, context: Context, config: TaskArithmeticConfig) -> None:
        backbone = context.backbone.load(context.device)
        self.context, self.settings = context, config
        self.prepared = context.prepare(PreconsolidationConfig(lr_pre=config.lr_pre))
        self.vectors = FullTaskVectors(backbone)
        self.composition = Composition(self.vectors.theta_0)  # the sum of all tau so far
        self.heads = Heads(backbone.num_features, context.device)
        self.anchor: Head = (self.heads.weight, self.heads.bias)

    def begin_task(self, task: Task) -> None:
        """Start at theta_0, with the rows that were probed."""
        probed = self.prepared(task).head
        self.anchor = (probed[0][task.rows], probed[1][task.rows])
        self.heads.begin(self.anchor)
        self.composition.apply(self.vectors, 0.0)
        self.vectors.begin(1.0, make_generator(self.context.seed, "tau", task.index))

    def train_task(self, task: Task) -> dict[str, float]:
        """Fine-tune tau and the head with Adam on the cross-entropy over the task's classes."""
        parameters = [*self.vectors.parameters(), *self.heads.current]

        def loss(batch: Batch) -> Tensor:
            return local_loss(self.context, self.vectors.model, self.heads, batch.x, batch.y - task.classes.start)

        step = gradient_steps(torch.optim.Adam(parameters, lr=self.settings.lr), loss)
        return {TRAIN_LOSS: fit(task, self.context, step, parameters)}

    def end_task(self, task: Task) -> None:
        """Add tau to the sum."""
        self.composition.add(lambda name: self.settings.scaling * self.vectors.dense(name))
        self.heads.end()
        self._compose()

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits `(b, C_seen)` of images `(b, c, h, w)`."""
        return self.heads.logits(self.context.features(self.vectors.model, images))

    def vector(self, origin: Origin) -> SavedVector:
        """Return the last task vector; its scale is a part of tau."""
        rows = slice(origin.classes.start, origin.classes.stop)
        found = saved_vector(self.vectors, (self.heads.weight[rows], self.heads.bias[rows]), self.anchor, origin)
        return replace(found, scale=self.settings.scaling)

    def curvature(self, task: Task) -> TaskCurvature:
        """Return the diagonal Fisher of the task at theta_0."""
        return self.prepared(task).own_curvature()

    @contextmanager
    def composed(self, vectors: Sequence[SavedVector], weights: Sequence[float]) -> Iterator[None]:
        """Predict meanwhile by another composition."""
        for name, weight in composed(self.vectors.theta_0, vectors, weights).items():
            self.vectors.set_base(name, weight)
        yield
        self._compose()

    def continue_after(self, vectors: Iterable[SavedVector]) -> None:
        """Continue after finished tasks."""
        for vector in vectors:
            self.composition.add(lambda name, vector=vector: vector.dense(name, self.vectors.theta_0[name]))
            self.heads.begin(vector.head)
            self.heads.end()
        self._compose()

    def state(self) -> State:
        """Return the sum of the task vectors, and the heads."""
        return self.composition.state().within("composition") | self.heads.state().within("heads")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.composition.load_state(state.part("composition"))
        self.heads.load_state(state.part("heads"))
        self._compose()

    def _compose(self) -> None:
        self.vectors.disable()
        self.composition.apply(self.vectors, 1 / self.composition.count if self.composition.count else 0.0)
