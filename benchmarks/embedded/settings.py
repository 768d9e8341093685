"""Single methods at settings that their pages speak of: `settings` on digits, `rates` on letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from search_spaces import load_space
from search_spaces.values import is_number
from trainables.backbones import Backbone
from trainables.config import Purpose
from trainables.data import Task, build_benchmark, get_source
from trainables.errors import DivergedError
from trainables.evaluation import accuracy
from trainables.methods import EULER_FACTOR, Method
from trainables.metrics import names_of
from trainables.process import settle
from trainables.sequence import IncrementalSequence

NAME, RATES = "settings", "rates"
FIGURES = ("accuracy", "forgetting", "last task", "within tasks", "Euler factor")


@dataclass(frozen=True)
class Setting:
    """A method with some hyperparameters; the others are those at which a search on the benchmark starts."""

    method: str  # its name
    given: Mapping[str, Any]  # the hyperparameters
    seeds: Sequence[int] = (0,)  # each is a run
    purpose: Purpose = "search"  # `final` is tested, `search` is judged by the validation split
    benchmark: str = "digits"  # an embedded one

    @property
    def words(self) -> str:
        """The hyperparameters in words."""
        numbers = {name: f"{value:g}" for name, value in self.given.items() if is_number(value)}
        return ", ".join(f"{name} {value}" for name, value in {**self.given, **numbers}.items())


def _each(method: str, name: str, values: Sequence[Any], *rest: Any, **others: Any) -> Iterator[Setting]:
    yield from (Setting(method, {**others, name: value}, *rest) for value in values)


_TWO, _THREE = (0, 1), (0, 1, 2)
_OFFICIAL = {"formulation": "official", "alpha_cls": 0.5, "alpha_cls_prior": 0.015, "lr": 0.001}
_OFFICIAL_IEL = {"formulation": "official", "beta_cls": 0.5, "beta_cls_prior": 0.015, "lr": 0.001}
_LORA = {"alpha": 50, "alpha_cls": 1, "alpha_cls_prior": 0.03, "lr": 0.01}
SETTINGS = (
    *_each("inflora", "lr", (0.0005, 0.003, 0.01), _TWO),
    Setting("probe", {}),
    *_each("l2p", "lr", (0.0025, 0.03, 0.1, 0.3, 1)),
    *_each("l2p", "schedule", ("cosine",), lr=0.1),
    *_each("l2p", "clip_norm", (1e9,), lr=0.1),
    *_each("l2p", "pull_constraint", (1,), lr=0.1),
    *_each("l2p", "pool_size", (20,), lr=0.1),
    *_each("l2p", "top_k", (1, 10), lr=0.1),
    *_each("l2p", "start", ("jax",), lr=0.1),
    Setting("lwf-mc", {"reduction": "mean", "lr": 0.03}, _TWO),
    Setting("lwf-mc", {"reduction": "sum", "lr": 0.01}, _TWO),
    Setting("seed", {"experts": 2, "features": 16, "lr": 0.001}, (0,), "final"),
    Setting("seed", {"experts": 2, "features": 64, "lr": 0.0003}, (0,), "final"),
    *_each("tmc", "lr", (0.0001, 0.003), _TWO, kappa=15),
    *_each("tmc", "lr", (0.0001, 0.003), _TWO, kappa=40),
    *_each("ewc", "epsilon", (10, 100), _TWO),
    Setting("finetune", {"optimizer": "sgd", "lr": 0.01, "cross_entropy": "global"}, _TWO),
    Setting("finetune", {"optimizer": "sgd", "lr": 0.01, "cross_entropy": "local"}, _TWO),
    Setting("finetune", {"optimizer": "adamw", "lr": 0.0003, "cross_entropy": "local"}, _TWO),
    *_each("ewc", "cross_entropy", ("global", "local"), _THREE, "final", epsilon=10, lr=0.1),
    *_each("coda", "head_start", ("normal", "linear"), _THREE, "final", lr=0.003, schedule="constant", pool_size=60),
    *_each("ita-fft", "alpha", (50, 500), _THREE, "final", **_OFFICIAL),
    *_each("iel-fft", "beta", (25, 100), _THREE, "final", **_OFFICIAL_IEL),
    *_each("ita-lora", "alpha", (0.7, 10), _TWO, curvature="kronecker"),
    *_each("ita-lora", "heads", ("concatenated", "averaged"), _THREE, "final", **_LORA),
)


_RATES = [{"lr": lr, "regularise": parts} for lr in (0.0003, 0.003, 0.01, 0.02) for parts in ("all", "none")]


def measure(setting: Setting, seed: int) -> dict[str, float | None]:
    """Run one seed.

    Returns:
        Values of `FIGURES`, None for what there is not: the final accuracy, the forgetting and the accuracy on the last
        task, percent; the mean over tasks of the accuracy among the task's own classes; the largest Euler factor of a
        task that has ended. A run that diverges has the last alone.
    """
    names, space = names_of(setting.purpose), load_space(setting.method, setting.benchmark)
    benchmark = build_benchmark(get_source(setting.benchmark), setting.purpose)
    hyperparameters = {**space.fixed, **space.start, **setting.given}
    sequence = IncrementalSequence(benchmark, setting.method, hyperparameters, backbone=Backbone(), seed=seed)
    factors = list[float]()
    with suppress(DivergedError):
        while not sequence.finished:
            row = sequence.run_next_task()
            factors += [row[EULER_FACTOR]] if EULER_FACTOR in row else []
    sequence.close()
    found = dict.fromkeys(FIGURES) | {"Euler factor": max(factors, default=None)}
    if not sequence.finished:
        return found
    pairs = zip(benchmark.tasks, benchmark.evaluation, strict=True)
    within = fmean(accuracy(partial(_among, sequence.method, task), images, "cpu") for task, images in pairs)
    last, final, forgetting = sequence.accuracies[-1][-1], row[names.final_accuracy], row[names.forgetting]
    return found | {"accuracy": final, "forgetting": forgetting, "last task": last, "within tasks": within}


def _among(method: Method, task: Task, x: Tensor) -> Tensor:
    """Return the logits of the classes of one task; the others are as low as can be."""
    logits = method.predict(x)
    lowest = torch.full_like(logits, -torch.inf)
    own = slice(task.classes.start, task.classes.stop)
    lowest[:, own] = logits[:, own]
    return lowest


def run() -> list[dict[str, Any]]:
    """Measure all settings on digits."""
    rows = []
    for each, measured in zip(SETTINGS, _measured(SETTINGS), strict=True):
        about = {"method": each.method, "setting": each.words, "judged by": each.purpose, "seeds": list(each.seeds)}
        rows.append(about | {name: [one[name] for one in measured] for name in FIGURES})
    return rows


def run_rates() -> list[dict[str, Any]]:
    """Measure `ita-lora` on letters over learning rates, regularised and not."""
    found = _measured([Setting("ita-lora", given, (0,), "final", "letters") for given in _RATES])
    return [{**given, "accuracy": one["accuracy"]} for given, (one,) in zip(_RATES, found, strict=True)]


def _measured(settings: Sequence[Setting]) -> Iterator[list[dict[str, float | None]]]:
    """Run the seeds of all settings, a run at a time on each core."""
    runs = [(each, seed) for each in settings for seed in each.seeds]
    with get_context("spawn").Pool(initializer=partial(settle, 1)) as pool:
        found = iter(pool.starmap(measure, runs, chunksize=1))
    return ([next(found) for _ in each.seeds] for each in settings)
