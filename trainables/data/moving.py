"""Moving tensors from the CPU to a device."""

from __future__ import annotations

import torch
from torch import Tensor


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the CPU to a device without waiting for the device's earlier work."""
    return tensor if torch.device(device).type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
