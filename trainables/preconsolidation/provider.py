"""Gives methods what they want prepared, each in the trial's own way: computed, or shared through the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import torch
from torch import Tensor

from trainables.backbones import Backbone
from trainables.backbones.initial_head import rows_digest
from trainables.config import Purpose
from trainables.data import BenchmarkSpec, Task
from trainables.data.transforms.normalisation import Transform, repeatable_text, transform_text
from trainables.preconsolidation.cache import Cache, digest
from trainables.preconsolidation.preparation import Basis, Preparation, R, code_of
from trainables.user_code import digests_of

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


@dataclass
class Preparer:
    """Makes what the method of one trial wants prepared."""

    tasks: Sequence[Task]
    backbone: Backbone
    _: KW_ONLY
    spec: BenchmarkSpec
    fingerprint: str  # of the benchmark; a part of the cache's keys
    purpose: Purpose  # of the benchmark; written to the cache's entries
    seed: int
    device: torch.device
    initial_head: Tensor | None = None  # see `Basis`
    cache: Path | None  # directory of the cache; None computes everything here
    cache_bytes: int | None  # maximal size of the cache, bytes; None for no limit
    providers: list[Preconsolidator[Any]] = field(default_factory=list)

    @overload
    def __call__(self, preparation: Preparation[R]) -> Callable[[Task], R]: ...
    @overload
    def __call__(self, preparation: Preparation[R], *, before: Literal[True]) -> Callable[[Task], R | None]: ...
    def __call__(self, preparation: Preparation[R], *, before: bool = False) -> Callable[[Task], R | None]:
        """Return the function that gives what is prepared of a task, on the CPU, as it begins; see `Prepare`."""
        cache = None if self.cache is None else Cache(self.cache, self.cache_bytes)
        provider = Preconsolidator(self, preparation, cache)
        self.providers.append(provider)

        def prepared(task: Task) -> R | None:
            number = task.index - 1 if before else task.index
            if number == 0:
                provider.hit = True  # nothing is missing
                return None
            # Its tensors have other sizes than those of training, so neither can use memory that the other has
            # reserved.
            torch.cuda.empty_cache()
            found = provider.task(number)
            torch.cuda.empty_cache()
            return found

        return prepared

    @property
    def hit(self) -> bool | None:
        """Whether the cache had all that was prepared of the last task; None for a method that wants nothing."""
        return all(each.hit for each in self.providers) if self.providers else None

    def close(self) -> None:
        """Release the cache's entries that were read, so that the cache may remove them."""
        for each in self.providers:
            each.close()
        self.providers.clear()  # they know this object, so its images would stay until the garbage is collected


@dataclass
class Preconsolidator(Generic[R]):
    """What is prepared of the tasks of one benchmark, each result a function of the tasks up to its own."""

    owner: Preparer
    preparation: Preparation[R]
    cache: Cache | None  # None computes everything here and keeps only the last result
    hit: bool = False  # whether the cache had the last task
    _done: int = 0  # number of tasks up to `_last`
    _last: R | None = None

    def task(self, t: int) -> R:
        """Return the result of task t (1-based), after any missing tasks before it."""
        if self._done > t:
            self._done, self._last = 0, None
        while self._last is None or self._done < t:
            self._last, self._done = self._next(self.owner.tasks[self._done], self._last), self._done + 1
        return self._last

    def _next(self, task: Task, previous: R | None) -> R:
        def compute() -> dict[str, Tensor]:
            self.hit = False
            trial = self.owner
            basis = Basis(self._theta_0, trial.spec.batch_size, trial.seed, trial.device, trial.initial_head)
            return self.preparation.prepare(task, previous, basis)

        if self.cache is None:
            return self.preparation.read(compute(), task, previous)
        self.hit = True
        settings = _settings(self.preparation)
        about = {
            "benchmark": self.owner.spec.name,
            "purpose": self.owner.purpose,
            "backbone": self.owner.backbone.name,
            "task": str(task.index),
            "seed": str(self.owner.seed),
            **{name: str(value) for name, value in settings.items()},
        }
        entry = self.cache.get(self._key(task, settings), compute, about)
        return self.preparation.read(entry, task, previous)

    @cached_property
    def _theta_0(self) -> VisionTransformer:
        """Loaded at the first miss: a trial that finds everything in the cache does not need it."""
        return self.owner.backbone.load(self.owner.device)

    def close(self) -> None:
        """Release the cache's entries that were read, so that the cache may remove them."""
        self._done, self._last = 0, None
        if self.cache is not None:
            self.cache.close()

    def _key(self, task: Task, settings: dict[str, Any]) -> str:
        trial, transforms = self.owner, [task.train.transform]
        if not getattr(self.preparation, "augmented_only", False):
            transforms.append(task.unaugmented.transform)
        kinds = [type(self.preparation), *getattr(self.preparation, "uses", ()), *map(_kind, transforms)]
        code = [found for kind in kinds if (found := code_of(kind))]
        if trial.backbone.own is not None:  # the digest of its weights says nothing of its forward pass
            code.append(digests_of([trial.backbone.name]))
        own = transform_text(transforms[0])  # the data's digest has it without the address of what it holds
        return digest(
            {
                "data": trial.fingerprint,
                "batch_size": trial.spec.batch_size,
                "backbone": trial.backbone.digest,
                "config": settings,
                "seed": trial.seed,
                "device": trial.device.type,
                "threads": torch.get_num_threads(),  # the order of float additions depends on it
                "libraries": {name: version(name) for name in ("torch", "timm", "scikit-learn")},
                "task": task.index,
                **({"unaugmented": transform_text(transforms[1])} if transforms[1:] else {}),
                **({} if own == repeatable_text(transforms[0]) else {"transform": own}),
                **({"code": code} if code else {}),
                **({} if trial.initial_head is None else {"initial_head": rows_digest(trial.initial_head)}),
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
