"""DER++: rehearse stored images with their labels and with the logits that the network gave them when they were seen.

Notation: (x, y) a batch of b examples of the task, (x', z') and (x'', y'') two independent draws from the buffer,
augmented anew. z are the logits of an example's augmented image in the step in which it was seen, before that step's
update. C is the number of classes of the whole sequence, M the number of the buffer's slots.

    loss = CE(f(x), y) + alpha 1/(b C) sum |f(x') - z'|^2 + beta CE(f(x''), y'')

After the step each example of the batch is offered to the buffer, a reservoir of M (see `buffer.py`), with its image
before any augmentation. So rehearsal begins with the second step of the first task.

Source: Buzzega et al. 2020, https://arxiv.org/abs/2004.07211, algorithm 2 and eq. (6), and the authors' code (mammoth,
`models/derpp.py`): mean over all logits, draws as large as a batch, plain SGD. The paper's local cross-entropy is taken
of the task's own images; rehearsed images are of all tasks, with the softmax over all classes. Departures:
`docs/explanation/methods/derpp.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data import Batch, Task
from trainables.data.few_images import OwnImages, Unsuited
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import NonNegative, PositiveCount
from trainables.methods.sequential.buffer import Rehearsed, ReservoirBuffer
from trainables.methods.sequential.finetune import CrossEntropyConfig, Finetune
from trainables.methods.training import chance_cross_entropy
from trainables.randomness import make_generator
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class DERppConfig(CrossEntropyConfig):
    """Hyperparameters of DER++."""

    alpha: NonNegative  # weight of the square distance to the stored logits
    beta: NonNegative  # weight of the cross-entropy of the stored labels; 0 is DER
    buffer_size: PositiveCount = 1000  # M
    minibatch_size: PositiveCount | Literal["batch"] = "batch"  # examples in each of the two draws
    rehearsal_classes: Literal["all", "seen"] = "all"  # in the softmax of the stored labels; the authors' code has all


_LARGE = 5  # the largest share of the images in the buffer is 1/5: of the paper's datasets it holds 2 to 19 %


def unsuited(config: DERppConfig, images: OwnImages) -> Iterator[Unsuited]:
    """Say whether the buffer holds so many of few images that little is left to forget."""
    total = sum(images.per_task)
    if config.buffer_size * _LARGE > total:
        held = "all" if config.buffer_size >= total else f"{100 * config.buffer_size / total:.0f} % of the"
        reason = f"{config.buffer_size} holds {held} {total} images, which hardly differs from joint training"
        yield Unsuited("buffer_size", reason, f"--set buffer_size={max(1, total // (2 * _LARGE))} holds a tenth")


class DERpp(Finetune):
    """DER++; see the module."""

    config: DERppConfig
    same_kernels = False  # drawn images join all batches but the first, and the buffer lies on the CPU

    def __init__(self, context: Context, config: DERppConfig) -> None:
        super().__init__(context, config)
        self.buffer = ReservoirBuffer(config.buffer_size, context.num_classes, context.device)
        self.draws = self.choice = make_generator(context.seed, "rehearsal", 0)

    def begin_task(self, task: Task) -> None:
        """Begin the task's generators: draws from the buffer, and examples that enter it."""
        super().begin_task(task)
        self.draws = make_generator(self.context.seed, "rehearsal", task.index)
        self.choice = make_generator(self.context.seed, "reservoir", task.index)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        """Return the loss of a batch and the rehearsed images, in one pass; then offer the batch to the buffer."""
        drawn = [self._draw(task) for _ in range(2)] if len(self.buffer) else []
        x = torch.cat([batch.x, *(images for images, _ in drawn)])
        features = self.context.features(self.model, x).split([len(batch.x), *(len(images) for images, _ in drawn)])
        loss = self.cross_entropy(task, features[0], batch.y)
        if drawn:
            (_, by_logits), (_, by_labels) = drawn
            distance = F.mse_loss(self.head.logits(features[1]), by_logits.logits)
            entropy = F.cross_entropy(self.head.local_logits(features[2], range(self._rehearsed())), by_labels.labels)
            loss = loss + (self.config.alpha * distance + self.config.beta * entropy)
        logits = self.head.logits(features[0]).detach()
        self.buffer.offer(lambda places: task.train.pixels(batch.rows[places]), batch.y, logits, self.choice)
        return loss

    def _draw(self, task: Task) -> tuple[Tensor, Rehearsed]:
        """Draw from the buffer, and augment the images like the task's own."""
        size = self.config.minibatch_size
        found = self.buffer.draw(self.context.batch_size if size == "batch" else size, self.draws)
        return task.train.prepare(found.images, self.draws, self.context.device), found

    def _rehearsed(self) -> int:
        """Return the number of classes in the softmax of the stored labels."""
        return self.context.num_classes if self.config.rehearsal_classes == "all" else self.seen

    def chance_loss(self, task: Task) -> float:
        """Return the chance cross-entropy of both terms."""
        return super().chance_loss(task) + self.config.beta * chance_cross_entropy(self._rehearsed())

    def state(self) -> State:
        """Return the weights and the buffer."""
        return super().state() | self.buffer.state().within("buffer")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        super().load_state(state)
        self.buffer.load_state(state.part("buffer"))
