"""Gives methods what they want prepared, each in the trial's own way: computed, or shared through the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

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
    """Makes what the method of one trial wants prepared; see `Preconsolidator` for the fields.

    Attributes:
        cache: Directory of the cache; None computes everything here.
        cache_bytes: Maximal size of the cache, bytes; None for no limit.
    """

    tasks: Sequence[Task]
    backbone: Backbone
    _: KW_ONLY
    spec: BenchmarkSpec
    fingerprint: str
    purpose: Purpose
    seed: int
    device: torch.device
    initial_head: Tensor | None = None
    cache: Path | None
    cache_bytes: int | None
    providers: list[Preconsolidator[Any]] = field(default_factory=list)

    def __call__(self, preparation: Preparation[R]) -> Callable[[Task], R]:
        """Return the function that gives what is prepared of a task, on the CPU, when the task begins."""
        provider = Preconsolidator(
            self.tasks,
            self.backbone,
            preparation,
            spec=self.spec,
            fingerprint=self.fingerprint,
            purpose=self.purpose,
            seed=self.seed,
            device=self.device,
            initial_head=self.initial_head,
            cache=None if self.cache is None else Cache(self.cache, self.cache_bytes),
        )
        self.providers.append(provider)

        def prepared(task: Task) -> R:
            # Its tensors have other sizes than those of training, so neither can use memory that the other has
            # reserved.
            torch.cuda.empty_cache()
            found = provider.task(task.index)
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
