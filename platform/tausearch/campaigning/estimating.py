"""How long what is left of a campaign takes: known from runs of the same method on the same benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tausearch.campaigning.planning import CampaignPlan, PlannedCell
from tausearch.runs import RunStatus, Storage, TrialSummary, all_statuses
from trainables.config import Purpose


@dataclass(frozen=True)
class Estimate:
    """What is left to do in a cell.

    Attributes:
        seconds: Time inside trials, as if one ran after another; None where nothing is known.
        source: Names of the runs that it is known from.
    """

    seconds: float | None
    source: tuple[str, ...] = ()


def estimate(plan: CampaignPlan) -> list[Estimate]:
    """Estimate each cell of a campaign, in order, from the runs that its storage root holds."""
    known = _known(plan.storage)
    return [_of(cell, known.get((cell.runs.benchmark, cell.runs.method), [])) for cell in plan.cells]


def _known(storage: Storage) -> dict[tuple[str, str], list[RunStatus]]:
    """Return all runs of each benchmark and method."""
    found: dict[tuple[str, str], list[RunStatus]] = {}
    for status in all_statuses(storage)[0]:
        found.setdefault((status.spec.benchmark, status.spec.method), []).append(status)
    return found


def _of(cell: PlannedCell, runs: Sequence[RunStatus]) -> Estimate:
    """Estimate a cell: trials left times what one takes; a final run's are taken for a search's where it has none."""
    standing = cell.standing
    in_search, in_final = _per_trial(runs, "search"), _per_trial(runs, "final")
    searching, training = in_search or in_final, in_final or in_search
    left = (cell.runs.trials - _ended(standing.search), cell.runs.seeds - _ended(standing.final))
    if standing.state in ("done", "failed"):
        return Estimate(0.0)
    if searching is None or training is None:
        return Estimate(None)
    return Estimate(left[0] * searching + left[1] * training, tuple(each.spec.name for each in runs))


def _per_trial(runs: Iterable[RunStatus], purpose: Purpose) -> float | None:
    """Return the mean seconds of a trial that finished its last task; None without one."""
    finished: list[TrialSummary] = [
        trial for run in runs if run.spec.purpose == purpose for trial in run.trials if trial.status == "complete"
    ]
    return statistics.fmean(trial.seconds for trial in finished) if finished else None


def _ended(run: RunStatus | None) -> int:
    return 0 if run is None else run.spec.trials - run.counts["running"] - run.counts["pending"]
