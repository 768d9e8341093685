"""The device of a trial: a share of one GPU with a memory limit, or the CPU alone; and copies to the device."""

from __future__ import annotations

import os

import torch
from torch import Tensor

CONTEXT_BYTES = 2**30  # GPU memory of a process outside torch's allocator: CUDA context, cuBLAS, cuDNN


def claim(gpus_per_trial: float) -> torch.device:
    """Return the trial's device: bind this process to a share 1/k of a GPU, or hide all GPUs for a share of 0.

    Ray shows a process its own GPU alone. torch's allocator gets the share minus the memory of a CUDA context. So a
    trial that needs more runs out of memory itself, and its neighbours keep theirs.
    """
    if not gpus_per_trial:
        if not torch.cuda.is_initialized():
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return torch.device("cpu")
    torch.backends.cudnn.allow_tf32 = False  # keeps the patch embedding, a convolution, in float32
    if gpus_per_trial < 1:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(fence(gpus_per_trial, total))
    else:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return torch.device("cuda")


def fence(gpus_per_trial: float, total_bytes: int) -> float:
    """Return the fraction of a GPU's memory, from 0.01 to `gpus_per_trial`, that torch may allocate in a process."""
    return max(0.01, gpus_per_trial - CONTEXT_BYTES / total_bytes)


def release() -> None:
    """Return torch's reserved but unused memory to the GPU, if there is one, and reset the peak of that memory."""
    torch.cuda.empty_cache()
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_bytes() -> int:
    """Return the peak of torch's reserved GPU memory since `release`; 0 without a GPU."""
    return torch.cuda.max_memory_reserved()


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the CPU to a device without waiting for the device's earlier work."""
    return tensor if torch.device(device).type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
