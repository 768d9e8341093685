"""Merge configurations: a weight for each task vector, and the rule that merges them. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from checked_input.names import choices
from tausearch.presentation import print_notices
from trainables.errors import InputError
from trainables.task_names import NamedTask, quoted, same_letters, task_called

if TYPE_CHECKING:  # imports torch
    from trainables.data import Removal

UnlearningMode = Literal["drop", "negate", "subtract"]
UNLEARNING_MODES: tuple[UnlearningMode, ...] = get_args(UnlearningMode)
PAPER_UNLEARNING_MODE: UnlearningMode = "subtract"  # nearest to the paper: docs/explanation/results-unlearning.md
LINEAR = "linear"  # the weighted sum, in place of a merging rule


@dataclass(frozen=True)
class MergeConfig:
    """How T task vectors become one composition."""

    label: str  # short name, fit for a file's name: `uniform`, `keep-1,5,10`, `drop-3-negate`
    weights: tuple[float, ...]  # w_t in the order of the tasks
    rule: str = LINEAR  # "linear" for the weighted sum, or another merging rule; see `composition.choose_rule`
    rule_parameters: Mapping[str, float] = field(default_factory=dict)  # the value of each of the rule's parameters

    def merged_by(self, rule: str, parameters: Mapping[str, float]) -> MergeConfig:
        """Return the same weights with another rule, which the label names."""
        parts = [] if rule == LINEAR else [rule.replace(":", "."), *map(_exact, parameters.values())]
        return MergeConfig("-".join([self.label, *parts]), self.weights, rule, parameters)


def rule_words(rule: str, parameters: Mapping[str, float]) -> str:
    """Return a rule with its parameters, as `ties, density 0.25`."""
    return ", ".join([rule, *(f"{name} {value:g}" for name, value in parameters.items())])


def uniform(count: int) -> MergeConfig:
    """Return equal weights that sum to 1, as in the run's own evaluation."""
    return MergeConfig("uniform", (1 / count,) * count)


def keeping(count: int, tasks: Sequence[int]) -> MergeConfig:
    """Return equal weights of some tasks that sum to 1, and 0 for the others: specialisation."""
    return MergeConfig(f"keep-{_list(sorted(tasks))}", _equal(count, tasks))


def dropping(count: int, tasks: Sequence[int], mode: UnlearningMode = "drop", *, adds_up: bool = False) -> MergeConfig:
    """Return the weights of `count` task vectors that unlearn some tasks.

    The paper subtracts "its associated task vector from the composition" and gives no coefficient. Hence three modes:
    "drop" composes the others alone, with weights that sum to 1. "negate" replaces 1/T by -1/T. "subtract" takes the
    whole vector from the uniform composition, 1/T - 1. Where vectors add up, the composition has each of them whole, so
    that "subtract" leaves the others, as "drop" does.
    """
    label = f"drop-{_list(sorted(tasks))}" + ("" if mode == "drop" else f"-{mode}")
    if mode == "drop" or (adds_up and mode == "subtract"):
        return MergeConfig(label, _equal(count, [t for t in range(1, count + 1) if t not in tasks]))
    own = -1 / count if mode == "negate" else 1 / count - 1
    return MergeConfig(label, tuple(own if t in tasks else 1 / count for t in range(1, count + 1)))


def removal_config(removal: Removal, *, retrained: bool = False) -> MergeConfig:
    """Return the weights of the tasks that a removal leaves; the label has the places of the classes, from 1.

    Where tasks were trained again without the classes, each task that is left has a vector. The run that was trained so
    has other places, and removals of its own.
    """
    label = f"forget-class-{_list([c + 1 for c in sorted(removal.forgotten)])}"
    if retrained:
        return MergeConfig(f"{label}-retrained", uniform(len(removal.tasks)).weights)
    return MergeConfig(label, removal.weights)


