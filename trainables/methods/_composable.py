"""What ITA and IEL share: a task vector and a head per task, regularised in closed form, composed by averaging.

Source: the paper, Algorithm 1. The two differ in which model the loss is taken of and in the coefficients of the
regulariser; `Rule` is that difference. Nothing here asks which parametrisation tau has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import torch
from pydantic import ConfigDict, Field
from safetensors.torch import save_file
from torch import Tensor

from trainables.data import Task
from trainables.methods._heads import Heads
from trainables.methods._penalty import Coefficients, HeadPenalty, LayerPenalty, coupled_step, decoupled_step
from trainables.methods._training import fit, local_loss, require_finite
from trainables.methods.protocol import Capabilities, Context
from trainables.preconsolidation import Consolidation, PreconsolidationConfig
from trainables.preconsolidation.fisher import Fisher, head_fisher
from trainables.preconsolidation.probing import new_head, sample_features
from trainables.randomness import make_generator
from trainables.task_vectors import Composition, TaskVectors

_log = logging.getLogger(__name__)

Formulation = Literal["paper", "official"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
EULER_LIMIT = 2.0
FISHER_FLOOR = 1e-5  # epsilon of the official formulation


@dataclass(frozen=True, kw_only=True)
class ComposableConfig:
    """Hyperparameters that ITA and IEL share.

    Attributes:
        lr: Learning rate of AdamW, for tau and head.
        lr_pre: Learning rate of linear probing.
        epochs_pre: Epochs of linear probing.
        fisher_passes: Backward passes per batch of the Fisher, or "all" for the exact one.
        formulation: "paper" is the equations; "official" what the authors' code does where it departs from them.
        regularise: "all"; "head" leaves tau unregularised; "none" leaves the head unregularised too (the ablations).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    lr: Positive
    lr_pre: Positive = 0.01
    epochs_pre: Annotated[int, Field(ge=0)] = 3
    fisher_passes: Annotated[int, Field(ge=1)] | Literal["all"] = 8
    formulation: Formulation = "paper"
    regularise: Literal["all", "head", "none"] = "all"

    @property
    def preconsolidation(self) -> PreconsolidationConfig:
        """The part that pre-consolidation depends on."""
        passes = None if self.fisher_passes == "all" else self.fisher_passes
        return PreconsolidationConfig(lr_pre=self.lr_pre, epochs_pre=self.epochs_pre, fisher_passes=passes)


class Rule(Protocol):
    """What tells ITA from IEL.

    Attributes:
        trains_composed_model: Whether the loss is the composed model's (IEL) or the t-th learner's alone (ITA).
        alpha_cls: Strength of the head's Fisher term.
        alpha_cls_prior: Strength of the head's identity term.
    """

    trains_composed_model: bool
    alpha_cls: float
    alpha_cls_prior: float

    @property
    def config(self) -> ComposableConfig:
        """Hyperparameters that both share."""
        ...

    def layer_penalty(self, consolidation: Consolidation) -> tuple[Fisher, Coefficients]:
        """Return the running mean Fisher and the coefficients at the task of `consolidation`."""
        ...

    def head_fisher_classes(self, consolidation: Consolidation, task: Task) -> int:
        """Return how many classes, from the first, the Fisher of the head is taken over."""
        ...


