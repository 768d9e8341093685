"""What a method has returned, checked by the sequence that drives it: it may be code of the user."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from numbers import Real

from torch import Tensor

from trainables.data import Task
from trainables.errors import DivergedError, InputError
from trainables.evaluation import Predict
from trainables.metrics import TRAIN_LOSS
from trainables.state import State
from trainables.user_code import kind_of


def checked_row(what: str, row: object, extra: Collection[str], task: Task) -> dict[str, float]:
    """Return the metrics of `train_task` as numbers.

    `what` begins an error. `extra` has the metrics that the method declares; each may be missing.

    Raises:
        InputError: If it is something else.
        DivergedError: If the loss is not finite.
    """
    if not isinstance(row, Mapping) or TRAIN_LOSS not in row:
        got = ", ".join(map(str, row)) if isinstance(row, Mapping) else kind_of(row)
        raise InputError(f"{what}: train_task must return a dict with {TRAIN_LOSS}, got {got or 'an empty one'}")
    for name, value in row.items():
        if name != TRAIN_LOSS and name not in extra:
            raise InputError(f"{what}: train_task returns {name!r}, which metrics does not declare")
        if not isinstance(value, Real) and not (isinstance(value, Tensor) and value.numel() == 1):
            raise InputError(f"{what}: train_task must return a number as {name}, got {kind_of(value)}")
    found = {name: float(value) for name, value in row.items()}
    if not math.isfinite(found[TRAIN_LOSS]):
        raise DivergedError(task.index, what=f"{TRAIN_LOSS} is {found[TRAIN_LOSS]}")
    return found


@dataclass(eq=False)
class CheckedPredict:
    """The function `predict` of a method, whose logits are checked."""

    what: str  # begins an error
    predict: Predict
    classes: int  # how many are seen so far
    # One for each batch, on the device, so that no batch waits for the one before.
    _nan: list[Tensor] = field(default_factory=list, init=False)

    def __call__(self, images: Tensor) -> Tensor:
        """Return logits `(b, C_seen)` of images `(b, c, h, w)`; another shape is an InputError."""
        logits, wanted = self.predict(images), (len(images), self.classes)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else kind_of(logits)
            raise InputError(f"{self.what}: predict must return logits {wanted}, got {got}")
        self._nan.append(logits.isnan().any())
        return logits

    def require_numbers(self, task: Task) -> None:
        """Raise a DivergedError for NaN among all logits so far, the largest of which would be no class."""
        if any(bool(each) for each in self._nan):
            raise DivergedError(task.index, what="logits are NaN")


def checked_state(what: str, state: object) -> State:
    """Return the state of a method; something else is an InputError."""
    if not isinstance(state, State):
        raise InputError(f"{what}: state must return a State, got {kind_of(state)}")
    return state
