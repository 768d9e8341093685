"""What a trial, and a search of 24 trials, costs on one GPU, for the shape of each of the paper's datasets.

Two processes share the card, as two trials with `--gpus-per-trial 1/2`, and do the same at the same time. Each runs two
tasks of drawn pictures (`drawn.Cut` says how many) with ViT-B/16 of random weights. `scaling` says how their seconds
grow to a whole dataset. Pre-consolidation is computed once into a cache of each process, in parts that are timed, and
each method then finds it there, as all trials but the first do. Its Fisher is taken over fewer images. Accuracies mean
nothing here. Pictures are files as in the product, so the waits for them are real, for so many CPU threads as a case
says.

A case that would begin after `BUDGET` seconds gets a row that says so.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.arithmetic import NAME, random_weights
from benchmarks.gpu.drawn import TASKS, Counts, Cut, Shape, benchmark, draw
from benchmarks.gpu.scaling import Measured, gpu_hours, whole
from benchmarks.planning.table import DATASETS
from benchmarks.stopwatch import Stopwatch
from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.config import Precision
from trainables.data import Benchmark, Task
from trainables.data.images import narrow
from trainables.device import claim, peak_bytes, release
from trainables.metrics import CACHE_HIT, WAITING
from trainables.preconsolidation import consolidation
from trainables.process import settle
from trainables.sequence import IncrementalSequence

BUDGET = 480.0  # seconds after which no further case begins; the last may take 20
TRIALS, AT_ONCE = 24, 2
THREADS = 1  # CPU threads of a trial, the default of `--cpus-per-trial`
MORE_THREADS = 8  # half of 16 cores
PATIENCE = 120.0  # seconds until a case is done
PREPARED, METHODS = "ita-lora", ("ita-lora", "ita-fft", "iel-lora", "finetune")
IN_MEMORY, SMALL = "cifar100", Cut(images=40, first=20, evaluated=10, epochs=2, fisher=8)
MOST_DRAWING = 16
GIB = 2**30
Figures = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What both processes do at the same time; without a method they compute the pre-consolidation."""

    dataset: str
    method: str | None
    precision: Precision = "bf16"
    threads: int = THREADS


CASES = (
    *(Case(dataset, method) for dataset in DATASETS for method in (None, *METHODS)),
    *(Case("imagenet_r", method, threads=MORE_THREADS) for method in (None, "ita-lora", "finetune")),
    *(Case("imagenet_r", method, "fp32") for method in ("ita-lora", "finetune")),
)


