"""Estimate the remaining time of a campaign from earlier runs of the same method and benchmark, or from pilots."""

from __future__ import annotations

import hashlib
import json
import math
import resource
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from checked_input.text_files import read_json
from tausearch.campaigns.cell_plans import CellPlan
from tausearch.campaigns.plans import CampaignPlan
from tausearch.cluster import gpus_here, local_cpus
from tausearch.execution import (
    SecondsPerTrial,
    bytes_of,
    n_cache_misses,
    n_reevaluation_cache_misses,
    pace_of,
    pace_of_trials,
)
from tausearch.presentation import LongWork, print_notices
from tausearch.runs import (
    CampaignDirectory,
    RunSpec,
    RunStatus,
    Storage,
    open_storage,
    read_status,
    replace_text,
)
from trainables.config import TrialConfig
from trainables.errors import DivergedError, InputError
from trainables.user_code import explained

PILOT_TASKS = 2  # the first task also computes what all trials share


@dataclass(frozen=True)
class PilotMeasurement:
    """Measurements of a pilot of a method on a benchmark.

    Attributes:
        pace: Time of a whole trial, if every later task takes as long as the second.
        memory: Peak memory of the process so far, bytes.
        of: What was measured, as `_of_trial` says it.
    """

    pace: SecondsPerTrial
    memory: int
    of: str


@dataclass(frozen=True)
class Estimate:
    """The remaining work of a cell; None for an unknown number.

    Attributes:
        seconds: Time inside trials, as if one ran after another.
        source: Names of the runs that were measured; `pilot` for a pilot.
        disk: Bytes of all runs of the cell at its end.
        memory: Peak memory of the process of a trial, bytes.
    """

    seconds: float | None
    source: tuple[str, ...] = ()
    disk: int | None = None
    memory: int | None = None


def estimate(plan: CampaignPlan) -> list[Estimate]:
    """Estimate each cell of a campaign, in order, from the runs in its storage root and from pilots."""
    known: dict[tuple[str, str, str], list[RunStatus]] = defaultdict(list)
    for status in plan.storage.read_each(read_status)[0]:
        known[_measured_with(status.spec)].append(status)
    pilots = pilots_of(plan.directory)
    return [
        _estimate_cell(
            plan.storage, cell, known[_measured_with(cell.search.spec)], _still(pilots.get(cell.title), cell)
        )
        for cell in plan.cells
    ]


def _measured_with(spec: RunSpec) -> tuple[str, str, str]:
    return spec.benchmark, spec.method, spec.protocol.backbone


def _still(pilot: PilotMeasurement | None, cell: CellPlan) -> PilotMeasurement | None:
    """Return a pilot if it has measured the trials that the campaign's file asks for now."""
    return pilot if pilot is not None and pilot.of == _of_trial(_piloted(cell)) else None


def _piloted(cell: CellPlan) -> TrialConfig:
    """Return the first trial of a cell's search, without the cache."""
    return cell.search.spec.trial_config(0, dict(cell.search.spec.start), cache=None)


