"""A run beside its bounds: chance, the frozen backbone with probed classifiers, and joint training.

An accuracy alone does not say whether a method has learned much. A bound counts if it was measured on the same images,
tasks, split and backbone, and for a final run on the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tausearch.runs.parts.reading import read_spec
from tausearch.runs.parts.spec import MultiSearchSpec
from tausearch.runs.specs.kinds import AnySpec
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.status import RunStatus, read_status
from tausearch.runs.storage import LONGEST_NAME, Storage, run_command
from tausearch.runs.trials import TrialSummary
from trainables.config import BOUNDS
from trainables.user_code import code_option

_OF_CHANCE = 2.0  # times chance, below which little of a task is left
_OF_LEARNED = 0.5  # of a task's accuracy right after it was learned


@dataclass(frozen=True)
class Bound:
    """A bound that was measured: the accuracy of a run of `probe` or `joint`, percent."""

    method: str
    run: str
    accuracy: float


@dataclass(frozen=True)
class BesideBounds:
    """The accuracy of a run beside its bounds, percent; `chance` is None where the classes are not known."""

    run: str
    root: Path  # the storage root of the run
    accuracy: float
    chance: float | None
    found: tuple[Bound, ...]  # the lower one first; of several runs the most accurate
    missing: tuple[str, ...]  # those without a finished run
    trial: int | None = None  # chosen by fresh runs; `accuracy` is from the search's own split, as for the bounds
    address: str | None = None  # address of the Ray cluster that the run's last driver joined, if it did
    code: tuple[str, ...] = ()  # `RunSpec.code` of the run

    def __str__(self) -> str:
        return self.line(f"{run_command('resume', self.run, self.root)}{code_option(*self.code)}")

    def line(self, resume: str) -> str:
        """Return the accuracy and its bounds in a line; `resume` is the command that measures the missing ones."""
        known = [] if self.chance is None else [f"chance {self.chance:.2f} %"]
        known += [f"{each.method} {each.accuracy:.2f} % ({each.run})" for each in self.found]
        advice = f"(`{resume} --with-bounds` runs {'it' if len(self.missing) == 1 else 'them'})"
        missing = f"missing here: {', '.join(self.missing)} {advice}" if self.missing else ""
        own = "" if self.trial is None else f" (trial {self.trial} on the search's own split)"
        beside = f"{self.accuracy:.2f} %{own} beside {', '.join(known)}" if known else ""
        return "; ".join(filter(None, [beside, missing]))

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `--format json` prints."""
        found = [vars(each) for each in self.found]
        trial = {} if self.trial is None else {"trial": self.trial}
        return {
            "accuracy": self.accuracy,
            **trial,
            "chance": self.chance,
            "found": found,
            "missing": list(self.missing),
        }


def beside_bounds(status: RunStatus, storage: Storage) -> BesideBounds | None:
    """Return a run of a storage beside its bounds; None before it has an accuracy, or on several benchmarks.

    Other runs that cannot be read are passed over.
    """
    accuracy = _accuracy(status)
    if accuracy is None or isinstance(status.spec, MultiSearchSpec):
        return None
    spec = status.spec
    specs, _ = storage.read_each(read_spec)
    alike = [storage.run(each.name) for each in specs if each.method in BOUNDS and _comparable(each, spec)]
    wanted = tuple(method for method in BOUNDS if method != spec.method)
    best: dict[str, Bound] = {}
    for other in storage.read_each(read_status, among=alike)[0]:
        if other.state == "finished" and (value := _accuracy(other)) is not None:
            bound = Bound(other.spec.method, other.spec.name, value)
            best[bound.method] = max(bound, best.get(bound.method, bound), key=lambda each: each.accuracy)
    found = tuple(best[method] for method in wanted if method in best)
    missing = tuple(method for method in wanted if method not in best)
    trial = None if status.best is None or status.reevaluation is None else status.best.number
    return BesideBounds(spec.name, storage.root, accuracy, chance(spec), found, missing, trial, spec.address, spec.code)


def bound_name(run: str, method: str) -> str:
    """Return the name of the run of a bound that goes with a run (`--with-bounds`); of a long name the beginning."""
    return f"{run[: LONGEST_NAME - len(method) - 1]}-{method}"


def chance(spec: RunSpec) -> float | None:
    """Return the accuracy of a guess among all classes, percent; None where the classes are not known."""
    return None if spec.class_count is None else 100.0 / spec.class_count


def little_left(spec: RunSpec, trials: Sequence[TrialSummary]) -> str | None:
    """Return the tasks that have lost much since they were learned, with both mean accuracies; None without one.

    That is an accuracy below half of that right after the task was learned, or a lower one that is below twice chance.
    """
    lines = [
        f"{spec.task_title(task)} ({end:.0f} %, {learned:.0f} % when it was learned)"
        for task, learned, end in _learned_and_left(spec, trials)
        if end < _OF_LEARNED * learned or (round(end) < round(learned) and _near_chance(spec, end))
    ]
    return "; ".join(lines) or None


def hardly_learned(spec: RunSpec, trials: Sequence[TrialSummary]) -> str | None:
    """Return the tasks below twice chance that lost nothing since they were learned; None without one."""
    lines = [
        f"{spec.task_title(task)} ({end:.0f} %)"
        for task, learned, end in _learned_and_left(spec, trials)
        if round(end) >= round(learned) and _near_chance(spec, end)
    ]
    return "; ".join(lines) or None


def _near_chance(spec: RunSpec, accuracy: float) -> bool:
    guess = chance(spec)
    return guess is not None and accuracy < _OF_CHANCE * guess


def _learned_and_left(spec: RunSpec, trials: Sequence[TrialSummary]) -> Iterator[tuple[int, float, float]]:
    """Yield each task with its accuracy right after it was learned, and at the end, means over finished trials."""
    finished = [trial for trial in trials if trial.status == "complete" and trial.rows]
    if isinstance(spec, MultiSearchSpec):
        return  # its steps are benchmarks, of which nothing is forgotten
    for task in range(1, spec.protocol.tasks + 1) if finished else ():
        name = spec.metrics.accuracy(task)
        if any(name not in trial.rows[-1] for trial in finished):
            continue
        learned = fmean(next(row[name] for row in trial.rows if name in row) for trial in finished)
        yield task, learned, fmean(trial.rows[-1][name] for trial in finished)


def _accuracy(status: RunStatus) -> float | None:
    """Return the mean over the seeds of a final run, or the accuracy of a search's choice on the search's own split."""
    if status.score is not None:
        return status.score.mean
    return None if status.best is None else status.best.value


def _comparable(bound: AnySpec, spec: AnySpec) -> bool:
    """Whether two runs were measured on the same images, tasks, split and backbone, whatever their method."""
    if (bound.purpose, bound.benchmark) != (spec.purpose, spec.benchmark):
        return False
    if bound.data is not None and spec.data is not None and not bound.data.has_images_of(spec.data):
        return False
    if bound.purpose == "final" and spec.purpose == "final" and set(bound.seeds) != set(spec.seeds):
        return False
    ignored = {"backbone_weights", "initial_head", *({"split_seed"} if spec.purpose == "final" else ())}
    return bound.protocol.model_dump(exclude=ignored) == spec.protocol.model_dump(exclude=ignored)