@dataclass
class Place:
    """Where a process measures: what it reads and computes with."""

    root: Path  # has the drawn files
    cache: Path  # its own
    backbone: Backbone
    device: torch.device
    cut: Cut = Cut()

    def measure(self, case: Case) -> Figures:
        """Do a case; one that fails says why."""
        settle(case.threads)
        release()
        try:
            return self._prepared(case) if case.method is None else self._trained(case)
        except (RuntimeError, ValueError, ArithmeticError) as error:  # out of memory, and diverged
            return {"fault": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"}

    def _sequence(self, case: Case, **further: Any) -> IncrementalSequence:
        space = load_space(case.method or PREPARED, case.dataset)
        values = {**space.fixed, **space.start}
        shared = {name: value for name, value in _probing(case.dataset).items() if name in values}
        return IncrementalSequence(
            self._benchmark(case.dataset),
            case.method or PREPARED,
            values | shared,
            backbone=self.backbone,
            device=self.device,
            precision=case.precision,
            cache=self.cache,
            **further,
        )

    def _benchmark(self, dataset: str) -> Benchmark:
        return _built(self.root, dataset, self.cut, self.backbone)

    def _prepared(self, case: Case) -> Figures:
        """Compute the pre-consolidation of both tasks; return the seconds of its parts."""
        sequence, watch = self._sequence(case), Stopwatch(time.perf_counter)
        (provider,) = sequence.preparer.providers
        rest = []
        parts = [(consolidation, "align", "alignment"), (consolidation, "_curvature", "fisher")]
        with watch.watching(parts), _of_few(self.cut.fisher):
            for number in range(1, TASKS + 1):
                watch.seconds.clear()
                watch.begin("rest")
                provider.task(number)
                watch.end()
                rest.append(watch.seconds.pop("rest"))
        assert not provider.hit, "it was computed before"
        sequence.close()
        return {"first_statistics": rest[0], "statistics": rest[1], **watch.seconds, "peak": peak_bytes() / GIB}

    def _trained(self, case: Case) -> Figures:
        """Run both tasks; return the seconds of the second, and of an epoch of the first."""
        ends: list[float] = []
        epochs: list[float] = []
        sequence = self._sequence(case, on_epoch=lambda epoch: ends.append(time.perf_counter()))
        for _ in range(TASKS):
            ends.clear()
            row = sequence.run_next_task()
            epochs.append((ends[-1] - ends[0]) / (len(ends) - 1))
        sequence.close()
        return {
            "begin": row["seconds/preconsolidation"],
            "training": row["seconds/training"],
            "waiting": row[WAITING],
            "first_epoch": epochs[0],
            "epoch": epochs[1],
            "evaluation": row["seconds/evaluation"],
            "hit": row.get(CACHE_HIT, 1.0),
            "peak": peak_bytes() / GIB,
        }


@cache
def _probing(dataset: str) -> dict[str, Any]:
    """Return the hyperparameters of pre-consolidation that all methods are given, so that one has computed it."""
    fixed = load_space(PREPARED, dataset).fixed
    return {name: fixed[name] for name in ("lr_pre", "epochs_pre")}


@cache
def _built(root: Path, dataset: str, cut: Cut, backbone: Backbone) -> Benchmark:
    return benchmark(root, dataset, cut, backbone)


def _of_few(fisher_images: int) -> AbstractContextManager[Any]:
    """Return a context in which the Fisher sees some images of a task alone."""
    curvature = consolidation._curvature

    def of_few(task: Task, *args: Any) -> Any:
        images, labels = task.train.images, task.train.labels
        count = fisher_images if task.index == TASKS else fisher_images // 4
        rows = torch.linspace(0, len(labels) - 1, min(count, len(labels))).long()  # of all classes
        few = replace(task.train, images=narrow(images, rows), labels=labels[rows])
        return curvature(replace(task, train=few), *args)

    return patch.object(consolidation, "_curvature", of_few)


def row_of(case: Case, found: Sequence[Figures], prepared: Figures, cut: Cut, at_once: int = AT_ONCE) -> Figures:
    """Return what is kept of a case: what the processes found, on average, and what follows for a whole trial.

    `prepared` has the seconds of the parts of its pre-consolidation; zeros for a method without.
    """
    about = {**asdict(case), "trials on one GPU": at_once}
    faults = [each["fault"] for each in (*found, prepared) if "fault" in each]
    if not faults and any(each["hit"] < 1 for each in found):
        faults = ["the cache did not have the pre-consolidation"]
    if faults:
        return about | {"fault": faults[0]}
    counts, shape = Counts.of(case.dataset, cut), Shape.of(case.dataset)
    images = counts.classes * counts.train[1]
    seconds = {name: statistics.mean(each[name] for each in found) for name in found[0]} | {
        "peak": max(each["peak"] for each in (*found, prepared))
    }
    had = {
        "images": images,
        "first_images": counts.classes * counts.train[0],
        "epochs": cut.epochs,
        "evaluated": TASKS * counts.classes * counts.test,
        "classes": TASKS * counts.classes,
        "fisher_images": min(cut.fisher, images),
    }
    figures = about | had | {name: value for name, value in prepared.items() if name != "peak"} | seconds
    tasks, share = whole(Measured.of(figures), shape), 1 / at_once
    return figures | {
        "trial: pre-consolidation": sum(task.shared for task in tasks),
        "trial: beginning": sum(task.begin for task in tasks),
        "trial: training": sum(task.training for task in tasks),
        "trial: evaluation": sum(task.evaluation for task in tasks),
        **{
            f"GPU hours{', early stopping' * early}{'' if shared else ', not shared'}": gpu_hours(
                tasks, TRIALS, share, shared=shared, early_stopping=early
            )
            for shared in (True, False)
            for early in (False, True)
        },
    }


def rows(cases: Sequence[Case], measure: Any, cut: Cut, at_once: int = AT_ONCE) -> list[Figures]:
    """Return a row for each case with a method; `measure` returns what each process found of a case.

    Before the methods of a dataset comes its pre-consolidation, for each number of threads.
    """
    begun, prepared, made = time.perf_counter(), {}, []
    for case in cases:
        late = time.perf_counter() - begun > BUDGET
        found = [{"fault": f"left out: {BUDGET:.0f} s had passed"}] if late else measure(case)
        print(f"{time.perf_counter() - begun:.0f} s: {case} {found[0].get('fault', '')}", flush=True)
        if case.method is None:
            prepared[case.dataset, case.threads] = _mean(found)
            continue
        parts = prepared[case.dataset, case.threads]
        nothing = dict.fromkeys(("first_statistics", "statistics", "alignment", "fisher", "peak"), 0.0)
        made.append(row_of(case, found, nothing if case.method == "finetune" else parts, cut, at_once))
    return made


def _mean(found: Sequence[Figures]) -> Figures:
    faults = [each for each in found if "fault" in each]
    return faults[0] if faults else {name: statistics.mean(each[name] for each in found) for name in found[0]}


def _serve(pipe: Connection, share: float, root: Path, backbone: Backbone, cut: Cut) -> None:
    """Measure what comes through a pipe, until None comes; before, something small that is not timed."""
    settle(1)
    device = claim(share)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as unused:
        Place(root, Path(unused), backbone, device, SMALL).measure(Case(IN_MEMORY, None))
        place = Place(root, Path(folder), backbone, device, cut)
        while (case := pipe.recv()) is not None:
            pipe.send(place.measure(case))


@contextmanager
def processes(count: int, share: float, root: Path, backbone: Backbone, cut: Cut) -> Iterator[Any]:
    """Give the function that has a case measured by so many processes at once; `share` of a GPU each, 0 for none."""
    context = mp.get_context("spawn")
    pipes = [context.Pipe() for _ in range(count)]
    workers = [context.Process(target=_serve, args=(end, share, root, backbone, cut)) for _, end in pipes]
    for worker in workers:
        worker.start()

    for _, end in pipes:
        end.close()  # so that the other end is told when the process is gone
    broken: list[Figures] = []

    def measure(case: Case) -> list[Figures]:
        if not broken:
            try:
                for pipe, _ in pipes:
                    pipe.send(case)
                if all(pipe.poll(PATIENCE) for pipe, _ in pipes):
                    return [pipe.recv() for pipe, _ in pipes]
                broken.append({"fault": f"a process did not answer in {PATIENCE:.0f} s"})
            except (EOFError, OSError):
                broken.append({"fault": "a process ended"})
        return broken

    try:
        yield measure
        if not broken:
            for pipe, _ in pipes:
                pipe.send(None)  # so that they remove their caches
            for worker in workers:
                worker.join(PATIENCE)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def run() -> list[Figures]:
    """Draw the pictures, and measure all cases."""
    cut, cpus = Cut(), min(MOST_DRAWING, len(os.sched_getaffinity(0)))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as root, random_weights() as weights:
        backbone = Backbone(NAME, weights)
        with ProcessPoolExecutor(cpus, mp_context=mp.get_context("spawn")) as pool:
            for dataset in dict.fromkeys(case.dataset for case in CASES):
                draw(Path(root), dataset, cut, lambda work, jobs: pool.map(work, jobs, chunksize=32))
        with processes(AT_ONCE, 1 / AT_ONCE, Path(root), backbone, cut) as measure:
            return rows(CASES, measure, cut)