def _of_trial(config: TrialConfig) -> str:
    """Return a digest of all that a trial computes; a share of a GPU counts as one, as only a pilot knows it."""
    same = {"run": "", "cache_bytes": None, "gpus_per_trial": math.ceil(config.gpus_per_trial)}
    computed = {**config.as_dict(), **same}
    del computed["images"]  # a check alone
    content = json.dumps(computed, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def pilots_of(directory: CampaignDirectory) -> dict[str, PilotMeasurement]:
    """Return the measurements of earlier pilots of a campaign, by the titles of cells."""
    try:
        content = read_json(directory.pilot_file)
        return {title: _read_measurement(found) for title, found in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # no pilot yet, or an unreadable file: estimates can do without


def _read_measurement(found: Mapping[str, Any]) -> PilotMeasurement:
    pace = SecondsPerTrial(float(found["pace"]["own"]), float(found["pace"]["shared"]))
    return PilotMeasurement(pace, int(found["memory"]), str(found["of"]))


def run_pilots(plan: CampaignPlan) -> None:
    """Run the first tasks of one trial of every cell without measurements in this process, and save the times.

    A notice on stderr names each cell whose pilot failed.

    Raises:
        InputError: If the folder of the campaign cannot be written, or trials need a GPU, which this machine lacks.
    """
    unknown = [cell for cell, found in zip(plan.cells, estimate(plan), strict=True) if found.seconds is None]
    if any(cell.search.spec.resources.gpus_per_trial for cell in unknown) and not gpus_here():
        raise InputError(
            "--pilot runs on this machine, which has no GPU as the cluster at --address has; leave out one"
        )
    open_storage(plan.storage.root, write=True)
    plan.directory.path.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    pilots = pilots_of(plan.directory)
    with LongWork() as work:
        tick = work.start("pilot trials", len(unknown))
        for cell in unknown:
            try:
                pilots[cell.title] = _pilot(cell)
            except Exception as error:  # of the user's code, or of torch: this cell's time stays unknown
                failed.append(f"{cell.title}: its pilot failed ({explained(error)})")
            content = {title: asdict(found) for title, found in pilots.items()}
            replace_text(plan.directory.pilot_file, json.dumps(content, indent=2) + "\n")
            tick(1)
    print_notices(*failed)


def _pilot(cell: CellPlan) -> PilotMeasurement:
    """Run the first tasks of the first trial of a cell's search, without the cache.

    Returns:
        The measurement.

    Raises:
        DivergedError: If the trial has finished no task.
    """
    from tausearch.cluster import first_rows  # imports torch, which an estimate without pilots does not need
    from trainables.trial import build_sequence

    config = _piloted(cell)
    rows: list[dict[str, float]] = []
    try:
        rows.extend(first_rows(build_sequence(config), PILOT_TASKS))
    except DivergedError:  # the time of its finished tasks counts
        if not rows:
            raise
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    whole = rows[:1] + rows[-1:] * (cell.search.spec.steps - 1)
    return PilotMeasurement(pace_of_trials([whole]) or SecondsPerTrial(0.0), memory, _of_trial(config))


def seconds_here(plan: CampaignPlan, estimates: Sequence[Estimate]) -> float:
    """Return the least seconds that the known cells take on the CPUs and GPUs of this machine."""
    on_cpus = on_gpus = in_all = 0.0
    for cell, found in zip(plan.cells, estimates, strict=True):
        trials = cell.training if cell.config.search is None else cell.search
        seconds, resources = found.seconds or 0.0, trials.spec.resources
        in_all += seconds
        on_cpus += seconds * resources.cpus_per_trial
        on_gpus += seconds * resources.gpus_per_trial
    gpus = max(1, gpus_here() if on_gpus else 0)  # torch takes seconds to import
    at_most = plan.request.max_concurrent_trials or local_cpus()
    return max(on_cpus / local_cpus(), on_gpus / gpus, in_all / at_most)


def _estimate_cell(
    storage: Storage, cell: CellPlan, runs: Sequence[RunStatus], pilot: PilotMeasurement | None
) -> Estimate:
    """Estimate a cell: remaining trials times seconds per trial; seeds of a final run count if a search has none."""
    memory = None if pilot is None else pilot.memory
    if cell.status.state in ("done", "failed"):
        return Estimate(0.0, memory=memory)
    piloted = None if pilot is None else pilot.pace
    in_search, in_final = pace_of(runs, "search"), pace_of(runs, "final")
    searching, training = in_search or in_final or piloted, in_final or in_search or piloted
    if searching is None or training is None:
        return Estimate(None, memory=memory)
    trials, seeds = cell.status.left
    trials += cell.status.reevaluations_left
    misses = n_cache_misses(cell.search.spec, cell.status.n_ended[0])
    misses += n_reevaluation_cache_misses(cell.search.spec)
    seconds = searching.seconds(trials, min(misses, trials)) + training.seconds(seeds, seeds)
    source = tuple(each.spec.name for each in runs) if in_search or in_final else ("pilot",)
    return Estimate(seconds, source, _disk(storage, runs, cell), memory)


def _disk(storage: Storage, runs: Sequence[RunStatus], cell: CellPlan) -> int | None:
    """Return the bytes of a cell's runs at its end, from earlier runs that have ended; None without both kinds."""
    sizes = {run.spec.purpose: bytes_of(storage.run(run.spec.name).path) for run in runs if run.state == "finished"}
    if "final" not in sizes or (cell.runs.search is not None and "search" not in sizes):
        return None
    return sizes["final"] + (sizes["search"] if cell.runs.search is not None else 0)
