"""TMC: its authors' linear ViT, square loss and penalty, with our weights.

Theirs trains each task from the same start and averages the saved weights, as its `main.py` does. Its head is fixed at
random draws, which are ours, and the learning rate follows our schedule.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import SMALL, Learn, Program, Run, answer, put, tested
from trainables.backbones import glyph_vit
from trainables.data import Benchmark, Task
from trainables.heads import Head
from trainables.methods import Context
from trainables.methods.training import cosine, shuffled_batches

RUNS = (Run(method="tmc", hyperparameters={"lr": 0.003, "kappa": 15.0, "penalty": 1e-5}),)


def _network(head: Head) -> Any:
    """Build their linear ViT with our weights and our random classifier."""
    network = import_module("models.linear_vit").Linear_Vision_Transformer(
        *(False, 0), **SMALL, num_classes=len(head[1])
    )
    network.load_pretrained_weights(load_file(glyph_vit.WEIGHTS), deletes=["head.weight", "head.bias"])
    put(head, (network.head.weight, network.head.bias))
    return network.eval()


def _penalty(parts: Iterable[Tensor]) -> Tensor:
    """Their `l2_penalty`, of which the module cannot be imported without its data sets."""
    return (1e-6 + sum((part.square().sum() for part in parts), torch.zeros(()))).sqrt()


def _train(network: Any, task: Task, context: Context, given: dict[str, Any]) -> dict[str, Tensor]:
    """Train the tangents on one task as their `train_epoch` does; returns all weights."""
    for name, part in network.named_parameters():
        part.requires_grad_("linear_" in name)
    trained = [part for part in network.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=given["lr"], weight_decay=0.0)
    batches = shuffled_batches(task, context)
    for epoch in range(context.epochs):
        optimizer.param_groups[0]["lr"] = given["lr"] * cosine(epoch, context.epochs)
        for x, y, _ in batches(epoch):
            value, along = network(x)
            target = given["kappa"] * torch.eye(value.shape[1])[y]
            loss = torch.nn.functional.mse_loss(along + value, target) + given["penalty"] * _penalty(trained)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its linear ViT."""
    ours: Any = sequence(run, benchmark).method
    network = _network(ours.model.head)
    start = {name: value.clone() for name, value in network.state_dict().items()}
    learned: list[dict[str, Tensor]] = []

    def learn(task: Task) -> list[float]:
        network.load_state_dict(start)
        learned.append(_train(network, task, ours.context, run.hyperparameters))
        network.load_state_dict({name: sum(each[name] for each in learned) / len(learned) for name in start})
        return tested(lambda x: sum(network(x))[:, : task.classes.stop], benchmark, task)

    return learn


PROGRAM = Program("benchmarks.authors.parity.tmc", "TAUSEARCH_TMC", RUNS)

if __name__ == "__main__":
    answer(build)
