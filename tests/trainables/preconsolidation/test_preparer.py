"""What a method wants prepared: of several things the cache must have all, and all are let go of."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.data import Task
from trainables.preconsolidation import PreconsolidationConfig, Preconsolidator, Preparer


@pytest.fixture
def preparer(tmp_path: Path) -> Preparer:
    benchmark, about = small_digits(), {"purpose": "final", "seed": 3, "device": torch.device("cpu")}
    given: dict[str, Any] = {"spec": benchmark.spec, "fingerprint": benchmark.fingerprint, **about}
    made = Preparer(benchmark.tasks, Backbone(), **given, cache=tmp_path, cache_bytes=77)
    for lr in (0.01, 0.02):
        made(PreconsolidationConfig(lr_pre=lr))
    return made


@pytest.mark.parametrize(("hits", "hit"), [((True, True), True), ((False, True), False), ((True, False), False)])
def test_the_cache_is_hit_if_it_had_all(hits: tuple[bool, bool], hit: bool, preparer: Preparer) -> None:
    for each, one in zip(preparer.providers, hits, strict=True):
        each.hit = one
    assert preparer.hit is hit


def test_who_wants_nothing_hits_and_misses_nothing(preparer: Preparer) -> None:
    preparer.providers.clear()
    assert preparer.hit is None


@dataclass(frozen=True)
class Counted:
    """Says of which tasks it was computed."""

    computed: ClassVar[list[int]] = []

    def prepare(self, task: Task, previous: int | None, basis: Any) -> dict[str, Tensor]:
        self.computed.append(task.index)
        return {"sum": torch.tensor(task.index + (previous or 0))}

    def read(self, tensors: dict[str, Tensor], task: Task, previous: int | None) -> int:
        return int(tensors["sum"])


def test_what_is_prepared_of_the_task_before_is_never_computed_of_the_last(preparer: Preparer) -> None:
    preparer.providers.clear()
    Counted.computed.clear()
    before = preparer(Counted(), before=True)
    assert [(before(task), preparer.hit) for task in preparer.tasks] == [(None, True), (1, False), (3, False)]
    assert Counted.computed == [1, 2]


def test_each_has_its_own_config_and_all_are_let_go_of(preparer: Preparer, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[float] = []
    monkeypatch.setattr(Preconsolidator, "close", lambda self: closed.append(self.preparation.lr_pre))
    preparer.close()
    assert closed == [0.01, 0.02]
    for each in preparer.providers:
        assert each.cache is not None and each.cache.max_bytes == 77
        assert each.owner is preparer


def test_a_trial_that_has_ended_does_not_wait_for_the_garbage_collector(tmp_path: Path) -> None:
    benchmark, about = small_digits(), {"purpose": "final", "seed": 3, "device": torch.device("cpu")}
    given: dict[str, Any] = {"spec": benchmark.spec, "fingerprint": benchmark.fingerprint, **about}
    preparer = Preparer(benchmark.tasks, Backbone(), **given, cache=tmp_path, cache_bytes=None)
    preparer(Counted())
    last = weakref.finalize(preparer, lambda: None)
    gc.disable()
    try:
        preparer.close()
        del preparer
        assert not last.alive
    finally:
        gc.enable()
