"""Usual settings that do not suit few images of the user's own: what a method or a benchmark says before a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnImages:
    """The user's own training images, without those that a search holds out, and how a run passes over them."""

    per_task: tuple[int, ...]  # number of images of each task
    classes: tuple[int, ...]  # number of classes of each task; empty where the classes of a task are not known
    batch_size: int
    epochs: int

    @property
    def task(self) -> int:
        """Number of images of a task, on average."""
        return max(1, round(sum(self.per_task) / len(self.per_task)))

    @property
    def steps(self) -> int:
        """Batches of an epoch of a task, on average."""
        return -(-self.task // self.batch_size)

    @property
    def per_class(self) -> int | None:
        """Number of images of a class, in the mean of the task with the fewest; None if unknown."""
        if len(self.classes) != len(self.per_task):
            return None
        return min(images // classes for images, classes in zip(self.per_task, self.classes, strict=True))


@dataclass(frozen=True)
class Unsuited:
    """A usual setting that does not suit the images; `str` is a line for people.

    Attributes:
        setting: Its name.
        reason: The usual value and why it does not suit, after the name.
        instead: The value that is used, or what can be set.
    """

    setting: str
    reason: str
    instead: str

    def __str__(self) -> str:
        return f"{self.setting} {self.reason}; {self.instead}"
