"""Which weights a composition has: from keeping, dropping and unlearning tasks to one number per task vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trainables.errors import InputError

Coefficient = Literal["drop", "negate", "subtract"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)
DEFAULT_COEFFICIENT: Coefficient = "drop"  # of --drop, which so is --keep of the others
PAPERS_READING: Coefficient = "subtract"  # whose gains are nearest to the paper's on our benchmarks; docs/results.md


@dataclass(frozen=True)
class Weighing:
    """What a composition is called, and the weight of each task vector.

    Attributes:
        label: In a few letters that can name a file: `uniform`, `keep-1,5,10`, `drop-3-negate`.
        weights: w_t in the order of the tasks.
    """

    label: str
    weights: tuple[float, ...]


def uniform(count: int) -> Weighing:
    """Return equal weights that sum to 1, as the run itself evaluates."""
    return Weighing("uniform", (1 / count,) * count)


def keeping(count: int, tasks: Sequence[int]) -> Weighing:
    """Return equal weights of some tasks that sum to 1, and 0 for the others: specialisation."""
    return Weighing(f"keep-{_list(sorted(tasks))}", tuple(_one_of(t, tasks) for t in range(1, count + 1)))


def dropping(count: int, tasks: Sequence[int], coefficient: Coefficient = DEFAULT_COEFFICIENT) -> Weighing:
    """Return the weights that unlearn some tasks.

    The paper subtracts "its associated task vector from the composition" and gives no coefficient. Three readings:
    "drop" composes the others alone, with weights that sum to 1; "negate" has -1/T in the place of 1/T; "subtract"
    takes the whole vector from the uniform composition, 1/T - 1.

    Args:
        count: Number of task vectors, T.
        tasks: The tasks to unlearn, from 1.
        coefficient: The reading.
    """
    label = f"drop-{_list(sorted(tasks))}" + ("" if coefficient == "drop" else f"-{coefficient}")
    if coefficient == "drop":
        kept = [t for t in range(1, count + 1) if t not in tasks]
        return Weighing(label, tuple(_one_of(t, kept) for t in range(1, count + 1)))
    own = -1 / count if coefficient == "negate" else 1 / count - 1
    return Weighing(label, tuple(own if t in tasks else 1 / count for t in range(1, count + 1)))


def weighing_of(
    count: int,
    *,
    keep: Sequence[int] | None = None,
    drop: Sequence[int] | None = None,
    coefficient: str | None = None,
    weights: Sequence[float] | None = None,
) -> Weighing:
    """Turn what a user asks for into weights.

    Args:
        count: Number of task vectors, T.
        keep: Tasks to compose, from 1.
        drop: Tasks to unlearn, from 1.
        coefficient: How to unlearn, one of `COEFFICIENTS`.
        weights: A weight for each task, or for each task of `keep`.

    Returns:
        The weights; uniform if nothing is asked for.

    Raises:
        InputError: If a task does not exist, weights are too many or too few, or two wishes exclude each other.
    """
    if drop is not None and (keep is not None or weights is not None):
        raise InputError(f"--drop and --{'keep' if keep is not None else 'weights'}: choose one of them")
    if coefficient is not None and drop is None:
        raise InputError("--coefficient: says how to unlearn, so it goes with --drop alone")
    for option, tasks in (("keep", keep), ("drop", drop)):
        _require_tasks(option, tasks, count)
    if weights is not None:
        return _weighed(count, keep, weights)
    if keep is not None:
        return keeping(count, keep)
    if drop is None:
        return uniform(count)
    chosen = _coefficient(coefficient)
    if chosen == "drop" and len(drop) == count:
        raise InputError(f"--drop {_list(drop)}: leaves no task of {count}")
    return dropping(count, drop, chosen)


def central_three(count: int) -> tuple[int, ...]:
    """Return the tasks of the paper's specialisation: first, central, last; of an even number the earlier of two."""
    return tuple(sorted({1, (count + 1) // 2, count}))


def _weighed(count: int, keep: Sequence[int] | None, weights: Sequence[float]) -> Weighing:
    tasks = list(range(1, count + 1)) if keep is None else list(keep)
    if len(weights) != len(tasks):
        which = "task vectors" if keep is None else "tasks of --keep"
        raise InputError(f"--weights: needs one for each of {len(tasks)} {which}, got {len(weights)}")
    if not all(map(math.isfinite, weights)):
        raise InputError(f"--weights must be finite numbers, got {', '.join(map(str, weights))}")
    given = dict(zip(tasks, weights, strict=True))
    label = "weights-" + ",".join(f"{w:g}" for w in weights) + ("" if keep is None else f"-of-{_list(keep)}")
    return Weighing(label, tuple(float(given.get(t, 0.0)) for t in range(1, count + 1)))


def _require_tasks(option: str, tasks: Sequence[int] | None, count: int) -> None:
    if tasks is None:
        return
    unknown = [t for t in tasks if not 1 <= t <= count]
    if unknown:
        raise InputError(f"--{option}: there is no task {unknown[0]}; allowed: 1 to {count}")
    if not tasks or len(set(tasks)) < len(tasks):
        raise InputError(f"--{option} must be different tasks, got {_list(tasks)!r}")


def _coefficient(name: str | None) -> Coefficient:
    for each in COEFFICIENTS:
        if each == (name or DEFAULT_COEFFICIENT):
            return each
    raise InputError(f"unknown coefficient {name!r}; allowed: {', '.join(COEFFICIENTS)}")


def _one_of(task: int, tasks: Sequence[int]) -> float:
    return 1 / len(tasks) if task in tasks else 0.0


def _list(tasks: Sequence[int]) -> str:
    return ",".join(map(str, tasks))
