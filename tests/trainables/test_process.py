"""Settings of a process that computes trials, and a trial's use of GPU memory."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.support.methods.small_digits import small_digits
from trainables import device, process, sequence
from trainables.backbones import Backbone
from trainables.preconsolidation import Consolidation, Preconsolidator
from trainables.process import threads

COUNT_FAULTS = """
import resource
import torch
from threadpoolctl import threadpool_info
from trainables.process import settle

def once():
    '''Page faults of making and dropping 64 MiB five times.'''
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def faults():
    '''The fewer of two times, after as many as glibc needs to find a place: a kernel short of memory adds its own.'''
    for _ in range(2):
        once()
    return min(once() for _ in range(2))

by_default = faults()
settle(2)
print(by_default, faults(), torch.get_num_threads(), max(pool["num_threads"] for pool in threadpool_info()))
"""


@pytest.fixture(scope="module")
def measured() -> list[int]:
    """Page faults before and after, and threads; in a process of its own, because the allocator keeps its setting."""
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_memory_is_reused_without_page_faults(measured: list[int]) -> None:
    by_default, kept, *_ = measured
    pages = 5 * 2**26 // 4096
    assert by_default > pages // 1000  # at least: where pages are huge
    assert kept < by_default / 10


def test_threads_are_those_of_the_trial(measured: list[int]) -> None:
    *_, of_torch, of_any_library = measured
    assert of_torch == of_any_library == 2


def test_threads_of_torch_are_set_and_set_back_after_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(process, "threadpool_limits", lambda count: None)
    with threads(1):
        process.settle(before + 2)
        assert torch.get_num_threads() == before + 2
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


ITA = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.01, "lr_pre": 0.03, "epochs_pre": 1}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The events around GPU memory, in order."""
    happened, compute = list[str](), Preconsolidator.task

    def noted(self: Preconsolidator, index: int) -> Consolidation:
        happened.append("pre-consolidation")
        return compute(self, index)

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: happened.append("given back"))
    monkeypatch.setattr(Preconsolidator, "task", noted)
    return happened


def test_neither_training_nor_preconsolidation_keeps_what_the_other_reserved(seen: list[str]) -> None:
    trial = sequence.IncrementalSequence(small_digits(), "ita-lora", ITA, backbone=Backbone())
    trial.run_next_task()
    trial.run_next_task()
    assert seen == ["given back", "pre-consolidation", "given back"] * 2


def test_without_preconsolidation_memory_is_kept(seen: list[str]) -> None:
    sequence.IncrementalSequence(small_digits(), "finetune", {"lr": 0.01}, backbone=Backbone()).run_next_task()
    assert not seen


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """A GPU of 80 GiB that notes the calls to it."""
    asked = list[tuple[str, float]]()
    memory = SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: memory)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda part: asked.append(("fence", part)))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append(("empty", 0)))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: asked.append(("count anew", 0)))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 7)
    return asked


@pytest.mark.parametrize(("share", "part"), [(1, 1.0), (0.5, 0.5 - 1 / 80), (1 / 80, 0.01)])
def test_a_trial_is_fenced_to_its_share_less_what_a_context_takes(
    card: list[tuple[str, float]], share: float, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert device.claim(share) == torch.device("cuda") and card == [("fence", pytest.approx(part))]
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("initialised", "visible"), [(False, ""), (True, "0,1")])
def test_a_trial_without_a_share_sees_no_gpu_that_is_not_in_use(
    initialised: bool, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert device.claim(0) == torch.device("cpu") and os.environ["CUDA_VISIBLE_DEVICES"] == visible


def test_memory_is_given_back_before_peaks_are_counted_anew(
    card: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    device.release()
    assert card == [("empty", 0), ("count anew", 0)] and device.peak_bytes() == 7
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    device.release()
    assert card[2:] == [("empty", 0)]  # without a context there is no peak to reset
