"""What runs, what is done, and what is best so far, read from run directories alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tausearch.algorithms import best_trial
from tausearch.files import RunDirectory, Storage
from tausearch.record import STATUSES, Record, TrialSummary
from tausearch.runner import is_driven
from tausearch.spec import RunSpec, read_spec
from trainables.errors import InputError

State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True)
class RunStatus:
    """A run as it stands.

    Attributes:
        spec: What was asked for.
        state: "running" while a process drives it, "finished" when every trial has ended, else "stopped".
        counts: Number of trials by status; `pending` are those that have not ended and do not run.
        trials: All trials that have started.
        best: The best finished trial, if any.
    """

    spec: RunSpec
    state: State
    counts: dict[str, int]
    trials: list[TrialSummary]
    best: TrialSummary | None

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch status NAME --json` prints."""
        best = None
        if self.best is not None:
            hyperparameters = self.best.hyperparameters
            best = {"trial": self.best.number, "value": self.best.value, "hyperparameters": hyperparameters}
        return {
            "name": self.spec.name,
            "benchmark": self.spec.benchmark,
            "method": self.spec.method,
            "state": self.state,
            "trials": self.counts,
            "best": best,
        }


def status(directory: RunDirectory) -> RunStatus:
    """Read one run.

    Returns:
        The run as it stands now.

    Raises:
        InputError: If there is no such run.
    """
    spec, driven = read_spec(directory), is_driven(directory)
    trials = Record(directory.record).trials()
    counts: dict[str, int] = {name: sum(t.status == name for t in trials) for name in STATUSES}
    if not driven:
        counts["running"] = 0
    counts["pending"] = spec.trials - sum(counts.values())
    ended = counts["pending"] == 0 and counts["running"] == 0
    state: State = "running" if driven else "finished" if ended else "stopped"
    order = ("complete", "pruned", "diverged", "failed", "running", "pending")
    return RunStatus(spec, state, {name: counts[name] for name in order}, trials, best_trial(trials))


def all_statuses(storage: Storage) -> list[RunStatus]:
    """Read every run in a storage root, oldest first."""
    return [status(directory) for directory in storage.runs()]


def latest_best(storage: Storage, benchmark: str, method: str) -> RunDirectory:
    """Return the search of a benchmark and method whose best configuration is the best of all in this storage.

    Raises:
        InputError: If no search of them has a finished trial.
    """
    candidates = [
        (found.best.value or 0.0, directory)
        for directory in storage.runs()
        if (found := status(directory)).spec.purpose == "search"
        and (found.spec.benchmark, found.spec.method) == (benchmark, method)
        and found.best is not None
    ]
    if not candidates:
        raise InputError(f"no search of {method!r} on {benchmark!r} in {storage.root} has a finished trial")
    return max(candidates, key=lambda candidate: candidate[0])[1]
