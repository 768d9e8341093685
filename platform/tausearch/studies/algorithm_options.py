"""Check the options of a search: algorithm, scheduler, constraints and re-evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from checked_input.names import choices, counted
from checked_input.ranges import TASKS
from search_spaces import Scalar
from tausearch.runs import (
    FINAL_ACCURACY,
    SCHEDULERS,
    Constraint,
    Objective,
    Reevaluate,
    SearchSpec,
    objectives_of,
    preferred,
    row_metrics,
)
from tausearch.studies.algorithms import algorithm_named
from tausearch.studies.schedulers import FIRST_STOP, first_stop_with, pruner_named
from trainables.errors import Faults, InputError
from trainables.metrics import PEAK_GPU_BYTES, VALIDATION

if TYPE_CHECKING:  # torch takes seconds to import
    from trainables.methods import MethodEntry

USUAL_REEVALUATION = Reevaluate(best=3, runs=2, start=True)  # measured in docs/explanation/what-helps.md
_Name = TypeVar("_Name", bound=str)


def one_of(kind: str, name: str, allowed: Sequence[_Name]) -> _Name:
    """Return a name if it is allowed; raises an `InputError` if it is not."""
    for each in allowed:
        if each == name:
            return each
    raise InputError(f"unknown {kind} {name!r}; {choices(name, allowed)}")


def requested_reevaluation(
    best: int | None, runs: int | None, trials: int, known: Reevaluate | None = None
) -> Reevaluate | None:
    """Return the re-evaluation of `--reevaluate`, 0 for none, and `--reevaluate-runs`; None keeps that of `known`."""
    wanted = best if best is not None or known is None else known.best
    if not wanted:
        if runs is not None:
            raise InputError(f"--reevaluate-runs {runs}: goes with --reevaluate, the number of trials to run again")
        return None
    if wanted > trials:
        raise InputError(f"--reevaluate {wanted}: the search has {counted(trials, 'trial')}")
    return Reevaluate(best=wanted, runs=runs or (known or USUAL_REEVALUATION).runs, start=True)


def usual_reevaluation(embedded: bool, few_images: bool, trials: int) -> Reevaluate | None:
    """Return the default for a search of so many trials. Re-evaluating the best costs at most half of them.

    A trial takes seconds if benchmark and backbone are `embedded`; if `few_images` judge, one split chooses by luck.
    """
    affordable = 2 * USUAL_REEVALUATION.best * USUAL_REEVALUATION.runs <= trials
    return USUAL_REEVALUATION if (embedded or few_images) and affordable else None


def require_scheduler(
    name: str,
    algorithm: str,
    steps: int,
    options: Mapping[str, Scalar],
    first_stop: int = FIRST_STOP,
    *,
    begun: bool = False,
) -> None:
    """Check the scheduler of a search by name; one that has begun may go on with what earlier versions allowed."""
    pruner_named(name, options, first_stop)
    # Not in its constructor: searches of earlier versions go on with 0 or 2.0.
    if name == "median" and not begun and (fault := TASKS.fault(options.get("first_stop", first_stop))):
        raise InputError(f"pruner 'median': first_stop {fault}")
    if fault := scheduler_fault(name, algorithm, steps, first_stop_with(name, options, first_stop)):
        raise InputError(f"--scheduler {name}: {fault}")


def scheduler_fault(scheduler: str, algorithm: str, steps: int, first_stop: int = FIRST_STOP) -> str | None:
    """Return why a scheduler can do nothing for an algorithm and trials of so many tasks; None if it can."""
    if scheduler != "none" and algorithm_named(algorithm).needs_complete_trials:
        return f"{algorithm} learns nothing from trials that were stopped; allowed with it: none"
    if scheduler in SCHEDULERS and scheduler != "none" and steps <= first_stop:
        return f"stops no trial before task {first_stop}, and a trial has {steps}; allowed: none"
    return None


def constraints_named(texts: Sequence[str], entry: MethodEntry, tasks: int, on_gpu: bool) -> tuple[Constraint, ...]:
    """Return the constraints of a search with a method; trials on a GPU report the memory that they take, too."""
    metrics = _metrics(entry, tasks, on_gpu)
    faults, found = Faults(), []
    for text in texts:
        with faults:
            found.append(Constraint.parse(text, metrics))
    faults.raise_all()
    for number, each in enumerate(found):
        if each.metric in VALIDATION.removability and (fault := entry.removability_fault(tasks)):
            raise InputError(f"--constraint {texts[number]}: {fault}")
        if any((each.metric, each.relation) == (other.metric, other.relation) for other in found[:number]):
            raise InputError(f"--constraint {texts[number]}: {each.metric} has a bound on this side already")
        if (other := next((other for other in found[:number] if other.excludes(each)), None)) is not None:
            raise InputError(f"--constraint {texts[number]}: no trial can keep it together with {other}")
    return tuple(found)


def objectives_named(
    texts: Sequence[str], prefer: str | None, entry: MethodEntry, tasks: int, on_gpu: bool
) -> tuple[tuple[Objective, ...], str]:
    """Return the objectives of a search with a method, and the rule that chooses a point of their front."""
    found = objectives_of(texts, _metrics(entry, tasks, on_gpu))
    if [each.metric for each in found] == [VALIDATION.forgetting] and (entry.capabilities.joint or tasks == 1):
        raise InputError("--objective forgetting: 0 for every trial, as nothing is forgotten in one task")
    for each in found:
        if each.metric in VALIDATION.removability and (fault := entry.removability_fault(tasks)):
            raise InputError(f"--objective {each.name}: {fault}")
    return found, preferred(prefer, found)


def require_alone(objectives: Sequence[Objective], scheduler: str, patience: int | None, target: float | None) -> None:
    """Refuse objectives with a scheduler, which compares accuracies, or with an end of the search that does not fit."""
    if objectives and scheduler != "none":
        raise InputError(f"--scheduler {scheduler}: stops trials by accuracy; allowed with --objective: none")
    if len(objectives) > 1 and (patience is not None or target is not None):
        option = "--target" if patience is None else "--patience"
        raise InputError(f"{option}: goes with one objective, as a front has no single best")
    if target is not None and (fault := (*objectives, FINAL_ACCURACY)[0].target_fault(target)):
        raise InputError(f"--target {target:g}: {fault}")


def require_patience(patience: int | None, spec: SearchSpec) -> None:
    """Raise an `InputError` if too few trials of a search count for a patience ever to end it; see `StopRule`."""
    if patience is not None and patience > spec.counting:
        which = f", of which the last {spec.counting} count" if spec.stop.since else ""
        trials = counted(spec.trials, "trial")
        raise InputError(f"--patience {patience}: cannot end a search of {trials}{which}; name fewer")


def _metrics(entry: MethodEntry, tasks: int, on_gpu: bool) -> list[str]:
    """Return the names of all metrics that trials of a method can report."""
    extra = [metric.name for metric in entry.metrics] + [PEAK_GPU_BYTES] * on_gpu
    metrics = row_metrics(tasks, VALIDATION, [*extra, *VALIDATION.removability])
    if entry.capabilities.joint:
        metrics.remove(VALIDATION.average_incremental_accuracy)
    return metrics
