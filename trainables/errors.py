"""The kinds of errors of a trial that a caller tells apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from checked_input.errors import InputError as InputError  # the packages below this one raise it, too


@contextmanager
def faults_of(place: str) -> Iterator[None]:
    """Have the faults of an InputError of the block begin with a place."""
    try:
        yield
    except InputError as error:
        raise InputError(*(f"{place}: {fault}" for fault in error.args)) from error


class Faults:
    """Mistakes of the user in independent parts of a request, to be said together.

    Each part is checked in a `with` of its own, which keeps its `InputError`; then `raise_all`.
    """

    def __init__(self) -> None:
        self._found: list[InputError] = []

    def __enter__(self) -> None:
        """Check a part."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Keep a mistake; other errors go on."""
        if isinstance(error, InputError):
            self._found.append(error)
        return isinstance(error, InputError)

    def __bool__(self) -> bool:
        """Whether a mistake was kept."""
        return bool(self._found)

    def raise_all(self) -> None:
        """Raise the mistakes that were kept, if there are any: one as it is, several as one error, each once."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise InputError(*dict.fromkeys(fault for each in self._found for fault in each.args))


class NoTasksError(InputError):
    """Nobody has said which classes of images form a task."""


class NotFetchedError(InputError):
    """Weights could not be fetched."""


class OtherImagesError(InputError):
    """The numbers of images are not those that a run began with, from which its split was drawn."""


class DivergedError(ArithmeticError):
    """Training diverged: the loss or the weights became NaN or infinite, or the loss blew up.

    Tasks, and optimiser steps within a task, count from 1; the step is None where it is not known. `what` is the event
    in a few words.
    """

    def __init__(self, task: int, step: int | None = None, what: str = "loss is not finite") -> None:
        super().__init__(f"{what} at task {task}" + ("" if step is None else f", step {step}"))
        self.task, self.step, self.what = task, step, what

    def __reduce__(self) -> tuple[type[DivergedError], tuple[int, int | None, str]]:
        return type(self), (self.task, self.step, self.what)
