"""What a process is told before it computes a trial."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from trainables import process
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
    """Faults before and after, and threads; in a process of its own, whose allocator stays as it is told."""
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
