"""The device of a trial: a share of one GPU, fenced, or the CPU alone."""

from __future__ import annotations

import os

import torch

CONTEXT_BYTES = 2**30  # what a process takes of a GPU beside torch's allocator: CUDA context, cuBLAS, cuDNN


def claim(gpu_share: float) -> torch.device:
    """Bind this process to its share of a GPU, or hide all GPUs from it.

    Ray shows a process no other GPU than its own. Of that one, torch's allocator is given the share less what a CUDA
    context takes, so that a trial which wants more runs out of memory by itself and takes none from its neighbours.

    Args:
        gpu_share: 1/k of a GPU, or 0 for the CPU.

    Returns:
        The device to compute on.
    """
    if not gpu_share:
        if not torch.cuda.is_initialized():
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return torch.device("cpu")
    torch.backends.cudnn.allow_tf32 = False  # the patch embedding is a convolution: fp32 means float32 there, too
    if gpu_share < 1:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(fence(gpu_share, total))
    else:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return torch.device("cuda")


def fence(gpu_share: float, total_bytes: int) -> float:
    """Return the part of a GPU's memory that torch may allocate in a process with a share of it.

    Args:
        gpu_share: The process's share of the GPU, 1/k.
        total_bytes: Memory of the GPU, bytes.

    Returns:
        The part of the memory, from 0.01 to `gpu_share`.
    """
    return max(0.01, gpu_share - CONTEXT_BYTES / total_bytes)


def give_back() -> None:
    """Give memory that torch has reserved and nothing uses back to the GPU; does nothing without one."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def release() -> None:
    """Give memory back as `give_back` does, and count peaks anew."""
    give_back()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_bytes() -> int:
    """Return the most that torch has reserved on the GPU since `release`; 0 without one."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() and torch.cuda.is_initialized() else 0
