"""The blocks of a large backbone compiled for training on a GPU, where that pays.

On ViT-B/16 in bf16 half of a step is normalisation, activation, sums and changes of type between the products.
`torch.compile` makes them into fewer kernels. That takes some seconds in each process, which later trials in it save.
Only full batches of a training are compiled: an evaluation, a smaller last batch and the Fisher would each be compiled
anew.
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from weakref import WeakSet

import torch
from torch import nn

PAYS_FROM = 200_000  # images that a trial trains on, each as often as it is seen
_compiled: WeakSet[nn.Module] = WeakSet()


def can_compile() -> bool:
    """Whether torch finds what it compiles with: Triton, and a C compiler and Python's headers for what calls it."""
    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    compiler = any(map(shutil.which, ("cc", "gcc", "clang")))
    return importlib.util.find_spec("triton") is not None and headers and compiler


def compile_blocks(model: nn.Module) -> None:
    """Compile the blocks of a backbone when `as_compiled` first runs them; what cannot be compiled runs as before."""
    if model not in _compiled:
        for block in model.get_submodule("blocks").children():
            block.compile(dynamic=False)
        torch._dynamo.config.suppress_errors = True  # a warning of torch says what could not be compiled
        torch.compiler.set_stance("force_eager")
        _compiled.add(model)


def as_compiled(model: Callable[..., object], *, full_batch: bool) -> AbstractContextManager[object]:
    """Return a context in which a full batch of a training runs compiled, if the blocks of the model are."""
    if full_batch and isinstance(model, nn.Module) and model in _compiled and torch.is_grad_enabled():
        return torch.compiler.set_stance("default")
    return nullcontext()
