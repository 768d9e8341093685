"""What a composition without some classes no longer holds, and what may still depend on their images: plain lines.

Each method declares what its tasks keep of images of earlier tasks (`MethodEntry.remnants`). A task before the
forgotten classes holds nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tausearch.models.removal.report import still_in
from tausearch.runs import Retraining
from trainables.data import Removal
from trainables.methods import known_method
from trainables.task_names import numbered

WORDS = (
    "theta_0 is the pre-trained backbone. h0 is a task's classifier before training: probed on features of theta_0,"
    " then aligned, which trains it on draws from the mixtures. Mixtures are Gaussians of the features of a class's"
    " training images. A Fisher matrix says how much each weight matters for the images of a task."
)


def removed_content_lines(removal: Removal, retrained: Retraining | None) -> tuple[str, ...]:
    """Return what the composition no longer holds, or what was learned again without the classes."""
    relearned = [] if retrained is None else removal.tasks[retrained.kept :]
    zeros = removal.partial if retrained is None else []
    return (
        f"{numbered(removal.touched)}: the whole task vector that was learned from all classes of the task",
        *([f"{numbered(zeros)}: in `vectors`, zeros (for IA3 ones) stand in its place"] * bool(zeros)),
        *(
            [f"{numbered(relearned)}: learned again without these images (new vector, h0, mixtures, Fisher)"]
            * bool(relearned)
        ),
        f"{len(removal.forgotten)} of {sum(map(len, removal.task_classes))} classes: rows of the classifier and of h0,"
        " names",
        "mixtures and Fisher matrices of the forgotten classes, which no composition has",
    )


def remaining_after_retraining(holders: Sequence[str]) -> Iterator[str]:
    """Yield what may still depend on images of forgotten classes once later tasks were learned again without them."""
    yield "No part of this model was learned from images of the forgotten classes."
    yield from _outside(holders)


def remaining_lines(
    removal: Removal, methods: Sequence[str], known: Sequence[Mapping[str, Any]], holders: Sequence[str]
) -> Iterator[str]:
    """Yield what may still depend on images of the forgotten classes.

    `methods` and `known` are the method of each task and the hyperparameters of its run, as far as they are known;
    `holders` the names of the runs that have seen the images.
    """
    if removal.partial:
        yield (
            f"{numbered(removal.partial)}: the rows of its other classes are those of h0. They were probed on theta_0"
            " and aligned against all classes up to it, so images of forgotten classes have pushed them away."
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
    yield from (f"{numbered(tasks)}: {sentence}" for sentence, tasks in kept.items())
    if not later and not removal.partial:
        yield "No other part of this composition was learned from images of the forgotten classes."
    if unknown:
        yield f"{', '.join(sorted(unknown))}: what its later tasks have of forgotten images is not known to this tool."
    elif alone and not kept and not removal.partial:
        name = " and ".join(sorted(alone)).upper()
        yield f"{name} learns each task alone from theta_0, so no other vector has learned from forgotten images."
    if (kept or removal.partial) and set(removal.tasks) <= set(removal.single):
        yield "No training removes the above: a task is not trained on one class, and no other task is left."
    elif kept or removal.partial:
        needs = f", and a task is not trained on one class: it needs all of {numbered(removal.single)} to be forgotten"
        yield f"`--retrain-later` removes all of the above, but none of the following{needs if removal.single else ''}."
    yield from _outside(holders)


def _outside(holders: Sequence[str]) -> Iterator[str]:
    """Yield what no composition and no training of a later task can change."""
    yield "The hyperparameters: a search on the same images may have chosen them."
    yield "theta_0: its own training may have seen such images."
    yield still_in(holders)
