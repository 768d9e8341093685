"""Record the product while it runs: results of its stages, inputs and outputs of every optimisation step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from tests.reference.composable.optimisation import Step
from tests.reference.composable.task_vectors import Setting
from trainables.sequence import IncrementalSequence
from trainables.task_vectors import TaskVectors


def method_of(s: Setting) -> tuple[str, dict[str, Any]]:
    """Return the product's method and hyperparameters of a setting."""
    strength = "beta" if s.ensemble else "alpha"
    hyperparameters = {
        strength: s.strength,
        f"{strength}_cls": s.cls,
        f"{strength}_cls_prior": s.prior,
        "lr": s.lr,
        "formulation": "official" if s.official else "paper",
        "regularise": s.regularise,
    }
    if s.kind == "lora":
        hyperparameters["rank"] = s.rank
    return f"{'iel' if s.ensemble else 'ita'}-{s.kind}", hyperparameters


def spied(patch: pytest.MonkeyPatch, place: str) -> list[Any]:
    """Return a list that gets every later result of a function of the product."""
    found: list[Any] = []
    module, name = place.rsplit(".", 1)
    original: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)

    def spy(*args: Any, **kwargs: Any) -> Any:
        found.append(original(*args, **kwargs))
        return found[-1]

    patch.setattr(place, spy)
    return found


@contextmanager
def steps_of(sequence: IncrementalSequence) -> Iterator[list[Step]]:
    """Record every step of AdamW in the form of the reference."""
    learner: Any = sequence.method
    steps: list[Step] = []

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        (group,) = optimizer.param_groups
        assert (type(optimizer), group["betas"], group["eps"], group["weight_decay"]) == (
            torch.optim.AdamW,
            (0.9, 0.999),
            1e-8,
            0.0,
        )
        values = named(learner.vectors, group["params"])
        gradients = named(learner.vectors, [parameter.grad for parameter in group["params"]])
        steps.append(Step(group["lr"] / learner.rule.config.lr, values, gradients, {}))

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        steps[-1].after = named(learner.vectors, optimizer.param_groups[0]["params"])

    hooks = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
    try:
        yield steps
    finally:
        for hook in hooks:
            hook.remove()


def named(vectors: TaskVectors, tensors: list[Tensor]) -> dict[str, Tensor]:
    """The optimiser's parameters, or their gradients, by weight and part: as copies, since they go on changing."""
    *of_tau, weight, bias = (tensor.detach().clone() for tensor in tensors)
    found: dict[str, Tensor] = {}
    if vectors.parametrisation == "lora":
        for names, a, b in zip(vectors.stacks, of_tau[::2], of_tau[1::2], strict=True):
            for place, name in enumerate(names):
                found |= {f"{name}.A": a[place], f"{name}.B": b[place]}
    else:
        part = {"full": "tau", "ia3": "l"}[vectors.parametrisation]
        found |= {f"{name}.{part}": value for (name,), value in zip(vectors.stacks, of_tau, strict=True)}
    return found | {"head.weight": weight, "head.bias": bias}
