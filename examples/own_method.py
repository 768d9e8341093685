"""A method of your own that trains with gradients: a linear classifier per task on the frozen backbone's features.

From the folder that holds this file and its search space:

    tausearch search digits own_method:Linear --trials 2
"""

from dataclasses import dataclass

import torch

from trainables.heads import Heads, new_head
from trainables.methods.training import fit, gradient_steps, local_loss
from trainables.randomness import make_generator


@dataclass(frozen=True, kw_only=True)
class LinearConfig:
    """The hyperparameters."""

    lr: float


class Linear:
    """Each task trains rows of its own by the cross-entropy over its classes; the rows of all tasks predict."""

    config = LinearConfig

    def __init__(self, context, config):
        self.context, self.lr = context, config.lr
        self.model = context.backbone.load(context.device).requires_grad_(False)
        self.heads = Heads(self.model.num_features, context.device)

    def begin_task(self, task):
        """Draw the task's rows."""
        draws = make_generator(self.context.seed, "head", task.index)
        self.heads.begin(new_head(len(task.classes), self.model.num_features, draws))

    def train_task(self, task):
        """Train the task's rows."""

        def loss(batch):
            local = batch.y - task.classes.start  # labels count over all tasks
            return local_loss(self.context, self.model, self.heads, batch.x, local)

        weights = self.heads.current
        step = gradient_steps(torch.optim.SGD(weights, self.lr), loss)
        return {"train/loss": fit(task, self.context, step, weights)}

    def end_task(self, task):
        """Put the task's rows beside the others."""
        self.heads.end()

    @torch.inference_mode()
    def predict(self, images):
        """Return logits `(b, C_seen)`."""
        return self.heads.logits(self.context.features(self.model, images))

    def state(self):
        """Return the rows of all tasks."""
        return self.heads.state()

    def load_state(self, state):
        """Continue from a `state`."""
        self.heads.load_state(state)
