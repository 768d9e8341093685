"""InfLoRA: its authors' `InfLoRA` on their ViT in the size of the embedded one, with our weights.

Its `incremental_train` is called as its `trainer.py` calls it. It passes over a task once before the training, in every
epoch, once after it and once more for cluster centres that it never uses; here each pass is one of ours. Its schedule
is late; runs that are not have ours in its place. Heads start where ours do, or as its own `nn.Linear` draws them where
a run says so.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.authors.parity.shared import SMALL, Learn, Program, Run, answer, put, tested
from trainables.backbones import glyph_vit
from trainables.data import Benchmark, Task
from trainables.heads import HEAD_STARTS
from trainables.methods.training import cosine
from trainables.randomness import make_generator

_OURS, _ITS_OWN = {"heads": "ours"}, {"heads": "its own"}
RUNS = tuple(
    Run(
        method="inflora",
        hyperparameters={"lr": 0.003, "epsilon": epsilon, "r": 10, "schedule": when, "head_start": start},
        theirs=draws,
    )
    for epsilon, when, start, draws in (
        (0.98, "late", "normal", _OURS),
        (0.98, "cosine", "normal", _OURS),
        (0.98, "late", "linear", _OURS),
        (0.98, "late", "linear", _ITS_OWN),
        (0.999, "cosine", "normal", _OURS),  # here DualGPM changes to its other regime
    )
)


@dataclass
class Passes:
    """A task's images, as its loader gives them, every pass in the order of ours: number, augmented image, label."""

    task: Task
    run: Run
    batch_size: int
    epochs: int

    def __post_init__(self) -> None:
        self.done = itertools.count()
        self.order = self._generator("finetune")  # goes on from epoch to epoch

    def _generator(self, stage: str) -> torch.Generator:
        return make_generator(self.run.seed, stage, self.task.index)

    def __len__(self) -> int:
        return -(-len(self.task.train) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        number = next(self.done)
        training = 1 <= number <= self.epochs
        generator = self.order if training else self._generator("moments-after" if number else "moments-before")
        for x, y, rows in self.task.train.batches(self.batch_size, generator, shuffle=training):
            yield rows, x, y


@dataclass
class Manager:
    """What its `incremental_train` asks of a data manager."""

    benchmark: Benchmark
    run: Run

    def get_task_size(self, t: int) -> int:
        """Return the number of classes of a task, counted from 0."""
        return len(self.benchmark.tasks[t].classes)

    def get_dataset(self, classes: Any, *, source: str, mode: str) -> Passes:
        """Return the images of the task that the last of some classes belongs to."""
        (task,) = (task for task in self.benchmark.tasks if int(classes[-1]) in task.classes)
        return Passes(task, self.run, self.benchmark.spec.batch_size, self.benchmark.spec.epochs)


def _with_our_weights(vit: Any) -> Any:
    missing, unexpected = vit.load_state_dict(load_file(glyph_vit.WEIGHTS), strict=False)
    assert not unexpected and all("lora" in name or name.endswith("_grow") for name in missing)
    return vit


def _arguments(run: Run, benchmark: Benchmark) -> dict[str, Any]:
    lr, epochs = run.hyperparameters["lr"], benchmark.spec.epochs
    return {
        **{"memory_size": 0, "memory_per_class": 0, "fixed_memory": True, "device": ["cpu"], "num_workers": 0},
        **{"net_type": "sip", "optim": "adam", "EPSILON": 1e-8, "dataset": "digits", "embd_dim": SMALL["embed_dim"]},
        **{"init_epoch": epochs, "init_lr": lr, "init_lr_decay": 0.1, "init_weight_decay": 0.0},
        **{"epochs": epochs, "lrate": lr, "lrate_decay": 0.1, "weight_decay": 0.0},
        **{"batch_size": benchmark.spec.batch_size, "rank": run.hyperparameters["r"], "lame": 1.0},
        **{"lamb": run.hyperparameters["epsilon"], "total_sessions": len(benchmark.tasks)},
        "init_cls": len(benchmark.tasks[0].classes),
    }


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its `InfLoRA`."""
    sys.modules["ipdb"] = types.ModuleType("ipdb")  # a debugger that it imports
    method: Any = import_module("methods.inflora")
    networks: Any = import_module("models.sinet_inflora")
    networks._create_vision_transformer = lambda name, pretrained, n_tasks, rank, **sizes: _with_our_weights(
        networks.ViT_lora_co(**SMALL, num_classes=0, n_tasks=n_tasks, rank=rank)
    )
    method.deepcopy = lambda moment: moment.numpy().copy()  # of a tensor numpy 2 gives it a tensor, numpy 1 an array
    if run.hyperparameters["schedule"] == "cosine":
        method.CosineSchedule = lambda optimizer, K: LambdaLR(optimizer, lambda epoch: cosine(min(epoch, K - 1), K))
    method.DataLoader = lambda passes, **_: passes
    learner = method.InfLoRA(_arguments(run, benchmark))
    if run.theirs["heads"] == "ours":
        start = HEAD_STARTS[run.hyperparameters["head_start"]]
        for task, head in zip(benchmark.tasks, learner._network.classifier_pool, strict=True):
            generator = make_generator(run.seed, "head", task.index)
            put(start(len(task.classes), SMALL["embed_dim"], generator), head.parameters())
    manager = Manager(benchmark, run)

    def learn(task: Task) -> list[float]:
        learner.incremental_train(manager)
        learner.after_task()
        return tested(learner._network.eval().interface, benchmark, task)

    return learn


PROGRAM = Program("benchmarks.authors.parity.inflora", "TAUSEARCH_INFLORA", RUNS)

if __name__ == "__main__":
    answer(build)
