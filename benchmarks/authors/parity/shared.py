"""What the programs of this folder share: a run, a process for each side of it, and the row that it makes.

A module here builds what learns one task after the other in the authors' code, and says which runs it is for. Theirs
begins where ours begins (heads, prompts, bottleneck) and reads our batches, so that the two find the same up to
rounding or one of them is wrong; unless a run asks for its own draws.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import torch
from torch import Tensor

from benchmarks.authors.processes import python
from trainables.data import Benchmark, Task, build_benchmark, get_source
from trainables.evaluation import Predict, accuracies
from trainables.heads import Head, new_head
from trainables.metrics import average_accuracy, forgetting
from trainables.process import settle
from trainables.randomness import make_generator

SEEDS = (0, 1, 2)
SMALL = {"img_size": 32, "patch_size": 8, "in_chans": 1, "embed_dim": 64, "depth": 4, "num_heads": 4}  # embedded ViT

Learn = Callable[[Task], list[float]]  # a task to the accuracies, in percent, on it and those before it
Build = Callable[["Run", Benchmark], Learn]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A method on digits: all training images, tested."""

    method: str  # its name here
    hyperparameters: dict[str, Any]  # those of ours
    theirs: dict[str, Any] = field(default_factory=dict)  # what theirs is told beside them, by its own names
    own_draws: bool = False  # whether theirs draws starts and batches itself
    seed: int = 0  # the seed of both


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a run finds."""

    accuracies: list[list[float]]  # those on the tasks seen so far, in percent, after each task
    seconds: float  # CPU seconds from the first task to the last evaluation; on one thread, what an idle machine takes


def _as_it_is(checkout: Path, folder: Path) -> Path:
    return checkout


@dataclass(frozen=True)
class Program:
    """The authors' code of some methods.

    Attributes:
        module: The module that runs it.
        checkout: The environment variable that names a checkout of it.
        runs: What is compared.
        prepare: Function of the checkout and a folder that does not exist; returns where code that runs lies.
    """

    module: str
    checkout: str
    runs: tuple[Run, ...]
    prepare: Callable[[Path, Path], Path] = _as_it_is

    def compare(self) -> list[dict[str, Any]]:
        """Return a row per run: both programs over the seeds."""
        with self.code() as code:
            if code is None:
                return [{"against the authors' code": f"none: {self.checkout} names no checkout of it"}]
            return [self._row(run, code) for run in self.runs]

    @contextmanager
    def code(self) -> Iterator[Path | None]:
        """Code of theirs that runs, for as long as the block does; None if there is no checkout of it."""
        checkout = os.environ.get(self.checkout)
        with tempfile.TemporaryDirectory() as folder:
            yield self.prepare(Path(checkout), Path(folder, "code")) if checkout else None

    def _row(self, run: Run, code: Path) -> dict[str, Any]:
        seeded = (replace(run, seed=seed) for seed in SEEDS)
        theirs, mine = zip(*((self.theirs(each, code), ours(each)) for each in seeded), strict=True)
        return {
            "method": run.method,
            "hyperparameters": listed(run.hyperparameters),
            "theirs is told": listed(run.theirs | ({"draws": "its own"} if run.own_draws else {})),
            **_measured("theirs", theirs),
            **_measured("ours", mine),
        }

    def theirs(self, run: Run, code: Path) -> Found:
        """Run theirs in a process of its own."""
        return _in_a_process(self.module, json.dumps(asdict(run)), str(code))


def ours(run: Run) -> Found:
    """Run ours in a process of its own."""
    return _in_a_process("benchmarks.authors.parity.ours", json.dumps(asdict(run)))


def _in_a_process(module: str, *arguments: str) -> Found:
    printed = python("-W", "ignore", "-m", module, *arguments, threads=1)
    return Found(**json.loads(printed.splitlines()[-1]))


def _measured(program: str, found: Sequence[Found]) -> dict[str, Any]:
    return {
        program: summary(found),
        f"{program}, by seed": [round(average_accuracy(each.accuracies[-1]), 3) for each in found],
        f"CPU seconds, {program}": median(each.seconds for each in found),
    }


def listed(values: dict[str, Any]) -> str:
    """Return names and values as a row has them."""
    return ", ".join(f"{name}: {value}" for name, value in values.items())


def summary(found: Iterable[Found]) -> str:
    """Return final accuracy, its sample standard deviation over the seeds, and forgetting."""
    matrices = [each.accuracies for each in found]
    final = [average_accuracy(rows[-1]) for rows in matrices]
    return f"{mean(final):.2f} +- {stdev(final):.2f} / {mean(map(forgetting, matrices)):.2f}"


def put(values: Iterable[Tensor], into: Iterable[Tensor]) -> None:
    """Overwrite parameters in place."""
    with torch.no_grad():
        for value, parameter in zip(values, into, strict=True):
            parameter.copy_(value)


def joined_heads(run: Run, benchmark: Benchmark, width: int, start: Callable[..., Head] = new_head) -> Head:
    """Return where ours starts the heads of all tasks, as one over all classes: `(C, width)` and `(C,)`."""
    tasks = benchmark.tasks
    parts = [start(len(task.classes), width, make_generator(run.seed, "head", task.index)) for task in tasks]
    weights, biases = zip(*parts, strict=True)
    return torch.cat(weights), torch.cat(biases)


def tested(predict: Predict, benchmark: Benchmark, task: Task) -> list[float]:
    """Return the accuracies on a task and those before it, of a function of images that returns logits."""
    with torch.no_grad():
        return accuracies(predict, benchmark.evaluation[: task.index], "cpu")


def answer(build: Build) -> None:
    """Do what a process was started for: read the run and where the code lies, learn all tasks, print what is found."""
    run = Run(**json.loads(sys.argv[1]))
    sys.path[:0] = sys.argv[2:]
    settle(1)
    torch.manual_seed(run.seed)  # of theirs: ours draws nothing from it
    benchmark = build_benchmark(get_source("digits"), "final")
    learn = build(run, benchmark)
    start = time.process_time()
    rows = [learn(task) for task in benchmark.tasks]
    print(json.dumps(asdict(Found(accuracies=rows, seconds=time.process_time() - start))))
