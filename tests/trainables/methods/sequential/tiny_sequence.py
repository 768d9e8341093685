"""Three tasks of three, two and one class, and sequential methods whose gradients reach the ViT, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from tests.support.methods.tiny_trials import EXACT, Weights, plain_training, tiny_context, tiny_tasks
from tests.support.tiny_vit import make_tiny_vit
from trainables.data import Task
from trainables.methods import Context

TASKS = tiny_tasks((3, 2, 1), per_class=3)
CONTEXT = tiny_context(TASKS, epochs=3, seed=5)  # batches of 4, 4 and 1; of 4 and 2; of 3
LARGER = 30.0  # times the usual start of a classifier, so that gradients reach the ViT
_Learner = TypeVar("_Learner")

plain_sgd = partial(plain_training, context=CONTEXT, optimizer="sgd")
tiny_vit = cache(make_tiny_vit)  # for `functional_call`, which brings the weights and changes nothing


def make(kind: Callable[[Context, Any], _Learner], config: Any) -> _Learner:
    learner: Any = kind(CONTEXT, config)
    for part in learner.head.parameters():
        part.data = LARGER * part.data.double()
    return learner


def weights_of(learner: Any) -> Weights:
    """All weights as they are, under the names of the state."""
    return {name: weight.detach().clone() for name, weight in learner.weights.items()}


def logits_of(weights: Weights, x: Tensor) -> Tensor:
    """Logits of all classes, `(b, C)`."""
    model = {name.removeprefix("model/"): value for name, value in weights.items() if name.startswith("model/")}
    return F.linear(functional_call(tiny_vit(), model, x), weights["heads/weight"], weights["heads/bias"])


def batches_in_order(task: Task, generator: torch.Generator) -> Any:
    return task.train.batches(CONTEXT.batch_size, generator, shuffle=False)


def assert_same(learner: Any, weights: Weights) -> None:
    """All weights of a method are those of the plain side."""
    got = weights_of(learner)
    assert got.keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(got[name], value, **EXACT, msg=lambda text, name=name: f"{name}: {text}")


def local_cross_entropy(logits: Tensor, labels: Tensor, classes: range) -> Tensor:
    """-1/b sum_n log p(y_n), the softmax over the given classes alone; written out."""
    total = logits.new_zeros(())
    for row, label in zip(logits, labels.tolist(), strict=True):
        total = total - row[label] + torch.stack([row[k].exp() for k in classes]).sum().log()
    return total / len(labels)
