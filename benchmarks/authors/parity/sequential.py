"""mammoth's SGD, EWC, LwF-MC and DER++ on its own ViT with our weights.

The learning rate follows our schedule, because mammoth has none for them. The loss is the cross-entropy over all
classes. In "local" runs the first loss of each step, that of the task's own images, is over the task's classes.
"""

from __future__ import annotations

import sys
import types
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.authors.checkout import make_runnable
from benchmarks.authors.parity.mammoth import CHECKOUT, arguments, learner
from benchmarks.authors.parity.shared import SMALL, Learn, Program, Run, answer, joined_heads
from benchmarks.authors.theirs import Dataset
from trainables.backbones import glyph_vit
from trainables.data import Benchmark, Task
from trainables.methods.training import cosine
from trainables.randomness import make_generator

CLASSES = {
    "finetune": ("sgd", "Sgd"),
    "ewc": ("ewc_on", "EwcOn"),
    "lwf-mc": ("lwf_mc", "LwFMC"),
    "derpp": ("derpp", "Derpp"),
}


def _both_losses(method: str, theirs: dict[str, Any], **ours: Any) -> list[Run]:
    given = {"optimizer": "sgd", **ours}
    return [
        Run(method=method, hyperparameters={**given, "cross_entropy": s}, theirs=theirs) for s in ("global", "local")
    ]


RUNS = (
    *_both_losses("finetune", {}, lr=0.01),
    *_both_losses("ewc", {"e_lambda": 10.0, "gamma": 1.0}, lr=0.01, epsilon=10.0, gamma=1.0),
    Run(method="lwf-mc", hyperparameters={"optimizer": "sgd", "lr": 0.03, "wd": 1e-4}, theirs={"wd_reg": 1e-4}),
    *_both_losses(
        "derpp",
        {"alpha": 0.3, "beta": 0.8, "buffer_size": 100, "minibatch_size": 32},
        **{"lr": 0.03, "alpha": 0.3, "beta": 0.8, "buffer_size": 100},
    ),
)


class Loss:
    """Cross-entropy over all classes; in the first call of a step over the task's, if there is one."""

    def __init__(self) -> None:
        self.task: Task | None = None

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        if self.task is None:
            return F.cross_entropy(outputs, labels)
        task, self.task = self.task, None
        return F.cross_entropy(outputs[:, task.rows], labels - task.classes.start)


def _model(run: Run, benchmark: Benchmark, dataset: Dataset, loss: Loss) -> Any:
    """Build its model around its ViT, with our weights and the head that ours starts with."""
    stub: Any = types.ModuleType("utils.kornia_utils")  # for a package that only its batched augmentation needs
    stub.KorniaAugNoGrad, stub.to_kornia_transform = type("KorniaAugNoGrad", (), {}), None
    sys.modules["utils.kornia_utils"] = stub
    module, name = CLASSES[run.method]
    found: Any = import_module(f"models.{module}")
    found.get_dataset = lambda _: dataset
    given = arguments(run, benchmark, optimizer="sgd", **run.theirs)
    net = import_module("backbone.vit").VisionTransformer(**SMALL, num_classes=dataset.N_CLASSES)
    weight, bias = joined_heads(run, benchmark, net.embed_dim)
    head = {"head.heads.0.weight": weight, "head.heads.0.bias": bias}
    net.load_state_dict({**load_file(glyph_vit.WEIGHTS), **head})
    return getattr(found, name)(net, loss, given, None, dataset)


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its model of a method."""
    dataset, loss, epochs = Dataset(benchmark), Loss(), benchmark.spec.epochs
    model, local = _model(run, benchmark, dataset, loss), run.hyperparameters.get("cross_entropy") == "local"

    def begin(task: Task) -> None:
        augmentation = make_generator(run.seed, "theirs", task.index)
        model.transform = lambda image: task.train.prepare(image[None].to(torch.uint8), augmentation)[0]

    def before_step(task: Task, epoch: int) -> None:
        model.opt.param_groups[0]["lr"] = run.hyperparameters["lr"] * cosine(epoch, epochs)
        loss.task = task if local else None

    return learner(model, run, benchmark, dataset, predict=model.net, begin=begin, before_step=before_step)


PROGRAM = Program("benchmarks.authors.parity.sequential", CHECKOUT, RUNS, make_runnable)

if __name__ == "__main__":
    answer(build)
