"""Constructors of the six composable methods: a rule over one parametrisation of the task vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from trainables.methods.composable.config import ComposableConfig
from trainables.methods.composable.iel import IELLoRAConfig
from trainables.methods.composable.ita import ITALoRAConfig
from trainables.methods.composable.learner import ComposableLearner
from trainables.methods.composable.rule import Rule
from trainables.methods.contract import Context, Method
from trainables.task_vectors import FullTaskVectors, IA3TaskVectors, LoRATaskVectors


def full(context: Context, config: ComposableConfig, rule: Callable[[Any], Rule]) -> Method:
    """Return a learner whose tau is dense: full fine-tuning."""
    # The paper couples the regulariser with the optimiser for full fine-tuning alone; the authors' code never does.
    return ComposableLearner(context, rule(config), FullTaskVectors, coupled=config.formulation == "paper")


def ia3(context: Context, config: ComposableConfig, rule: Callable[[Any], Rule]) -> Method:
    """Return a learner whose tau scales the rows of theta_0."""
    return ComposableLearner(context, rule(config), IA3TaskVectors, coupled=False)


def lora(context: Context, config: ITALoRAConfig | IELLoRAConfig, rule: Callable[[Any], Rule]) -> Method:
    """Return a learner whose tau is a product of low rank."""
    vectors = partial(
        LoRATaskVectors, rank=config.rank, init="gaussian" if config.formulation == "paper" else "uniform"
    )
    return ComposableLearner(context, rule(config), vectors, coupled=False)
