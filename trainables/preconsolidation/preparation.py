"""The contract of what a method has prepared of each task before its training, and shares with other trials."""

from __future__ import annotations

import hashlib
import inspect
import sys
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor

from trainables.data import Task
from trainables.user_code import NOT_THEIRS
from trainables.user_code.imported import digest_at_import

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

R = TypeVar("R")


@dataclass(frozen=True)
class Basis:
    """What a preparation may depend on besides the task, the result of the task before, and its own fields."""

    theta_0: VisionTransformer  # on `device`, in eval mode
    batch_size: int  # of the benchmark
    seed: int  # of the trial
    device: torch.device
    initial_head: Tensor | None = None  # (C, d), where heads start, of a backbone that offers it


class Preparation(Protocol[R]):
    """A dataclass whose fields are its settings: plain values, all of which are a part of the cache's key.

    Its results are functions of these, of a `Basis` and of the training images of the tasks so far; of nothing else. A
    tuple `uses` of classes may say whose code they depend on beside its own. `augmented_only` may say that they do not
    depend on how images are evaluated.
    """

    def prepare(self, task: Task, previous: R | None, basis: Basis) -> dict[str, Tensor]:
        """Compute the tensors of a task, on the CPU; `previous` is the result of the task before, if there is one."""

    def read(self, tensors: dict[str, Tensor], task: Task, previous: R | None) -> R:
        """Return the result of a task from its tensors, which may be mapped from a file: change none of them."""


def code_of(kind: type | FunctionType) -> dict[str, str]:
    """Return what a key says of the code of a class or function: nothing of ours or of a library, which have versions.

    The key of a user's code has the text of its module, so that no entry outlives a change there. What the module
    imports is not in the key.
    """
    if kind.__module__.partition(".")[0] in NOT_THEIRS:
        return {}
    text = digest_at_import(kind.__module__)
    if text is None:
        text = hashlib.sha256(inspect.getsource(sys.modules[kind.__module__]).encode()).hexdigest()
    return {"class": f"{kind.__module__}:{kind.__qualname__}", "text": text}
