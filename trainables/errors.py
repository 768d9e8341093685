"""The kinds of errors of a trial that a caller tells apart."""

from __future__ import annotations


class InputError(ValueError):
    """A mistake of the user; the message is one line with the value, its place and the allowed values."""

    def __str__(self) -> str:
        """Return the message; an error of several faults has a line for each."""
        return "\n".join(map(str, self.args))


class NotFetchedError(InputError):
    """Weights could not be fetched."""


class DivergedError(ArithmeticError):
    """Training diverged: the loss or the weights became NaN or infinite, or the loss blew up.

    Tasks, and optimiser steps within a task, count from 1. `what` is the event in a few words.
    """

    def __init__(self, task: int, step: int, what: str = "loss is not finite") -> None:
        super().__init__(f"{what} at task {task}, step {step}")
        self.task, self.step, self.what = task, step, what

    def __reduce__(self) -> tuple[type[DivergedError], tuple[int, int, str]]:
        return type(self), (self.task, self.step, self.what)
