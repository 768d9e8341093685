"""What can go wrong with a trial, as the caller should tell it apart."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says what, where and what is allowed."""

    def __str__(self) -> str:
        """Return what is wrong; where it was made of several texts, each is a line: a fault of its own."""
        return "\n".join(map(str, self.args))


class NotFetchedError(InputError):
    """Raised where weights are to be fetched and cannot be."""


class DivergedError(ArithmeticError):
    """Training diverged: the loss or the weights became NaN or infinite, or the loss blew up.

    Attributes:
        task: The task (1-based) in which it happened.
        step: The optimiser step (1-based) within that task.
        what: What happened, in a few words.
    """

    def __init__(self, task: int, step: int, what: str = "loss is not finite") -> None:
        super().__init__(f"{what} at task {task}, step {step}")
        self.task = task
        self.step = step
        self.what = what

    def __reduce__(self) -> tuple[type[DivergedError], tuple[int, int, str]]:
        return type(self), (self.task, self.step, self.what)
