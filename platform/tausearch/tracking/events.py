"""What a callback is: the protocol, and one class for each event that it is told.

The driver tells a callback everything in order, in a thread of the callback's own. An event is told after the record
has what it says. A driver that was killed may not have told its last events. So the next driver of the run tells
`RunBegan` with all that the record has, and then every trial of the record again, marked as `repeated`: each event is
told at least once, if a driver ends in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tausearch.runs import RunSpec, Storage, Summary, TrialSummary, Verdict

RunKind = Literal["search", "reevaluation", "final"]
_KINDS: dict[str, RunKind] = {"trial": "search", "reevaluation": "reevaluation", "seed": "final"}


@dataclass(frozen=True)
class RunInfo:
    """The run that an event belongs to.

    Attributes:
        spec: Its specification, as `run.yaml` has it; later versions may have other fields.
        path: The run directory. Re-evaluations have a folder in that of their search.
        storage: The storage root.
    """

    spec: RunSpec
    path: Path
    storage: Storage

    @property
    def name(self) -> str:
        """The name of the run; re-evaluations have that of their search."""
        return self.spec.run_name

    @property
    def id(self) -> str:
        """Unique over all storage roots; re-evaluations have that of their search."""
        return self.spec.id

    @property
    def kind(self) -> RunKind:
        """A search, the re-evaluation of its best trials, or a final run."""
        return _KINDS[self.spec.role]

    @property
    def benchmark(self) -> str:
        """The benchmark, with its options."""
        return self.spec.benchmark

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.spec.method

    @property
    def trials(self) -> int:
        """Number of trials that the run has in the end, if none is eliminated."""
        return self.spec.trials


@dataclass(frozen=True)
class RunBegan:
    """A driver begins a run, or continues it. It is told when the first trial starts.

    Attributes:
        trials: The trials that earlier drivers have started, as the record has them; empty for a new run.
    """

    run: RunInfo
    trials: tuple[TrialSummary, ...] = ()

    @property
    def continued(self) -> bool:
        """Whether an earlier driver has started trials."""
        return bool(self.trials)


@dataclass(frozen=True)
class TrialBegan:
    """A trial begins. It is told again when the trial goes on after a failure of its process, or in a later driver.

    Attributes:
        trial: The trial, with the rows of the tasks that it has finished before. It may be kept, not changed.
        repeated: Whether an earlier driver may have told it.
    """

    run: RunInfo
    trial: TrialSummary
    repeated: bool = False


@dataclass(frozen=True)
class TaskDone:
    """A trial has finished a task. A task that runs again after a failure is told again; its last row counts.

    Attributes:
        trial: The trial with this row and those before it.
        row: Name of each metric to its value; `task` is the number of the task, from 1.
        repeated: Whether an earlier driver may have told it.
    """

    run: RunInfo
    trial: TrialSummary
    row: dict[str, float]
    repeated: bool = False


@dataclass(frozen=True)
class TrialEnded:
    """A trial has ended.

    Attributes:
        trial: The trial; its `status` is "complete", "pruned", "diverged" or "failed".
        repeated: Whether an earlier driver may have told it.
    """

    run: RunInfo
    trial: TrialSummary
    repeated: bool = False


@dataclass(frozen=True)
class ChoiceChanged:
    """A search chooses another trial than before, or the same for another reason.

    Attributes:
        run: The search, also where its re-evaluation changes the choice.
        trial: The chosen trial.
        verdict: What the re-evaluation says; None if the value of the search itself decides.
    """

    run: RunInfo
    trial: TrialSummary
    verdict: Verdict | None = None


@dataclass(frozen=True)
class BestFileWritten:
    """A search has written its best file, which `load_best` reads. A later one may replace it at any time."""

    run: RunInfo
    path: Path


@dataclass(frozen=True)
class ResultsWritten:
    """All seeds of a final run have ended, and its results are written.

    Attributes:
        summary: Test metric to its mean, sample standard deviation and number of seeds; percent.
        path: The file with the results.
    """

    run: RunInfo
    summary: Summary
    path: Path


@dataclass(frozen=True)
class RunEnded:
    """A driver ends a run. It is the last event of the run from this driver.

    Attributes:
        stopped: Whether a signal, the time budget or an error ended it early. The run can be continued.
        trials: All trials as the record has them; empty where the record could not be read any more.
        chosen: The chosen trial of a search; None if nothing was chosen.
        metrics: Metrics of the whole run: importances, rank correlations, means over seeds.
        files: The files that the run has written: specification, best file or results, figures.
        notes: What is said of the whole run, as MLflow has it in tags: why a search `ended`.
    """

    run: RunInfo
    stopped: bool
    trials: tuple[TrialSummary, ...] = ()
    chosen: TrialSummary | None = None
    metrics: dict[str, float] | None = None
    files: tuple[Path, ...] = ()
    notes: Mapping[str, str] | None = None


Event = RunBegan | TrialBegan | TaskDone | TrialEnded | ChoiceChanged | BestFileWritten | ResultsWritten | RunEnded


class Callback(Protocol):
    """Is told what happens in the runs of a driver.

    One thread calls it, another than the driver's, one event after the other. It may be slow: the driver goes on, and
    waits only if 10,000 events are left to tell. At the end, the driver waits until everything is told, at most 60
    seconds for one event; a class can have another number of seconds as its attribute `patience`. An error is
    reported once, and the callback is told nothing more; the runs go on.
    """

    def on_event(self, event: Event) -> None:
        """Take an event. Ignore those of an unknown class: later versions may tell more."""


def trial_events(
    run: RunInfo, trial: TrialSummary, before: TrialSummary | None = None, *, repeated: bool = False
) -> Iterator[Event]:
    """Yield the events that lead from one state of a trial to the next; `before` is None for a trial not yet told."""
    known_rows = [] if before is None else before.rows
    new = [
        row for position, row in enumerate(trial.rows) if position >= len(known_rows) or row is not known_rows[position]
    ]
    if before is None or (trial.status == "running" and not new):
        yield TrialBegan(run, trial, repeated)
    for row in new:
        yield TaskDone(run, trial, row, repeated)
    if trial.status != "running" and (before is None or before.status == "running"):
        yield TrialEnded(run, trial, repeated)


def replayed_events(run: RunInfo, trials: Iterable[TrialSummary]) -> Iterator[Event]:
    """Yield the events by which a driver begins a run of which the record has some trials."""
    known = tuple(trials)
    yield RunBegan(run, known)
    for trial in known:
        yield from trial_events(run, trial, repeated=True)
