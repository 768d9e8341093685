"""What a composition without some classes no longer holds, and what may still depend on their images: plain lines.

Each method declares what its tasks keep of images of earlier tasks (`MethodEntry.remnants`). A task before the
forgotten classes holds nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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


def remaining_lines(
    removal: Removal, methods: Sequence[str], known: Sequence[Mapping[str, Any]], runs: str
) -> Iterator[str]:
    """Yield what may still depend on images of the forgotten classes.

    Args:
        removal: The removal.
        methods: The method of each task of the run.
        known: The hyperparameters of each task's run, as far as they are known.
        runs: The names of the runs.
    """
    if removal.partial:
        yield (
            f"{_tasks(removal.partial)}: the rows of its other classes are those of h0. They were probed on theta_0 and"
            " aligned against all classes up to it, so images of forgotten classes have pushed them away."
        )
    later = [task for task in removal.tasks if task > removal.touched[0] and task not in removal.touched]
    kept: dict[str, list[int]] = {}  # sentence to the tasks of which it is true
    alone, unknown = set(), set()
    for task in later:
        entry = known_method(methods[task - 1])
        if entry is None or entry.remnants is None:
            unknown.add(methods[task - 1])
            continue
        sentences = list(entry.remnants(known[task - 1]))
        for sentence in sentences:
            kept.setdefault(sentence, []).append(task)
        if not sentences:
            alone.add(methods[task - 1])
    yield from (f"{_tasks(tasks)}: {sentence}" for sentence, tasks in kept.items())
    if not later and not removal.partial:
        yield "No other part of this composition was learned from images of the forgotten classes."
    if unknown:
        yield f"{', '.join(sorted(unknown))}: what its later tasks have of forgotten images is not known to this tool."
    elif alone and not kept and not removal.partial:
        name = " and ".join(sorted(alone)).upper()
        yield f"{name} learns each task alone from theta_0, so no other vector has learned from forgotten images."
    yield from _outside(runs)


def _outside(runs: str) -> Iterator[str]:
    """Yield what no composition and no training of a later task can change."""
    yield "The hyperparameters: a search on the same images may have chosen them."
    yield "theta_0: its own training may have seen such images."
    yield f"Outside this composition: {runs}, the pre-consolidation cache and earlier exports still hold all of it."


def _tasks(tasks: Sequence[int]) -> str:
    return f"task{'s' if len(tasks) > 1 else ''} {', '.join(map(str, tasks))}"
