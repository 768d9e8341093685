"""SEED: its authors' `Appr`, whose experts are the embedded ViT with a bottleneck in place of their ResNets.

Its `train_loop` and `predict_class_bayes` are called as its `main_incremental.py` calls them. Its learning rate steps
down after 60 and 30 epochs, which five epochs never reach; here it follows our schedule, and weight decay is 0.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.authors.feeding import torchvision_transform
from benchmarks.authors.parity.shared import Learn, Program, Run, answer, put, tested
from trainables.backbones import Backbone
from trainables.data import Benchmark, ImageSet, Task
from trainables.data.transforms.normalisation import Transform
from trainables.heads import Head, new_head, uniform_head
from trainables.methods.training import cosine
from trainables.randomness import make_generator

_USUAL = {"experts": 2, "optimizer": "sgd", "flip": True}
RUNS = tuple(
    Run(method="seed", hyperparameters={"lr": 0.01, "features": features, **_USUAL}, own_draws=own)
    for features, own in ((64, False), (64, True), (16, False))
)


class Expert(nn.Module):
    """What its approach asks of a backbone: features, and logits where it has given it an `fc`.

    Args:
        width: S, the width of the features.
        next_head: Function that returns where the next `fc` starts; None leaves it where torch's `Linear` starts.
    """

    def __init__(self, width: int, next_head: Callable[[], Head | None]) -> None:
        super().__init__()
        self.vit = Backbone().load()
        self.fc: nn.Module = nn.Identity()
        self.bottleneck = nn.Linear(self.vit.num_features, width)
        self.next_head = next_head  # a function is not copied with the expert: all take from one source

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fc" and isinstance(value, nn.Linear) and (head := self.next_head()) is not None:
            put(head, value.parameters())
        super().__setattr__(name, value)

    def forward(self, x: Tensor, return_features: bool = False) -> Any:
        """Return what `fc` makes of the features, and the features if asked for."""
        features = self.bottleneck(self.vit(x))
        return (self.fc(features), features) if return_features else self.fc(features)


class Ensemble(nn.Module):
    """Its `ExtractorEnsemble`, which knows ResNets alone."""

    def __init__(self, first_expert: Callable[..., Expert], width: int, classes: list[int]) -> None:
        super().__init__()
        self.bbs, self.bb_fun = nn.ModuleList(), first_expert
        self.taskcla, self.task_offset = list(enumerate(classes)), [0]
        self.num_features, self.device = width, "cpu"

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of all experts, `(b, experts, S)`."""
        return torch.stack([expert(x) for expert in self.bbs], 1)


class Loader:
    """A set's images, as its loader gives them, and what it reads of the data behind a loader."""

    num_workers = 0

    def __init__(self, images: ImageSet, batch_size: int, generator: torch.Generator, plain: Transform) -> None:
        assert isinstance(images.images, Tensor)
        self.passes = partial(images.batches, batch_size, generator, shuffle=True)
        self.dataset = self
        self.images, self.labels = images.images[:, 0].numpy(), images.labels.tolist()
        self.transform = torchvision_transform(plain, images.images.shape[2])

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y, _ in self.passes():
            yield x, y.clone()  # it subtracts from labels in place


def _loaders(task: Task, run: Run, batch_size: int) -> tuple[Loader, Loader]:
    """Return what it trains on and what it validates on: one image, since nothing depends on it but its transform."""
    generator = make_generator(run.seed, "theirs" if run.own_draws else "finetune", task.index)
    one = ImageSet(task.train.images[:1], task.train.labels[:1], task.unaugmented.transform)  # type: ignore[index]
    plain = task.unaugmented.transform
    return Loader(task.train, batch_size, generator, plain), Loader(one, 1, torch.Generator(), plain)


def _ensemble(run: Run, benchmark: Benchmark) -> Ensemble:
    width, tasks = run.hyperparameters["features"], benchmark.tasks
    heads = (new_head(len(task.classes), width, make_generator(run.seed, "head", task.index)) for task in tasks)

    def first_expert(**_: Any) -> Expert:
        expert = Expert(width, (lambda: None) if run.own_draws else lambda: next(heads))
        if not run.own_draws:
            generator = make_generator(run.seed, "bottleneck", 1)
            put(uniform_head(width, expert.vit.num_features, generator), expert.bottleneck.parameters())
        return expert

    return Ensemble(first_expert, width, [len(task.classes) for task in tasks])


def _appr(run: Run, benchmark: Benchmark) -> Any:
    """Build its `Appr` with our schedule."""
    theirs, epochs, given = import_module("approach.seed").Appr, benchmark.spec.epochs, run.hyperparameters

    class WithOurSchedule(theirs):  # type: ignore[misc, valid-type]  # its base is imported here
        def _get_optimizer(self, *arguments: Any, **options: Any) -> Any:
            optimizer, _ = super()._get_optimizer(*arguments, **options)
            return optimizer, LambdaLR(optimizer, lambda epoch: cosine(min(epoch, epochs - 1), epochs))

    options = {"nepochs": epochs, "ftepochs": epochs, "lr": given["lr"], "clipgrad": 1.0, "alpha": 0.99, "tau": 3.0}
    ensemble = _ensemble(run, benchmark)
    return WithOurSchedule(ensemble, "cpu", **options, max_experts=given["experts"], use_multivariate=True)


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its `Appr`."""
    learner = _appr(run, benchmark)

    def learn(task: Task) -> list[float]:
        with contextlib.redirect_stdout(io.StringIO()):
            learner.train_loop(task.index - 1, *_loaders(task, run, benchmark.spec.batch_size))
        return tested(predict, benchmark, task)

    def predict(x: Tensor) -> Tensor:
        """Return one at the class that it finds and zero elsewhere."""
        _, found = learner.predict_class_bayes(len(learner.model.task_offset) - 2, learner.model(x))
        return nn.functional.one_hot(found, len(learner.experts_distributions[0]))

    return learn


PROGRAM = Program("benchmarks.authors.parity.seed", "TAUSEARCH_SEED", RUNS, lambda checkout, _: checkout / "src")

if __name__ == "__main__":
    answer(build)