class ComposableLearner:
    """ITA or IEL with one parametrisation of tau.

    Args:
        context: Backbone, protocol, seed, device.
        rule: ITA's or IEL's.
        parametrise: Makes the task vectors over a loaded backbone.
        coupled: Whether the regulariser's gradient goes through the optimiser (the paper, for full fine-tuning).
    """

    capabilities = Capabilities(composable=True, needs_preconsolidation=True)

    def __init__(
        self, context: Context, rule: Rule, parametrise: Callable[[Any], TaskVectors], *, coupled: bool
    ) -> None:
        backbone = context.backbone.load(context.device)
        self.context = context
        self.rule = rule
        self.coupled = coupled
        self.width = backbone.num_features
        self.vectors = parametrise(backbone)
        self.composition = Composition(self.vectors.theta_0)
        self.heads = Heads(self.width, context.device)
        self._layer_penalty: LayerPenalty | None = None
        self._head_penalty: HeadPenalty | None = None

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        """Start tau_t at zero on its base, the head at its anchor, and set up both regularisers."""
        assert consolidation is not None
        t = task.index
        anchor = (consolidation.head[0][task.rows], consolidation.head[1][task.rows])
        if self.rule.config.formulation == "official":  # departure: the head starts at random, not at h0_t
            self.heads.begin(new_head(len(task.classes), self.width, make_generator(self.context.seed, "head", t)))
        else:
            self.heads.begin(anchor)
        composed = self.rule.trains_composed_model
        self.composition.apply(self.vectors, 1 / t if composed else 0.0)
        self.vectors.begin(1 / t if composed else 1.0, make_generator(self.context.seed, "tau", t))
        self._set_up_penalties(task, consolidation, anchor)

    def _set_up_penalties(self, task: Task, consolidation: Consolidation, anchor: tuple[Tensor, Tensor]) -> None:
        self._layer_penalty = self._head_penalty = None
        regularise, device = self.rule.config.regularise, self.context.device
        if regularise == "all":
            fisher, coefficients = self.rule.layer_penalty(consolidation)
            on_device = {name: value.to(device) for name, value in fisher.items()}
            self._layer_penalty = LayerPenalty(on_device, coefficients, self.composition.sums, self.vectors.stacks)
        if regularise != "none" and (self.rule.alpha_cls or self.rule.alpha_cls_prior):
            mixtures = list(consolidation.mixtures[: self.rule.head_fisher_classes(consolidation, task)])
            generator = make_generator(self.context.seed, "head-fisher", task.index)
            draws = self.rule.config.preconsolidation.draws
            features = sample_features(mixtures, draws, generator)[0] if mixtures else torch.empty(0, self.width)
            floor = FISHER_FLOOR if self.rule.config.formulation == "official" else 0.0  # departure
            weight, bias = (part + floor for part in head_fisher(features, consolidation.head, task.rows))
            self._head_penalty = HeadPenalty(
                (anchor[0].to(device), anchor[1].to(device)),
                (weight.to(device), bias.to(device)),
                self.rule.alpha_cls,
                self.rule.alpha_cls_prior,
            )

    def train_task(self, task: Task) -> dict[str, float]:
        """Fine-tune tau_t and the head with AdamW on the local cross-entropy."""
        parameters = [*self.vectors.parameters(), *self.heads.current]
        optimizer = torch.optim.AdamW(parameters, lr=self.rule.config.lr, weight_decay=0.0, fused=True)

        def step(x: Tensor, y: Tensor, factor: float) -> Tensor:
            loss = local_loss(self.context, self.vectors.model, self.heads, x, y - task.classes.start)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.param_groups[0]["lr"] = self.rule.config.lr * factor
            self._regularise(factor)
            optimizer.step()
            return loss.detach()

        metrics = self._check_stability(task)
        metrics["train/loss"] = fit(task, self.context, step, self._penalty)
        require_finite(parameters, self.context, task)
        return metrics

    def _check_stability(self, task: Task) -> dict[str, float]:
        """Report `train/euler_factor`, which must stay below 2 for decoupled steps to be stable, and warn if not."""
        if self._layer_penalty is None or self.coupled:
            return {}
        factor = self._layer_penalty.largest()  # times c_0 = 1, the largest step size
        if factor >= EULER_LIMIT:
            _log.warning("task %d: strength * max Fisher is %.3g, decoupled steps need < 2", task.index, factor)
        return {"train/euler_factor": factor}

    def _penalty(self) -> float:
        return 0.0 if self._layer_penalty is None else self._layer_penalty.value(self.vectors)

    def _regularise(self, factor: float) -> None:
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
        self.composition.add(self.vectors)
        self.heads.end()
        self._layer_penalty = self._head_penalty = None
        self._compose()

    def _compose(self) -> None:
        self.vectors.disable()
        self.composition.apply(self.vectors, 1 / self.composition.count if self.composition.count else 0.0)

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits of the composed model over all classes seen so far; heads are concatenated, never averaged."""
        return self.heads.logits(self.context.features(self.vectors.model, images))

    @torch.no_grad()
    def save_artifacts(self, folder: Path, task: Task) -> None:
        """Write tau_t (dense) with the head's rows as safetensors, and the adapter in its library's form."""
        target = folder / f"task_{task.index}"
        target.mkdir(parents=True, exist_ok=True)
        tensors = {name: self.vectors.dense(name).contiguous().cpu() for name in self.vectors.theta_0}
        tensors |= {"head.weight": self.heads.weight[task.rows].cpu(), "head.bias": self.heads.bias[task.rows].cpu()}
        save_file(tensors, target / "task_vector.safetensors")
        self.vectors.save(target / "adapter")

    def state_dict(self) -> dict[str, Any]:
        """Return the sum of task vectors and the heads; everything else is theta_0 or belongs to one task."""
        return {"composition": self.composition.state_dict(), "heads": self.heads.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.composition.load_state_dict(state["composition"])
        self.heads.load_state_dict(state["heads"])
        self._compose()


def head_strengths(formulation: Formulation, fisher: float, prior: float) -> tuple[float, float]:
    """Return the strengths of the head's Fisher and identity terms as their gradients have them.

    Departures of "official": both count twice (its loss has no 1/2), and without a Fisher term there is no prior term.
    """
    if formulation == "paper":
        return fisher, prior
    return 2 * fisher, 2 * prior if fisher else 0.0


def mean_fisher(consolidation: Consolidation) -> Fisher:
    """Return the Fisher averaged over the examples of tasks 1 to t."""
    return {name: value / consolidation.examples for name, value in consolidation.fisher.items()}
