"""IEL, incremental ensemble learning: the composed model is trained, one task vector at a time.

Source: the paper, eq. (augmentedjointv5) and (gradientsv2): loss of theta_0 + (1/t) sum_{s<=t} tau_s plus beta Omega,
whose gradient is (beta/t) F * [(1 - 1/t) tau_t - (1/t) sum_{s<t} tau_s]; at t = 1 it vanishes.
Departures of the "official" formulation: no outer 1/t; task 1 uses 1/2 in place of 1/t, so that it is regularised; a
floor of 1e-5 on F; the head's strengths count twice (no 1/2), and without a Fisher term there is no prior term
either; the head starts at random; A of LoRA starts smaller; full fine-tuning is decoupled too.
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
class IELConfig(ComposableConfig):
    """Hyperparameters of IEL; see also `ComposableConfig`."""

    beta: NonNegative  # strength of the regulariser on tau; in the paper 2 to 5e3, by parametrisation
    beta_cls: NonNegative  # strength of the Fisher term on the head
    beta_cls_prior: NonNegative  # strength of the identity term on the head


@dataclass(frozen=True, kw_only=True)
class IELLoRAConfig(IELConfig):
    """Hyperparameters of IEL with LoRA: proj, fc1 and fc2 have the rank r, qkv has 3 r."""

    rank: PositiveCount = 16


class IELRule(Rule):
    """The rule of IEL; see `Rule`."""

    trains_composed_model = True

    def __init__(self, config: IELConfig) -> None:
        super().__init__(config, config.beta_cls, config.beta_cls_prior)
        self.beta = config.beta

    def layer_penalty(self, consolidation: Consolidation) -> tuple[Curvature, Coefficients]:
        """Return the curvature F and the two strengths of the tuned layers' penalty."""
        t, beta, mean = consolidation.task, self.beta, mean_curvature(consolidation)
        if not self.official:
            return mean, Coefficients(current_strength=beta / t * (1 - 1 / t), past_strength=beta / t / t)
        share = 1 / 2 if t == 1 else 1 / t
        strengths = Coefficients(current_strength=beta * (1 - share), past_strength=beta * share)
        return mean.shifted(FISHER_FLOOR), strengths

    def head_fisher_classes(self, task: Task) -> int:
        """Return the number of classes seen: the Fisher of the head covers all of them."""
        return task.classes.stop
