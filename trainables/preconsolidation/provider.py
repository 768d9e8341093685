"""Provides a method with the pre-consolidation of a task, from the cache if it has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.backbones import Backbone
from trainables.config import Purpose
from trainables.curvature import DiagonalCurvature
from trainables.data import BenchmarkSpec, Task
from trainables.preconsolidation.cache import Cache, digest
from trainables.preconsolidation.consolidation import Consolidation, PreconsolidationConfig, consolidate
from trainables.preconsolidation.mixtures import Mixture

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

_MIXTURE_PARTS = ("weights", "means", "variances")  # fields of `Mixture`, in order


@dataclass
class Preconsolidator:
    """Pre-consolidation of the tasks of one benchmark, each a function of the tasks before it."""

    tasks: Sequence[Task]
    backbone: Backbone
    config: PreconsolidationConfig
    _: KW_ONLY
    spec: BenchmarkSpec
    fingerprint: str  # of the benchmark; a part of the cache's keys
    purpose: Purpose  # of the benchmark; written to the cache's entries
    seed: int
    device: torch.device
    cache: Cache | None  # None computes everything here and keeps only the last result
    hit: bool = False  # whether the cache had the last task
    _last: Consolidation | None = None

    def task(self, t: int) -> Consolidation:
        """Return the pre-consolidation of task t (1-based), after any missing tasks before it."""
        if self._last is not None and self._last.task > t:
            self._last = None
        while self._last is None or self._last.task < t:
            self._last = self._next(self._last)
        return self._last

    def _next(self, previous: Consolidation | None) -> Consolidation:
        task = self.tasks[0 if previous is None else previous.task]

        def compute() -> Consolidation:
            self.hit = False
            return consolidate(
                task,
                previous,
                backbone=self._theta_0,
                config=self.config,
                batch_size=self.spec.batch_size,
                seed=self.seed,
                device=self.device,
            )

        if self.cache is None:
            return compute()
        self.hit = True
        about = {
            "benchmark": self.spec.name,
            "purpose": self.purpose,
            "backbone": self.backbone.name,
            "task": str(task.index),
            "seed": str(self.seed),
            **{name: str(value) for name, value in asdict(self.config).items()},
        }
        entry = self.cache.get(self._key(task.index), lambda: _packed(compute()), about)
        return _unpack(entry, task.index, previous)

    @cached_property
    def _theta_0(self) -> VisionTransformer:
        """Loaded at the first miss: a trial that finds everything in the cache does not need it."""
        return self.backbone.load(self.device)

    def close(self) -> None:
        """Release the cache's entries that were read, so that the cache may remove them."""
        self._last = None
        if self.cache is not None:
            self.cache.close()

    def _key(self, t: int) -> str:
        return digest(
            {
                "data": self.fingerprint,
                "batch_size": self.spec.batch_size,
                "backbone": self.backbone.digest,
                "config": asdict(self.config),
                "seed": self.seed,
                "device": self.device.type,
                "threads": torch.get_num_threads(),  # the order of float additions depends on it
                "libraries": {name: version(name) for name in ("torch", "timm", "scikit-learn")},
                "task": t,
            }
        )


def _packed(result: Consolidation) -> dict[str, Tensor]:
    tensors = {f"fisher/{name}": value for name, value in result.curvature.tensors().items()}
    tensors |= {"head/weight": result.head[0], "head/bias": result.head[1]}
    tensors["examples"] = torch.tensor(result.examples)
    for c, mixture in enumerate(result.mixtures):
        tensors |= {f"mixture/{c}/{part}": getattr(mixture, part) for part in _MIXTURE_PARTS}
    return tensors


def _unpack(entry: dict[str, Tensor], t: int, previous: Consolidation | None) -> Consolidation:
    head = (entry["head/weight"], entry["head/bias"])
    mixtures = tuple(Mixture(*(entry[f"mixture/{c}/{part}"] for part in _MIXTURE_PARTS)) for c in range(len(head[0])))
    parts = {name.removeprefix("fisher/"): value for name, value in entry.items() if name.startswith("fisher/")}
    curvature = DiagonalCurvature.from_tensors(parts)
    return Consolidation(t, head, mixtures, curvature, int(entry["examples"]), Consolidation.shorten(previous))
