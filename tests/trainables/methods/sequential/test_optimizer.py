"""The optimiser of the sequential methods, and the scale by which they diverge."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch

from tests.support.methods.tiny_trials import learn
from tests.trainables.methods.sequential.tiny_sequence import TASKS, make
from trainables.methods.sequential import learner as module
from trainables.methods.sequential.finetune import Finetune, FinetuneConfig


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_rows_without_a_gradient_do_not_decay(optimizer: Literal["adamw", "sgd"]) -> None:
    learner = make(Finetune, FinetuneConfig(lr=0.1, optimizer=optimizer))
    start = learner.head.weight.detach().clone()
    learn(learner, TASKS[0])
    assert torch.equal(learner.head.weight[3:], start[3:]) and not torch.equal(learner.head.weight[:3], start[:3])


@pytest.mark.parametrize(("softmax", "classes"), [("local", 3), ("global", 6)])
def test_a_loss_has_blown_up_by_the_chance_loss_of_its_own_softmax(
    softmax: Literal["local", "global"], classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, given, fit = make(Finetune, FinetuneConfig(lr=0.1, cross_entropy=softmax)), dict[str, Any](), module.fit
    monkeypatch.setattr(module, "fit", lambda *args, **options: given.update(options) or fit(*args, **options))
    learn(learner, TASKS[0])
    assert given == {"chance_loss": pytest.approx(math.log(classes)), "penalty": learner.penalty}
