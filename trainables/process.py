"""The settings of a process that computes trials: threads, and reuse of freed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from threadpoolctl import threadpool_limits

# Number of a parameter of glibc's malloc.h to its value. Source: man 3 mallopt.
_MALLOPT = {
    -4: 0,  # M_MMAP_MAX: no tensor gets a mapping of its own, which would be unmapped with the tensor
    -1: -1,  # M_TRIM_THRESHOLD: the heap never shrinks
    -2: 64 * 2**20,  # M_TOP_PAD: and grows by at least so many bytes
}


def settle(threads: int) -> None:
    """Set the number of threads of torch, numpy and scikit-learn, and reuse freed memory."""
    torch.set_num_threads(threads)
    threadpool_limits(threads)  # numpy and scikit-learn, which ignore torch's setting
    _keep_freed_memory()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set torch's threads inside the `with` block, to reproduce numbers of trials that had as many."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep_freed_memory() -> None:
    """Reuse freed memory instead of returning it to the kernel.

    A training step allocates the same large tensors again and again. By default glibc unmaps each freed tensor, and
    every page of the next one costs a page fault: on ViT-B/16, a third of a step. Other C libraries than glibc lack the
    setting, which costs time alone.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)
