"""TMC, tangent model composition: task vectors of the linearised network, each learned alone, composed by averaging.

Model: f_lin(x; tau) = f(x; theta_0) + J(x) tau (see `linearised`). Every task starts at tau = 0 on the same theta_0 and
the same random classifier over all classes, and minimises

    mean over images and all C classes of (f_lin(x; tau) - kappa onehot(y))^2 + penalty |tau|,

with AdamW; kappa = 15. f_lin(x; mean of tau_1 .. tau_t) predicts the seen classes. The model is linear in tau, so the
mean of vectors is the mean of their models.

Source: Liu and Soatto, ICCV 2023, https://arxiv.org/abs/2307.08114; github.com/tianyu139/tangent-model-composition
(tangent_trainer.py, utils.py, models/linear_vit.py).
Follows the code: the penalty is of the norm, sqrt(1e-6 + |tau|^2), not of its square; norms and biases have tangents,
embeddings have none; the classifier starts as torch's `Linear`; all classes of the benchmark are in the loss.
Departs from it: tau starts at 0 (there 1e-12 in linear layers); schedule, epochs and batch size of the other methods
(there steps of 0.1 at epochs 25 and 40 of 50, batches of 32).
`loss: cross-entropy` is the local cross-entropy of f_lin in place of the square loss: the paper does not say which of
the two its own TMC minimised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.backbones.linearised.network import CLASSIFIER, LinearisedViT, Vector
from trainables.composition import Composition, Origin, SavedVector
from trainables.composition.merging import weighted_sum
from trainables.data import Batch, Task
from trainables.heads import uniform_head
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import NonNegative, Positive
from trainables.methods.training import chance_cross_entropy, chance_square_loss, fit
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import State

NORM_FLOOR = 1e-6  # under the root of the penalty: its gradient at tau = 0 is 0


@dataclass(frozen=True, kw_only=True)
class TMCConfig:
    """Hyperparameters of TMC."""

    lr: Positive  # of AdamW at the start
    kappa: Positive = 15.0  # target output of the true class; the target of the others is 0
    penalty: NonNegative = 1e-5  # strength of the norm of tau
    loss: Literal["square", "cross-entropy"] = "square"  # over all classes, or over the task's


class TMC:
    """TMC; see the module."""

    def __init__(self, context: Context, config: TMCConfig) -> None:
        self.context = context
        self.config = config
        vit = context.backbone.load(context.device, attention="plain")
        start = uniform_head(context.num_classes, vit.num_features, make_generator(context.seed, "head", 0))
        weight, bias = (part.to(context.device) for part in start)
        self.model = LinearisedViT(vit, (weight, bias), context.precision, context.device)
        self.composition = Composition(self.model.zero())
        self.tau: dict[str, nn.Parameter] = {}
        self._other: Vector | None = None  # a composition in place of the mean

    def begin_task(self, task: Task) -> None:
        """Begin at tau = 0."""
        self.tau = {name: nn.Parameter(zero) for name, zero in self.model.zero().items()}

    def train_task(self, task: Task) -> dict[str, float]:
        """Train tau."""
        parameters = list(self.tau.values())
        optimizer = torch.optim.AdamW(parameters, lr=self.config.lr, weight_decay=0.0, fused=True)
        if self.model.compilable:
            self.context.make_ready(self.model.vit, task)

        def step(batch: Batch, factor: float) -> Tensor:
            with self.context.as_made_ready(self.model.vit, batch.x):
                loss, gradients = self.model.gradients(batch.x, dict(self.tau), self._loss(batch.y, task.classes))
            decay = self._decay()
            for name, parameter in self.tau.items():
                parameter.grad = torch.addcmul(gradients[name], parameter.detach(), decay)
            optimizer.param_groups[0]["lr"] = self.config.lr * factor
            optimizer.step()
            return loss

        return {TRAIN_LOSS: fit(task, self.context, step, parameters, chance_loss=self._chance_loss(task))}

    def _loss(self, y: Tensor, classes: range) -> Callable[[Tensor], Tensor]:
        """Return the loss as a function of f_lin over all classes, `(b, C)`."""
        if self.config.loss == "cross-entropy":
            return lambda logits: F.cross_entropy(logits[:, classes.start : classes.stop], y - classes.start)
        return lambda logits: F.mse_loss(logits, self.config.kappa * F.one_hot(y, logits.shape[1]).to(logits.dtype))

    def _decay(self) -> Tensor:
        """Return the factor of tau in the gradient of penalty sqrt(1e-6 + |tau|^2): a scalar."""
        squares = torch.stack([part.detach().square().sum() for part in self.tau.values()]).sum()
        return self.config.penalty / (NORM_FLOOR + squares).sqrt()

    def _chance_loss(self, task: Task) -> float:
        if self.config.loss == "cross-entropy":
            return chance_cross_entropy(len(task.classes))
        return chance_square_loss(self.context.num_classes, self.config.kappa)

    def end_task(self, task: Task) -> None:
        """Add tau to the sum."""
        self.composition.add(self.tau.__getitem__)

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """Return f_lin at the mean task vector, of all classes seen so far."""
        count, sums = self.composition.count, self.composition.sums
        weight = 1 / count  # rounds exactly like `composed`
        tau = self._other or {name: weight * total for name, total in sums.items()}
        return self.model.logits(images, tau)[:, : self.context.task_classes[count - 1].stop]

    @contextmanager
    def composed(self, vectors: Sequence[SavedVector], weights: Sequence[float]) -> Iterator[None]:
        """Predict meanwhile by f_lin at sum_t w_t tau_t, whose classifier is a part of it."""
        whole = {**self.model.theta_0, **dict(zip(CLASSIFIER, self.model.head, strict=True))}
        self._other = weighted_sum(whole, vectors, weights)
        try:
            yield
        finally:
            self._other = None

    def continue_after(self, vectors: Iterable[SavedVector]) -> None:
        """Continue after finished tasks, in order, from their task vectors."""
        for vector in vectors:
            tau = {name: parts["tau"].to(self.context.device) for name, parts in vector.parameters.items()}
            self.composition.add(tau.__getitem__)

    def vector(self, origin: Origin) -> SavedVector:
        """Return tau_t; its head and anchor are the task's rows of the classifier with and without tau_t."""
        tau = {name: part.detach().to("cpu", copy=True) for name, part in self.tau.items()}
        rows = slice(origin.classes.start, origin.classes.stop)
        weight, bias = (part[rows].to("cpu", copy=True) for part in self.model.head)
        head = (weight + tau[CLASSIFIER[0]][rows], bias + tau[CLASSIFIER[1]][rows])
        parameters = {name: {"tau": part} for name, part in tau.items()}
        return SavedVector(
            parametrisation="tangent", parameters=parameters, head=head, anchor=(weight, bias), origin=origin
        )

    def state(self) -> State:
        """Return the sum of task vectors and their number; all else is theta_0 or drawn from the seed."""
        return self.composition.state()

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.composition.load_state(state)
