"""What can go wrong with a trial, as the caller should tell it apart."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says what, where and what is allowed."""


class DivergedError(ArithmeticError):
    """The loss or the weights became NaN or infinite.

    Attributes:
        task: The task (1-based) in which it happened.
        step: The optimiser step (1-based) within that task.
    """

    def __init__(self, task: int, step: int) -> None:
        super().__init__(f"loss is not finite at task {task}, step {step}")
        self.task = task
        self.step = step

    def __reduce__(self) -> tuple[type[DivergedError], tuple[int, int]]:
        return type(self), (self.task, self.step)
