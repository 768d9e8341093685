"""Estimate the time that is left of a campaign, from earlier runs of the same method and benchmark or from a pilot."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from checked_input.text_files import read_json
from tausearch.campaigns.plans import CampaignPlan, PlannedCell
from tausearch.execution import bytes_of, seconds_per_trial
from tausearch.presentation import LongWork
from tausearch.runs import CampaignDirectory, RunStatus, Storage, all_statuses, open_storage, replace_text
from trainables.errors import DivergedError
from trainables.metrics import is_seconds

PILOT_TASKS = 2  # the first task also computes what all trials share


@dataclass(frozen=True)
class Measured:
    """Measurements of a pilot of a method on a benchmark.

    Attributes:
        seconds: Of a whole trial: the first task, and all others as long as the second.
        memory: The most memory that the process has had so far, bytes.
    """

    seconds: float
    memory: int


@dataclass(frozen=True)
class Estimate:
    """The work that is left in a cell.

    Attributes:
        seconds: Time inside trials, as if one ran after another; None where nothing is known.
        source: Names of the runs that it is known from; `pilot` for a pilot.
        disk: Bytes that its runs will take, those that are there included; None where nothing is known.
        memory: Bytes that the process of a trial takes; None where there was no pilot.
    """

    seconds: float | None
    source: tuple[str, ...] = ()
    disk: int | None = None
    memory: int | None = None


def estimate(plan: CampaignPlan) -> list[Estimate]:
    """Estimate each cell of a campaign, in order, from the runs in its storage root and from pilots."""
    known, pilots = _known(plan.storage), pilots_of(plan.directory)
    return [_of(plan, cell, known.get(_key(cell), []), pilots.get(cell.runs.title)) for cell in plan.cells]


def pilots_of(directory: CampaignDirectory) -> dict[str, Measured]:
    """Return the measurements of earlier pilots of a campaign, by the titles of cells."""
    try:
        content = read_json(directory.pilot_file)
        return {title: Measured(float(found["seconds"]), int(found["memory"])) for title, found in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # no pilot yet, or an unreadable file: estimates can do without


def run_pilots(plan: CampaignPlan) -> None:
    """Run the first tasks of one trial of every cell without measurements, in this process; the times are kept.

    Raises:
        InputError: If the folder of the campaign cannot be written.
    """
    open_storage(plan.storage.root, write=True)
    plan.directory.path.mkdir(parents=True, exist_ok=True)
    unknown = [cell for cell, found in zip(plan.cells, estimate(plan), strict=True) if found.seconds is None]
    pilots = pilots_of(plan.directory)
    with LongWork() as work:
        tick = work.start("pilot trials", len(unknown))
        for cell in unknown:
            pilots[cell.runs.title] = _pilot(plan, cell)
            content = {title: asdict(found) for title, found in pilots.items()}
            replace_text(plan.directory.pilot_file, json.dumps(content, indent=2) + "\n")
            tick(1)


def _pilot(plan: CampaignPlan, cell: PlannedCell) -> Measured:
    """Run the first tasks of the first trial of a cell's search, without the cache."""
    from trainables.trial import build_sequence  # imports torch, which an estimate without pilots does not need

    spec = cell.search.spec
    sequence = build_sequence(spec.trial(0, dict(spec.start), cache=None))
    taken: list[float] = []
    try:
        for _ in range(min(PILOT_TASKS, spec.steps)):
            row = sequence.run_next_task()
            taken.append(sum(value for name, value in row.items() if is_seconds(name)))
    except DivergedError:  # its time is that of its finished tasks
        pass
    finally:
        sequence.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measured(sum(taken[:1]) + (spec.steps - 1) * (taken[-1] if taken else 0.0), memory)


def _key(cell: PlannedCell) -> tuple[str, str]:
    return cell.runs.benchmark, cell.runs.method


def _known(storage: Storage) -> Mapping[tuple[str, str], list[RunStatus]]:
    """Return all runs of each benchmark and method."""
    found: dict[tuple[str, str], list[RunStatus]] = {}
    for status in all_statuses(storage)[0]:
        found.setdefault((status.spec.benchmark, status.spec.method), []).append(status)
    return found


def _of(plan: CampaignPlan, cell: PlannedCell, runs: Sequence[RunStatus], pilot: Measured | None) -> Estimate:
    """Estimate a cell: remaining trials times seconds per trial; seeds of a final run count if a search has none."""
    memory = None if pilot is None else pilot.memory
    if cell.standing.state in ("done", "failed"):
        return Estimate(0.0, memory=memory)
    piloted = None if pilot is None else pilot.seconds
    in_search, in_final = seconds_per_trial(runs, "search"), seconds_per_trial(runs, "final")
    searching, training = in_search or in_final or piloted, in_final or in_search or piloted
    if searching is None or training is None:
        return Estimate(None, memory=memory)
    trials, seeds = (
        of - ended for of, ended in zip((cell.runs.trials, cell.runs.seeds), cell.standing.ended, strict=True)
    )
    source = tuple(each.spec.name for each in runs) if in_search or in_final else ("pilot",)
    trials += cell.standing.reevaluations_left
    return Estimate(trials * searching + seeds * training, source, _disk(plan.storage, runs, cell), memory)


def _disk(storage: Storage, runs: Sequence[RunStatus], cell: PlannedCell) -> int | None:
    """Return the bytes that a cell's runs will take, from earlier runs that have ended; None without both kinds."""
    sizes = {run.spec.purpose: bytes_of(storage.run(run.spec.name).path) for run in runs if run.state == "finished"}
    if "final" not in sizes or (cell.runs.search is not None and "search" not in sizes):
        return None
    return sizes["final"] + (sizes["search"] if cell.runs.search is not None else 0)
