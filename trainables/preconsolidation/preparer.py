"""Gives methods what they want prepared, each in the trial's own way: computed, or shared through the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from trainables.backbones import Backbone
from trainables.config import Purpose
from trainables.data import BenchmarkSpec, Task
from trainables.preconsolidation.cache import Cache
from trainables.preconsolidation.preparation import Preparation, R
from trainables.preconsolidation.provider import Preconsolidator


@dataclass
class Preparer:
    """Makes what the method of one trial wants prepared.

    Attributes:
        cache: Directory of the cache; None computes everything here.
        cache_bytes: Maximal size of the cache, bytes; None for no limit.
    """

    tasks: Sequence[Task]
    backbone: Backbone
    _: KW_ONLY
    spec: BenchmarkSpec
    fingerprint: str  # of the benchmark; a part of the cache's keys
    purpose: Purpose  # of the benchmark; written to the cache's entries
    seed: int
    device: torch.device
    initial_head: Tensor | None = None  # see `Basis`
    cache: Path | None
    cache_bytes: int | None
    providers: list[Preconsolidator[Any]] = field(default_factory=list)

    @overload
    def __call__(self, preparation: Preparation[R]) -> Callable[[Task], R]: ...
    @overload
    def __call__(self, preparation: Preparation[R], *, before: Literal[True]) -> Callable[[Task], R | None]: ...
    def __call__(self, preparation: Preparation[R], *, before: bool = False) -> Callable[[Task], R | None]:
        """Return the function that gives what is prepared of a task, on the CPU, when the task begins.

        With `before` it gives what is prepared of the task before; None for the first task.
        """
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
