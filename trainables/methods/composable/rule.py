"""The difference between ITA and IEL, and the parts that both rules share."""

from __future__ import annotations

from typing import Protocol

from trainables.data import Task
from trainables.methods.composable.config import ComposableConfig, Formulation
from trainables.methods.composable.penalty import Coefficients
from trainables.preconsolidation import Consolidation
from trainables.preconsolidation.fisher import Fisher

FISHER_FLOOR = 1e-5  # epsilon of the official formulation


class Rule(Protocol):
    """The model of the loss, and the strengths of the regulariser.

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
        """The hyperparameters that ITA and IEL share."""
        ...

    def layer_penalty(self, consolidation: Consolidation) -> tuple[Fisher, Coefficients]:
        """Return the running mean Fisher and the strengths at the task of `consolidation`."""
        ...

    def head_fisher_classes(self, consolidation: Consolidation, task: Task) -> int:
        """Return the number of classes, from the first, in the Fisher of the head."""
        ...


def head_strengths(formulation: Formulation, fisher: float, prior: float) -> tuple[float, float]:
    """Return the strengths of the head's Fisher and identity terms in their gradients.

    Departures of "official": both count twice (its loss has no 1/2), and without a Fisher term there is no prior term.
    """
    if formulation == "paper":
        return fisher, prior
    return 2 * fisher, 2 * prior if fisher else 0.0


def mean_fisher(consolidation: Consolidation) -> Fisher:
    """Return the Fisher averaged over the examples of tasks 1 to t."""
    return {name: value / consolidation.examples for name, value in consolidation.fisher.items()}
