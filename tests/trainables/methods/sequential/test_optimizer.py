"""The optimiser of the sequential methods."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from tests.trainables.methods.sequential.tiny_sequence import CLASSES, TASKS, make
from trainables.methods.sequential.finetune import Finetune, FinetuneConfig


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_rows_without_a_gradient_do_not_decay(optimizer: Literal["adamw", "sgd"]) -> None:
    learner = make(Finetune, FinetuneConfig(lr=0.1, optimizer=optimizer))
    start = learner.head.weight.detach().clone()
    learner.begin_task(TASKS[0], None)
    learner.train_task(TASKS[0])
    later = slice(CLASSES[0].stop, None)
    assert torch.equal(learner.head.weight[later], start[later])
    assert not torch.equal(learner.head.weight[: CLASSES[0].stop], start[: CLASSES[0].stop])
