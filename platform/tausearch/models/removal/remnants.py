"""What a composition without some classes no longer holds, and what may still depend on their images: plain lines.

Source: `trainables.preconsolidation.consolidation` and `trainables.methods.composable`. The pre-consolidation of task t
reads the images of task t, the mixtures of classes before it and the sum of Fisher matrices before it. So a task that
came before the forgotten classes holds nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tausearch.runs import Retraining
from trainables.data import Removal
from trainables.methods import known_method


def left_out_lines(removal: Removal, retrained: Retraining | None = None) -> tuple[str, ...]:
    """Return what the composition no longer holds, or what was learned again without the classes."""
    again = [] if retrained is None else removal.tasks[retrained.kept :]
    return (
        f"{_tasks(removal.touched)}: the whole task vector, which is learned from all classes of a task",
        *([f"{_tasks(again)}: learned again without the forgotten images, with h0, mixtures and Fisher"] * bool(again)),
        f"{len(removal.forgotten)} of {sum(map(len, removal.task_classes))} classes: rows of the classifier and of h0,"
        " names",
        "their mixtures and Fisher matrices: no composition ever holds them",
    )


def remaining_after_retraining(run: str) -> Iterator[str]:
    """Yield what may still depend on images of forgotten classes once later tasks were learned again without them."""
    yield "No part of this model was learned from images of the forgotten classes."
    yield from _outside(run)


def remaining_lines(removal: Removal, methods: Sequence[str], regularised: Sequence[str], runs: str) -> Iterator[str]:
    """Yield what may still depend on images of the forgotten classes.

    Args:
        removal: The removal.
        methods: The method of each task of the run.
        regularised: The hyperparameter `regularise` of each task's run; "all" where unknown.
        runs: The names of the runs.
    """
    if removal.partial:
        yield (
            f"{_tasks(removal.partial)}: the rows of its other classes are those of h0. They were probed on theta_0 and"
            " aligned against all classes up to it, so images of forgotten classes have pushed them away."
        )
    later = [task for task in removal.tasks if task > removal.touched[0] and task not in removal.touched]
    composable = [task for task in later if methods[task - 1].startswith(("ita", "iel", "tak"))]
    if composable:
        yield (
            f"{_tasks(composable)}: h0, to which its rows of the classifier are tied, was aligned with draws from the"
            " mixtures of all classes up to it, forgotten ones among them."
        )
    summed = [task for task in composable if methods[task - 1] == "tak" and regularised[task - 1] != "none"]
    if summed:
        yield (
            f"{_tasks(summed)}: how firmly its task vector was held is the curvature of the features on all tasks"
            " before it, forgotten images among them, unless its references were generic."
        )
    tied = [task for task in composable if task not in summed and regularised[task - 1] != "none"]
    if tied:
        what = "its task vector and rows were" if {regularised[t - 1] for t in tied} == {"all"} else "its rows were"
        yield (
            f"{_tasks(tied)}: how firmly {what} held is the mean curvature (Fisher) over all tasks up to it,"
            " forgotten images among them."
        )
    composed = [task for task in composable if methods[task - 1].startswith("iel")]
    if composed:
        yield (
            f"{_tasks(composed)}: IEL trained its vector inside the composition of all vectors up to it, those that"
            " are gone among them; so it has adapted to them."
        )
    if not later and not removal.partial:
        yield "No other part of this composition was learned from images of the forgotten classes."
    others = {methods[task - 1] for task in later if task not in composable}
    unknown = sorted(method for method in others if not _learns_alone(method))
    if unknown:
        yield f"{', '.join(unknown)}: what its later tasks have of forgotten images is not known to this tool."
    elif others and not composable and not removal.partial:
        name = " and ".join(sorted(others)).upper()
        yield f"{name} learns each task alone from theta_0, so no other vector has learned from forgotten images."
    yield from _outside(runs)


def _learns_alone(method: str) -> bool:
    """Whether a task of the method depends on no image of another task, as it declares itself."""
    entry = known_method(method)
    return entry is not None and entry.capabilities.whole_classifier


def _outside(runs: str) -> Iterator[str]:
    """Yield what no composition and no training of a later task can change."""
    yield "The hyperparameters: a search on the same images may have chosen them."
    yield "theta_0: its own training may have seen such images."
    yield f"Outside this composition: {runs}, the pre-consolidation cache and earlier exports still hold all of it."


def _tasks(tasks: Sequence[int]) -> str:
    return f"task{'s' if len(tasks) > 1 else ''} {', '.join(map(str, tasks))}"
