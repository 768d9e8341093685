"""What models of mammoth are given and asked: arguments, batches, and its hooks as its training loop calls them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.authors.parity.shared import Learn, Run, tested
from benchmarks.authors.theirs import EVERY, Dataset
from trainables.data import Benchmark, Task
from trainables.evaluation import Predict
from trainables.randomness import make_generator

CHECKOUT = "TAUSEARCH_MAMMOTH"  # environment variable


@dataclass
class Loader:
    """Our batches, as its loader gives them: augmented, labels, and the raw image."""

    task: Task
    batch_size: int
    generator: torch.Generator

    def __len__(self) -> int:
        return -(-len(self.task.train) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for x, y, rows in self.task.train.batches(self.batch_size, self.generator, shuffle=True):
            yield x, y, self.task.train.pixels(rows)  # type: ignore[misc]


def arguments(run: Run, benchmark: Benchmark, **own: Any) -> argparse.Namespace:
    """Return what every model reads, and what one reads alone, which wins."""
    import_module("utils.conf").set_random_seed(run.seed)
    usual = {
        **{"lr": run.hyperparameters["lr"], "lr_scheduler": None, "seed": run.seed},
        **{"batch_size": benchmark.spec.batch_size, "n_epochs": benchmark.spec.epochs},
    }
    return argparse.Namespace(**(EVERY | usual | own))


def learner(
    model: Any,
    run: Run,
    benchmark: Benchmark,
    dataset: Dataset,
    *,
    predict: Predict,
    begin: Callable[[Task], None] = lambda task: None,
    before_step: Callable[[Task, int], None] = lambda task, epoch: None,
    loader: type[Loader] = Loader,
) -> Learn:
    """Return what learns one task after the other with a model of mammoth, which takes `dataset` for a data set.

    `predict` is tested: images to logits, of which those of classes not seen yet are left out. `begin` is called after
    the model's own beginning of a task, `before_step` before every step with the task and the epoch.
    """

    def learn(task: Task) -> list[float]:
        generator = make_generator(run.seed, "theirs" if run.own_draws else "finetune", task.index)
        batches = dataset.train_loader = loader(task, benchmark.spec.batch_size, generator)
        model.meta_begin_task(dataset)
        begin(task)
        model.net.train()
        for epoch in range(benchmark.spec.epochs):
            for batch in batches:
                before_step(task, epoch)
                model.meta_observe(*batch, epoch=epoch)
        model.meta_end_task(dataset)
        model.net.eval()
        return tested(lambda x: predict(x)[:, : task.classes.stop], benchmark, task)

    return learn
