"""The learner of ITA and IEL: a task vector and a head per task, regularised in closed form, composed by averaging.

Source: the paper, Algorithm 1. ITA and IEL differ in the model of the loss and in the strengths of the regulariser;
`Rule` is that difference. The learner does not know the parametrisation of tau.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trainables.composition import Composition, Origin, SavedVector, composed, saved_vector
from trainables.curvature import KINDS, TaskCurvature, head_fisher
from trainables.data import Batch, Task
from trainables.heads import Head, Heads, first_head
from trainables.methods.composable.averaged_heads import AveragedHeads
from trainables.methods.composable.config import ComposableConfig
from trainables.methods.composable.iel import IELLoRAConfig
from trainables.methods.composable.ita import ITALoRAConfig
from trainables.methods.composable.penalty import HeadPenalty, LayerPenalty, coupled_step, decoupled_step
from trainables.methods.composable.rule import FISHER_FLOOR, Rule
from trainables.methods.contract import EULER_FACTOR, EULER_LIMIT, Context
from trainables.methods.training import fit, gradient_steps, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import Consolidation
from trainables.preconsolidation.probing import sample_features
from trainables.randomness import make_generator
from trainables.state import State
from trainables.task_vectors import FullTaskVectors, LoRATaskVectors, TaskVectors
from trainables.task_vectors.lora import Init

_log = logging.getLogger(__name__)


class ComposableLearner:
    """ITA or IEL, which differ in the rule, with one parametrisation of tau."""

    def __init__(
        self,
        context: Context,
        config: ComposableConfig,
        *,
        rule: Callable[[Any], Rule],
        vectors: Callable[[Any], TaskVectors],
    ) -> None:
        backbone = context.backbone.load(context.device)
        self.context = context
        self.rule = rule(config)
        # The paper couples the regulariser with the optimiser for full fine-tuning alone; the authors' code never does.
        self.coupled = vectors is FullTaskVectors and config.formulation == "paper"
        self.prepared = context.prepare(config.preconsolidation)
        self.width = backbone.num_features
        if isinstance(config, ITALoRAConfig | IELLoRAConfig):
            init: Init = "gaussian" if config.formulation == "paper" else "uniform"
            vectors = partial(LoRATaskVectors, rank=config.rank, init=init)
        self.vectors = vectors(backbone)
        self.composition = Composition(self.vectors.theta_0)
        kind = AveragedHeads if config.heads == "averaged" else Heads
        self.heads = kind(self.width, context.device)
        self._anchor: Head | None = None
        self._layer_penalty: LayerPenalty | None = None
        self._head_penalty: HeadPenalty | None = None

    def begin_task(self, task: Task) -> None:
        """Start tau_t at zero on its base and the head at its anchor; set up both regularisers."""
        t, consolidation = task.index, self.prepared(task)
        anchor = (consolidation.head[0][task.rows], consolidation.head[1][task.rows])
        if self.rule.official:  # departure: the head starts at random, not at h0_t
            generator = make_generator(self.context.seed, "head", t)
            self.heads.begin(first_head(task.classes, self.width, generator, self.context.initial_head))
        else:
            self.heads.begin(anchor)
        composed = self.rule.trains_composed_model
        share = 1 / t if composed else 1.0
        if isinstance(self.heads, AveragedHeads):
            self.heads.anchor_at(anchor, share)
        self.composition.apply(self.vectors, share if composed else 0.0)
        self.vectors.begin(share, make_generator(self.context.seed, "tau", t))
        self._anchor = anchor
        self._set_up_penalties(task, consolidation, anchor)

    def _set_up_penalties(self, task: Task, consolidation: Consolidation, anchor: Head) -> None:
        self._layer_penalty = self._head_penalty = None
        regularise, device = self.rule.config.regularise, self.context.device
        if regularise == "all":
            curvature, coefficients = self.rule.layer_penalty(consolidation)
            sums, stacks = self.composition.sums, self.vectors.stacks
            self._layer_penalty = LayerPenalty(curvature.to(device), coefficients, sums, stacks)
        if regularise != "none" and (self.rule.alpha_cls or self.rule.alpha_cls_prior):
            mixtures = list(consolidation.mixtures[: self.rule.head_fisher_classes(task)])
            generator = make_generator(self.context.seed, "head-fisher", task.index)
            draws = self.rule.config.preconsolidation.draws
            features = sample_features(mixtures, draws, generator)[0] if mixtures else torch.empty(0, self.width)
            floor = FISHER_FLOOR if self.rule.official else 0.0  # departure
            self._head_penalty = HeadPenalty(
                (anchor[0].to(device), anchor[1].to(device)),
                head_fisher(features, consolidation.head, task.rows).shifted(floor).to(device),
                self.rule.alpha_cls,
                self.rule.alpha_cls_prior,
            )

    def train_task(self, task: Task) -> dict[str, float]:
        """Fine-tune tau_t and the head with AdamW on the local cross-entropy."""
        parameters = [*self.vectors.parameters(), *self.heads.current]
        optimizer = torch.optim.AdamW(parameters, lr=self.rule.config.lr, weight_decay=0.0, fused=True)

        def loss(batch: Batch) -> Tensor:
            return local_loss(self.context, self.vectors.model, self.heads, batch.x, batch.y - task.classes.start)

        metrics = self._check_stability(task)
        if self.vectors.parametrisation == "lora" or not self.rule.trains_composed_model:
            self.context.make_ready(self.vectors.model, task)  # else every task has another constant 1/t in its layers
        # A curvature of the user's code may do what a CUDA graph cannot hold.
        graph_on = self.context.graphs_on if self.rule.config.curvature in KINDS else None
        step = gradient_steps(optimizer, loss, adjust=self._regularise, graph_on=graph_on)
        metrics[TRAIN_LOSS] = fit(task, self.context, step, parameters, penalty=self._penalty)
        return metrics

    def _check_stability(self, task: Task) -> dict[str, float]:
        """Report `train/euler_factor` of decoupled steps; warn if they are unstable."""
        if self._layer_penalty is None or self.coupled:
            return {}
        factor = self._layer_penalty.largest()  # times c_0 = 1, the largest step size
        if factor >= EULER_LIMIT:
            _log.warning(
                "task %d: strength * max curvature is %.3g, decoupled steps need < %g", task.index, factor, EULER_LIMIT
            )
        return {EULER_FACTOR: factor}

    def _penalty(self) -> float:
        return 0.0 if self._layer_penalty is None else self._layer_penalty.value(self.vectors)

    def _regularise(self, factor: float | Tensor) -> None:
        pairs = []
        if self._layer_penalty is not None:
            pairs += self._layer_penalty.gradients(self.vectors)
        if self._head_penalty is not None:
            pairs += self._head_penalty.gradients(self.heads.current)
        if not pairs:
            return
        if self.coupled:
            coupled_step(pairs)
        else:
            decoupled_step(pairs, factor)

    def end_task(self, task: Task) -> None:
        """Add tau_t to the composition and switch to the composed model."""
        self.composition.add(self.vectors.dense)
        self.heads.end()
        self._layer_penalty = self._head_penalty = None
        self._compose()

    def _compose(self) -> None:
        self.vectors.disable()
        self.composition.apply(self.vectors, 1 / self.composition.count if self.composition.count else 0.0)

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits of the composed model over all classes seen so far."""
        return self.heads.logits(self.context.features(self.vectors.model, images))

    @contextmanager
    def composed(self, vectors: Sequence[SavedVector], weights: Sequence[float]) -> Iterator[None]:
        """Predict meanwhile by theta_0 + sum_t w_t tau_t, with the heads as they are."""
        for name, theta_0 in self.vectors.theta_0.items():  # one by one: no further set of weights is in memory
            self.vectors.set_base(name, composed({name: theta_0}, vectors, weights)[name])
        try:
            yield
        finally:
            self._compose()

    def continue_after(self, vectors: Iterable[SavedVector]) -> None:
        """Continue after finished tasks, in order, from their task vectors."""
        for vector in vectors:
            self.composition.add(partial(self._dense, vector))
            if isinstance(self.heads, AveragedHeads):
                self.heads.anchor_at(vector.anchor, 1.0)
            self.heads.begin(vector.head)
            self.heads.end()
        self._compose()

    def _dense(self, vector: SavedVector, name: str) -> Tensor:
        return vector.dense(name, self.vectors.theta_0[name])

    def vector(self, origin: Origin) -> SavedVector:
        """Return tau_t with the rows of head and anchor."""
        rows = slice(origin.classes.start, origin.classes.stop)
        head = (self.heads.weight[rows], self.heads.bias[rows])
        assert self._anchor is not None, "artifacts are saved after a task"
        return saved_vector(self.vectors, head, self._anchor, origin, self.rule.config.heads)

    def curvature(self, task: Task) -> TaskCurvature:
        """Return the curvature of the task alone, as pre-consolidation has estimated it at theta_0."""
        return self.prepared(task).own_curvature()

    def state(self) -> State:
        """Return the sum of task vectors and the heads; all else is theta_0 or belongs to one task."""
        return self.composition.state().within("composition") | self.heads.state().within("heads")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.composition.load_state(state.part("composition"))
        self.heads.load_state(state.part("heads"))
        self._compose()
