"""Provides a method with what is prepared of a task, from the cache if it has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, MISSING, asdict, dataclass, fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic

import torch
from torch import Tensor

from trainables.backbones import Backbone
from trainables.backbones.initial_head import rows_digest
from trainables.config import Purpose
from trainables.data import BenchmarkSpec, Task
from trainables.data.transforms.normalisation import Transform, transform_text
from trainables.preconsolidation.cache import Cache, digest
from trainables.preconsolidation.preparation import Basis, Preparation, R, code_of

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


@dataclass
class Preconsolidator(Generic[R]):
    """What is prepared of the tasks of one benchmark, each result a function of the tasks up to its own."""

    tasks: Sequence[Task]
    backbone: Backbone
    preparation: Preparation[R]
    _: KW_ONLY
    spec: BenchmarkSpec
    fingerprint: str  # of the benchmark; a part of the cache's keys
    purpose: Purpose  # of the benchmark; written to the cache's entries
    seed: int
    device: torch.device
    initial_head: Tensor | None = None  # see `Basis`
    cache: Cache | None  # None computes everything here and keeps only the last result
    hit: bool = False  # whether the cache had the last task
    _done: int = 0  # number of tasks up to `_last`
    _last: R | None = None

    def task(self, t: int) -> R:
        """Return the result of task t (1-based), after any missing tasks before it."""
        if self._done > t:
            self._done, self._last = 0, None
        while self._last is None or self._done < t:
            self._last, self._done = self._next(self.tasks[self._done], self._last), self._done + 1
        return self._last

    def _next(self, task: Task, previous: R | None) -> R:
        def compute() -> dict[str, Tensor]:
            self.hit = False
            basis = Basis(self._theta_0, self.spec.batch_size, self.seed, self.device, self.initial_head)
            return self.preparation.prepare(task, previous, basis)

        if self.cache is None:
            return self.preparation.read(compute(), task, previous)
        self.hit = True
        settings = _settings(self.preparation)
        about = {
            "benchmark": self.spec.name,
            "purpose": self.purpose,
            "backbone": self.backbone.name,
            "task": str(task.index),
            "seed": str(self.seed),
            **{name: str(value) for name, value in settings.items()},
        }
        entry = self.cache.get(self._key(task, settings), compute, about)
        return self.preparation.read(entry, task, previous)

    @cached_property
    def _theta_0(self) -> VisionTransformer:
        """Loaded at the first miss: a trial that finds everything in the cache does not need it."""
        return self.backbone.load(self.device)

    def close(self) -> None:
        """Release the cache's entries that were read, so that the cache may remove them."""
        self._done, self._last = 0, None
        if self.cache is not None:
            self.cache.close()

    def _key(self, task: Task, settings: dict[str, Any]) -> str:
        transforms = [task.train.transform]
        if not getattr(self.preparation, "augmented_only", False):
            transforms.append(task.unaugmented.transform)
        kinds = [type(self.preparation), *getattr(self.preparation, "uses", ()), *map(_kind, transforms)]
        code = [found for kind in kinds if (found := code_of(kind))]
        return digest(
            {
                "data": self.fingerprint,
                "batch_size": self.spec.batch_size,
                "backbone": self.backbone.digest,
                "config": settings,
                "seed": self.seed,
                "device": self.device.type,
                "threads": torch.get_num_threads(),  # the order of float additions depends on it
                "libraries": {name: version(name) for name in ("torch", "timm", "scikit-learn")},
                "task": task.index,
                **({"unaugmented": transform_text(transforms[1])} if transforms[1:] else {}),
                **({"code": code} if code else {}),
                **({} if self.initial_head is None else {"initial_head": rows_digest(self.initial_head)}),
            }
        )


def _kind(transform: Transform) -> type | FunctionType:
    """Return the function or class that has the code of a transform."""
    owner = transform.__self__ if isinstance(transform, MethodType) else transform
    return owner if isinstance(owner, FunctionType | type) else type(owner)


def _settings(preparation: Preparation[Any]) -> dict[str, Any]:
    """Return the settings by name; a newer one at its default is left out, so that older entries stay valid."""
    assert is_dataclass(preparation), "so its contract says"
    newer = {each.name: each.default for each in fields(preparation) if each.metadata.get("newer")}
    return {name: value for name, value in asdict(preparation).items() if newer.get(name, MISSING) != value}
