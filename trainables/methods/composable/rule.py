"""The difference between ITA and IEL, and the parts that both rules share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from trainables.curvature import Curvature
from trainables.data import Task
from trainables.methods.composable.config import ComposableConfig
from trainables.methods.composable.penalty import Coefficients
from trainables.preconsolidation import Consolidation

FISHER_FLOOR = 1e-5  # epsilon of the official formulation


class Rule(ABC):
    """The model of the loss, and the strengths of the regulariser.

    `fisher` and `prior` are the strengths of the head's Fisher and identity terms in the loss, `alpha_cls` and
    `alpha_cls_prior` those in its gradient.
    """

    trains_composed_model: bool  # the loss is that of the composed model (IEL), not of the t-th learner alone (ITA)

    def __init__(self, config: ComposableConfig, fisher: float, prior: float) -> None:
        self.config = config
        self.official = config.formulation == "official"
        self.alpha_cls, self.alpha_cls_prior = fisher, prior
        if self.official:  # departures: the loss has no 1/2, and without a Fisher term there is no prior term
            self.alpha_cls, self.alpha_cls_prior = 2 * fisher, 2 * prior if fisher else 0.0

    @abstractmethod
    def layer_penalty(self, consolidation: Consolidation) -> tuple[Curvature, Coefficients]:
        """Return the curvature F and the strengths of the tuned layers' penalty at the task of `consolidation`."""

    @abstractmethod
    def head_fisher_classes(self, task: Task) -> int:
        """Return the number of classes, from the first, in the Fisher of the head."""


def mean_curvature(consolidation: Consolidation) -> Curvature:
    """Return the curvature averaged over the examples of tasks 1 to t."""
    return consolidation.curvature.mean_over(consolidation.examples)
