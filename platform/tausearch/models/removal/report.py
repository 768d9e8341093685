"""What is known of a removal: the classes, where their images land now, and a membership test; plain values."""

from __future__ import annotations

from collections.abc import Sequence

from checked_input.schema import Strict

_STILL_IN = "Outside this composition, all of it is still in "
_AND_IN = (
    ", any other run on these images, the pre-consolidation cache, earlier exports, and MLflow's entries and artifacts."
)


class Separation(Strict):
    """How well a loss tells the training images of a class from its test images."""

    auc: float  # share of pairs in which the training image has the lower loss, from 0 to 1; 0.5 cannot tell them apart
    low: float  # lower end of the 95 % interval, see `membership.interval`
    high: float  # its upper end

    def text(self) -> str:
        """Return the area and its interval."""
        return f"{self.auc:.2f} ({self.low:.2f} to {self.high:.2f})"


class AnswerShare(Strict):
    """Share of a forgotten class's test images that are answered with another class, percent, mean over the seeds."""

    label: str
    before: float
    after: float


class ForgottenClass(Strict):
    """One class that was taken out."""

    number: int  # its place in the class order of the run, from 1
    task: int  # its task in the run, from 1
    name: str | None  # its name; None in files of exported models, which do not hold it
    train: int  # number of its training images
    test: int  # number of its test images
    itself: float  # share of its test images that the run answered with it, percent, mean over the seeds
    others: float  # the same for other classes that were taken out
    answers: tuple[AnswerShare, ...]  # the other classes, the largest share after the removal first
    class_loss: Separation  # membership by the cross-entropy of the class, before; afterwards there is none
    own_loss_before: Separation  # membership by the cross-entropy of the model's own answer
    own_loss_after: Separation  # the same after the removal


class RemovalReport(Strict):
    """A removal and what it has changed. Tasks have their numbers of the run."""

    tasks: tuple[int, ...]  # the tasks with a class left, in the order of the composition's tasks
    classes: tuple[ForgottenClass, ...]  # the classes that were taken out
    before: tuple[tuple[float, ...], ...]  # of each seed: the run's accuracy on their images that are left, percent
    left_out: tuple[str, ...]  # what the composition no longer holds, a line each
    remains: tuple[str, ...]  # what may still depend on images of the forgotten classes, a line each
    retrained: str | None = None  # the run whose tasks were trained again without these classes; None where none was

    @property
    def forgotten(self) -> frozenset[int]:
        """The classes that were taken out, positions in the class order."""
        return frozenset(each.number - 1 for each in self.classes)

    def with_renamed_run(self, old: str, new: str) -> RemovalReport:
        """Return the report with the name `new` for a run that was called `old`."""
        retrained = new if self.retrained == old else self.retrained
        remains = (_with_renamed_holder(line, old, new) for line in self.remains)
        return self.model_copy(update={"retrained": retrained, "remains": tuple(remains)})

    def unnamed(self) -> RemovalReport:
        """Return the report without the names of the forgotten classes."""
        return self.model_copy(
            update={"classes": tuple(each.model_copy(update={"name": None}) for each in self.classes)}
        )


def still_in(holders: Sequence[str]) -> str:
    """Return the line about the runs that have seen the images of forgotten classes."""
    return f"{_STILL_IN}{', '.join(holders)}{_AND_IN}"


def _with_renamed_holder(line: str, old: str, new: str) -> str:
    if not (line.startswith(_STILL_IN) and line.endswith(_AND_IN)):
        return line
    holders = line.removeprefix(_STILL_IN).removesuffix(_AND_IN).split(", ")
    return still_in([new if each == old else each for each in holders])
