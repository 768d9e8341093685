"""Forward passes of a backbone in the precision of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from trainables.config import Precision


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context of the backbone's forward passes: bf16 autocast, or none."""
    return nullcontext() if precision == "fp32" else torch.autocast(device.type, dtype=torch.bfloat16)


def features(model: Callable[[Tensor], Tensor], images: Tensor, precision: Precision, device: torch.device) -> Tensor:
    """Return a backbone's features `(b, d)` of images `(b, c, h, w)`, in the precision of the heads.

    Heads are outside of the autocast: logits with the eight bits of bf16 would tie, and ties go to the older class.
    """
    with autocast(precision, device):
        found = model(images)
    return found if precision == "fp32" else found.float()
