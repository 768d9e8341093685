"""TAK: task vectors of the linearised features, held by the curvature that the features have on other images.

Model: phi_lin(x; tau) = phi(x; theta_0) + J_phi(x) tau (see `linearised`), and logits h_t of it. Every task starts at
tau = 0 on the same theta_0, and minimises its local cross-entropy plus `penalty`, with AdamW. The features at
alpha (tau_1 + ... + tau_t), read by the heads of all tasks, predict the seen classes. The model is linear in tau, and
the penalty keeps J_phi tau_t small on images of other tasks, so that the vectors do not disturb each other.

Source: TAK, https://arxiv.org/abs/2602.17385; mammoth e75a491, models/tak.py and models/tak_utils.
Departs from it, for a ViT without a text encoder and for class-incremental learning:
- The heads are the rows h0_t of pre-consolidation, as in ITA, in the place of text embeddings; `head: trained` trains
  them with tau.
- The features are as the last norm leaves them, not divided by their length. So strengths are smaller, by about its
  square.
- The references are the tasks before (`past`) or other images (`generic`). In the public code they are all other
  tasks, later ones too, which needs a second pass over the sequence.
- The warm-up is a share of the steps; there it takes 500 steps, more than a task of the embedded benchmarks has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.backbones.linearised.network import LinearisedFeatures, Vector
from trainables.composition import Origin, SavedVector
from trainables.composition.merging import shared_sum
from trainables.curvature import FeatureCurvature
from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.heads import Head, Heads
from trainables.methods.contract import Context
from trainables.methods.tak.config import TAKConfig
from trainables.methods.tak.generic import read_generic
from trainables.methods.tak.penalty import FeaturePenalty
from trainables.methods.training import Step, fit, warm_cosine
from trainables.metrics import TRAIN_LOSS
from trainables.state import JSON, State


class TAK:
    """TAK; see the module."""

    def __init__(self, context: Context, config: TAKConfig) -> None:
        self.context = context
        self.config = config
        self.heads_prepared = context.prepare(config.preconsolidation)
        regularised = config.regularise == "all"
        self.past = context.prepare(config.past, before=True) if regularised and config.references == "past" else None
        self.generic: FeatureCurvature | None = None
        self.generic_digest = ""
        if regularised and config.references == "generic":
            self.generic, self.generic_digest = read_generic(config.factors, context.backbone)
        vit = context.backbone.load(context.device, attention="plain")
        self.model = LinearisedFeatures(vit, context.precision, context.device, class_token=True)
        if self.generic is not None:
            self._require_whole(self.generic)
        self.heads = Heads(vit.num_features, context.device)
        self.sums = self.model.zero()  # alpha times the finished task vectors
        self.tau: dict[str, nn.Parameter] = {}
        self._anchor: Head | None = None
        self._penalty: FeaturePenalty | None = None
        self._other: Vector | None = None  # a composition in place of the sum

    def _require_whole(self, generic: FeatureCurvature) -> None:
        """Refuse generic factors that are not of the very weights that are tuned, by an InputError."""
        has = {*(f"{name}.weight" for name in generic.layers.factors), *generic.affine.factors}
        biases = {f"{name}.bias" for name in generic.layers.factors}
        if wrong := sorted((has ^ set(self.model.theta_0)) - biases):
            what = "has factors of" if wrong[0] in has else "has no factors of"
            raise InputError(f"tak: factors={self.config.factors}: {what} {wrong[0]}, make the file again")

    def begin_task(self, task: Task) -> None:
        """Begin at tau = 0 and h0_t; set up the penalty."""
        head = self.heads_prepared(task).head
        self._anchor = (head[0][task.rows], head[1][task.rows])
        self.heads.begin(self._anchor)
        self.tau = {name: nn.Parameter(zero) for name, zero in self.model.zero().items()}
        curvature = self.generic if self.past is None else self.past(task)
        self._penalty = None
        if curvature is not None:
            on_device = curvature.to(self.context.device)
            self._penalty = FeaturePenalty(on_device, self.config.strength, self.config.affine)

    def train_task(self, task: Task) -> dict[str, float]:
        """Train tau, and the head where it is trained."""
        head = self.heads.current if self.config.head == "trained" else []
        groups = [{"params": list(self.tau.values()), "weight_decay": self.config.decay}]
        groups += [{"params": head, "weight_decay": 0.0}] if head else []
        optimizer = torch.optim.AdamW(groups, lr=self.config.lr, fused=True)
        penalty = None if self._penalty is None else (lambda own=self._penalty: own.value(self.tau))
        parameters = [*self.tau.values(), *self.heads.current]
        if self.model.compilable:
            self.context.make_ready(self.model.vit, task)
        return {TRAIN_LOSS: fit(task, self.context, self._step(task, optimizer, head), parameters, penalty=penalty)}

    def _step(self, task: Task, optimizer: torch.optim.Optimizer, head: list[nn.Parameter]) -> Step:
        steps = self.context.epochs * math.ceil(len(task.train) / self.context.batch_size)
        done = 0

        def step(batch: Batch, _: float) -> Tensor:
            nonlocal done

            def loss(phi: Tensor) -> Tensor:
                return F.cross_entropy(self.heads.local_logits(phi), batch.y - task.classes.start)

            with self.context.as_made_ready(self.model.vit, batch.x):
                value, gradients, of_head = self.model.feature_gradients(batch.x, dict(self.tau), loss, head)
            pulls = {} if self._penalty is None else self._penalty.gradients(self.tau)
            for name, parameter in self.tau.items():
                parameter.grad = gradients[name] + pulls[name] if name in pulls else gradients[name]
            for part, gradient in zip(head, of_head, strict=True):
                part.grad = gradient
            for group in optimizer.param_groups:
                group["lr"] = self.config.lr * warm_cosine(done, steps, self.config.warm_up)
            optimizer.step()
            done += 1
            return value

        return step

    @torch.no_grad()
    def end_task(self, task: Task) -> None:
        """Add alpha tau to the sum."""
        for name, part in self.tau.items():
            self.sums[name] += part if self.config.alpha == 1 else self.config.alpha * part
        self.heads.end()
        self._penalty = None

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits of the features at the sum of task vectors, of all classes seen so far."""
        return self.heads.logits(self.model.features(images, self._other or self.sums))

    @contextmanager
    def composed(self, vectors: Sequence[SavedVector], weights: Sequence[float]) -> Iterator[None]:
        """Predict meanwhile by another composition; see `shared_sum`."""
        self._other = shared_sum(self.model.theta_0, vectors, weights)
        try:
            yield
        finally:
            self._other = None

    def continue_after(self, vectors: Iterable[SavedVector]) -> None:
        """Continue after finished tasks, in order, from their task vectors."""
        for vector in vectors:
            for name, total in self.sums.items():
                total += vector.dense(name, total)
            self.heads.begin(vector.head)
            self.heads.end()

    def vector(self, origin: Origin) -> SavedVector:
        """Return tau_t, scaled by alpha, with the rows of head and anchor."""
        rows = slice(origin.classes.start, origin.classes.stop)
        assert self._anchor is not None, "artifacts are saved after a task"
        weight, bias = (part[rows].to("cpu", copy=True) for part in (self.heads.weight, self.heads.bias))
        return SavedVector(
            parametrisation="feature-tangent",
            parameters={name: {"tau": part.detach().to("cpu", copy=True)} for name, part in self.tau.items()},
            scale=self.config.alpha,
            head=(weight, bias),
            anchor=(self._anchor[0].to("cpu", copy=True), self._anchor[1].to("cpu", copy=True)),
            origin=origin,
        )

    def state(self) -> State:
        """Return the sum of task vectors, the heads, and which generic factors are used."""
        values: dict[str, JSON] = {"factors": self.generic_digest}
        return State(self.sums).within("sums") | self.heads.state().within("heads") | State(values=values)

    def load_state(self, state: State) -> None:
        """Continue from a `state`; one that was learned with other generic factors is an InputError."""
        if state.values["factors"] != self.generic_digest:
            raise InputError(f"tak: factors={self.config.factors}: other factors than those that the trial began with")
        for name, total in state.part("sums").tensors.items():
            self.sums[name].copy_(total)
        self.heads.load_state(state.part("heads"))