def merge_config_of(
    count: int,
    *,
    keep: Sequence[int] | None,
    drop: Sequence[int] | None,
    coefficient: str | None,
    weights: Sequence[float] | None,
    adds_up: bool = False,
) -> MergeConfig:
    """Return the weights for the options of a `ComposeRequest`; `adds_up`: the network composes sums, not means."""
    if drop is not None and (keep is not None or weights is not None):
        raise InputError(f"--drop and --{'keep' if keep is not None else 'weights'}: choose one of them")
    if coefficient is not None and drop is None:
        raise InputError("--coefficient: says how to unlearn, so it goes with --drop alone")
    for option, tasks in (("keep", keep), ("drop", drop)):
        if tasks is not None:
            require_tasks(option, tasks, count)
    if weights is not None:
        return _weighted(count, keep, weights)
    if keep is not None:
        return keeping(count, keep)
    if drop is None:
        return uniform(count)
    mode = next((mode for mode in UNLEARNING_MODES if mode == (coefficient or "drop")), None)
    if mode is None:
        raise InputError(f"unknown coefficient {coefficient!r}; {choices(coefficient, UNLEARNING_MODES)}")
    if mode == "drop" and len(drop) == count:
        raise InputError(f"--drop {_list(drop)}: leaves no task of {count}")
    return dropping(count, drop, mode, adds_up=adds_up)


def central_three(count: int) -> tuple[int, ...]:
    """Return the tasks of the paper's specialisation: first, central (the earlier of two), last."""
    return tuple(sorted({1, (count + 1) // 2, count}))


def require_tasks(option: str, tasks: Sequence[int], count: int) -> None:
    """Require at least one task, all different and from 1 to `count`."""
    unknown = [t for t in tasks if not 1 <= t <= count]
    if unknown:
        raise InputError(f"--{option}: there is no task {unknown[0]}; allowed: 1 to {count}")
    if not tasks or len(set(tasks)) < len(tasks):
        raise InputError(f"--{option} must be different tasks, got {_list(tasks)!r}")


def tasks_called(option: str, given: Sequence[int | str], tasks: Sequence[NamedTask]) -> list[int]:
    """Return the numbers of tasks given by number or name, and say so where a class stands for more than itself.

    Unknown names are refused; for numbers see `require_tasks`.
    """
    known = [name for task in tasks for name in (task.label, *task.classes)]
    given = [same_letters(each, known) if isinstance(each, str) else each for each in given]
    numbers = [task_called(option, each, tasks) for each in given]
    if all(isinstance(each, int) for each in given):
        return numbers
    for each, number in zip(given, numbers, strict=True):
        task = tasks[number - 1] if 0 < number <= len(tasks) else None
        if task is not None and each in task.classes and each != task.name and not set(task.classes) <= set(given):
            print_notices(
                f"--{option}: {quoted(str(each))} is a class of task {number}, {task.words}, which is taken whole"
            )
    return list(dict.fromkeys(numbers))  # two classes may name one task


def _weighted(count: int, keep: Sequence[int] | None, weights: Sequence[float]) -> MergeConfig:
    tasks = list(range(1, count + 1)) if keep is None else list(keep)
    if len(weights) != len(tasks):
        which = "task vectors" if keep is None else "tasks of --keep"
        raise InputError(f"--weights: needs one for each of {len(tasks)} {which}, got {len(weights)}")
    if not all(map(math.isfinite, weights)):
        raise InputError(f"--weights must be finite numbers, got {', '.join(map(str, weights))}")
    given = dict(sorted(zip(tasks, weights, strict=True)))
    label = "weights-" + ",".join(map(_exact, given.values())) + ("" if keep is None else f"-of-{_list(list(given))}")
    return MergeConfig(label, tuple(float(given.get(t, 0.0)) for t in range(1, count + 1)))


def _equal(count: int, tasks: Sequence[int]) -> tuple[float, ...]:
    return tuple(1 / len(tasks) if t in tasks else 0.0 for t in range(1, count + 1))


def _exact(value: float) -> str:
    """Return a number in as few digits as tell it from all others: labels of different compositions differ."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _list(tasks: Sequence[int]) -> str:
    return ",".join(map(str, tasks))
