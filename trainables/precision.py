"""Forward and backward passes of a backbone in the precision of an experiment.

fp32 leaves torch as it is. bf16 is autocast: the backward pass repeats the types of the forward pass. tf32 is a setting
of the process, which torch reads whenever it multiplies on a GPU. So it is switched on twice: for the forward pass, and
in a backward pass from the gradient by the features on. Losses, heads and terms added to the loss come before that, and
stay in float32; what the features are made from, such as prompts, comes after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.backends import cuda, cudnn

from trainables.config import Precision


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context of the backbone's forward passes: bf16 autocast, TF32 products on a GPU, or none."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return _tf32() if _is_tf32(precision, device) else nullcontext()


def features(model: Callable[[Tensor], Tensor], images: Tensor, precision: Precision, device: torch.device) -> Tensor:
    """Return a backbone's features `(b, d)` of images `(b, c, h, w)`, in the precision of the heads; see `Context`."""
    with autocast(precision, device):
        found = model(images)
    if _is_tf32(precision, device) and found.requires_grad:
        found.register_hook(_rest_in_tf32)
    return found.float() if precision == "bf16" else found


def _is_tf32(precision: Precision, device: torch.device) -> bool:
    """Whether products are in TF32; a model that was trained so computes in float32 on a CPU."""
    return precision == "tf32" and device.type == "cuda"


@contextmanager
def _tf32() -> Iterator[None]:
    """Let matrix products and convolutions on a GPU round their inputs to TF32, ten bits of mantissa."""
    settings = (cuda.matmul, cudnn.conv)  # type: ignore[attr-defined]  # torch makes it when it is imported
    before = [each.fp32_precision for each in settings]
    try:
        for each in settings:
            each.fp32_precision = "tf32"
        yield
    finally:
        for each, was in zip(settings, before, strict=True):
            each.fp32_precision = was


def _rest_in_tf32(gradient: Tensor) -> None:
    """Run the rest of the backward pass that calls this hook in TF32."""
    if cuda.matmul.fp32_precision == "tf32":  # by the features of another batch in this pass
        return
    on = ExitStack()
    on.enter_context(_tf32())
    Variable._execution_engine.queue_callback(on.close)  # at the end of the pass
