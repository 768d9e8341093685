"""ITA, incremental task arithmetic: each learner is trained alone, anchored to theta_0 where the Fisher is large.

Source: the paper, eq. (augmentedprobv2): loss of theta_0 + tau_t plus alpha/2 sum_i F_i tau_i^2, so that the
regulariser's gradient is alpha F * tau_t.
Departures of the "official" formulation: F is taken over tasks before t only (the paper's footnote says the same of
the expectation, its Algorithm 1 adds the current task first), with a floor of 1e-5 on its sum, so that task 1 has
almost no regulariser; the head's Fisher is likewise of past classes only, its strengths count twice (no 1/2), and
without a Fisher term there is no prior term either; the head starts at random; A of LoRA starts smaller; full
fine-tuning is decoupled too.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainables.curvature import Curvature
from trainables.data import Task
from trainables.methods.composable.config import ComposableConfig
from trainables.methods.composable.penalty import Coefficients
from trainables.methods.composable.rule import FISHER_FLOOR, Rule, mean_curvature
from trainables.methods.hyperparameters import NonNegative, PositiveCount
from trainables.preconsolidation import Consolidation


@dataclass(frozen=True, kw_only=True)
class ITAConfig(ComposableConfig):
    """Hyperparameters of ITA; see also `ComposableConfig`."""

    alpha: NonNegative  # strength of the regulariser on tau; in the paper 0.02 to 1e4, by parametrisation
    alpha_cls: NonNegative  # strength of the Fisher term on the head
    alpha_cls_prior: NonNegative  # strength of the identity term on the head


@dataclass(frozen=True, kw_only=True)
class ITALoRAConfig(ITAConfig):
    """Hyperparameters of ITA with LoRA: proj, fc1 and fc2 have the rank r, qkv has 3 r."""

    rank: PositiveCount = 16


class ITARule(Rule):
    """The rule of ITA; see `Rule`."""

    trains_composed_model = False

    def __init__(self, config: ITAConfig) -> None:
        super().__init__(config, config.alpha_cls, config.alpha_cls_prior)
        self.coefficients = Coefficients(current_strength=config.alpha)

    def layer_penalty(self, consolidation: Consolidation) -> tuple[Curvature, Coefficients]:
        """Return the curvature F and the strength alpha of the tuned layers' penalty."""
        past = consolidation.previous
        if not self.official:
            curvature = mean_curvature(consolidation)
        elif past is None:
            curvature = consolidation.curvature.scaled(0.0).shifted(FISHER_FLOOR)
        else:
            curvature = past.curvature.shifted(FISHER_FLOOR).mean_over(past.examples)
        return curvature, self.coefficients

    def head_fisher_classes(self, task: Task) -> int:
        """Return the number of classes seen, or of past classes in the official formulation."""
        return task.classes.start if self.official else task.classes.stop
