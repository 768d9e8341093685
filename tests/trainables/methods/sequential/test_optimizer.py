"""The optimiser of the sequential methods."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from tests.support.methods.tiny_trials import learn
from tests.trainables.methods.sequential.tiny_sequence import TASKS, make
from trainables.methods.sequential.finetune import Finetune, FinetuneConfig


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_rows_without_a_gradient_do_not_decay(optimizer: Literal["adamw", "sgd"]) -> None:
    learner = make(Finetune, FinetuneConfig(lr=0.1, optimizer=optimizer))
    start = learner.head.weight.detach().clone()
    learn(learner, TASKS[0])
    assert torch.equal(learner.head.weight[3:], start[3:]) and not torch.equal(learner.head.weight[:3], start[:3])
