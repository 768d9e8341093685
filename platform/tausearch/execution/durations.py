"""Time, GPU memory and disk space of earlier runs, read from their run directories."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tausearch.runs import (
    FinalSpec,
    MultiSearchSpec,
    RunDirectory,
    RunSpec,
    RunStatus,
    SearchSpec,
    Storage,
    TrialSummary,
    read_spec,
    read_status,
    reevaluations_of,
)
from trainables.config import Purpose
from trainables.metrics import CACHE_HIT, PEAK_GPU_BYTES, PRECONSOLIDATION, is_seconds, seconds

Row = Mapping[str, float]

NEWEST = 50  # the newest runs that are read: reading hundreds would delay the start of a search


@dataclass(frozen=True)
class SecondsPerTrial:
    """Mean time of trials that finished their last task, in two parts.

    Attributes:
        own: Seconds that every trial takes.
        shared: Further seconds of a trial whose pre-consolidation is not in the cache.
    """

    own: float
    shared: float = 0.0

    def seconds(self, trials: int, cache_misses: int, concurrent_trials: int = 1) -> float:
        """Return the seconds that `trials` take; `cache_misses` of them find no pre-consolidation in the cache."""
        return self.own * -(-trials // concurrent_trials) + self.shared * -(-cache_misses // concurrent_trials)

    def of_share(self, share: float) -> SecondsPerTrial:
        """Return the time of trials that have this share of the tasks."""
        return SecondsPerTrial(self.own * share, self.shared * share)


@dataclass(frozen=True)
class PastDurations:
    """The time, GPU memory and disk space that similar runs took. A number that is not known is None.

    Attributes:
        runs: Names of the measured runs.
        pace: Mean time of a trial.
        gpu_bytes: Largest GPU memory of a trial.
        disk: Bytes of the largest finished run directory of the same kind.
        lacking: Of several benchmarks those that no run has measured, if others were.
    """

    runs: tuple[str, ...] = ()
    pace: SecondsPerTrial | None = None
    gpu_bytes: float | None = None
    disk: int | None = None
    lacking: tuple[str, ...] = ()


def durations_of_similar_runs(storage: Storage, spec: RunSpec) -> PastDurations:
    """Return the measurements of runs with the same method, benchmark and backbone; same kind of run first.

    Those of the run whose tasks are trained again count if no other run has these tasks alone. A trial on several
    benchmarks takes what trials on each alone have taken, if no run has measured it.
    """
    found = _durations_of(storage, spec)
    if found.pace is not None or not isinstance(spec, MultiSearchSpec):
        return found
    each = {
        name: _durations_of(storage, spec.model_copy(update={"benchmark": name, "steps": part.steps}))
        for name, part in spec.parts.items()
    }
    paces = [taken.pace for taken in each.values() if taken.pace is not None]
    lacking = tuple(name for name, taken in each.items() if taken.pace is None)
    return PastDurations(
        runs=tuple(dict.fromkeys(name for taken in each.values() for name in taken.runs)),
        pace=None if lacking else SecondsPerTrial(sum(pace.own for pace in paces), sum(pace.shared for pace in paces)),
        gpu_bytes=max((taken.gpu_bytes for taken in each.values() if taken.gpu_bytes is not None), default=None),
        lacking=lacking if paces else (),
    )


def _durations_of(storage: Storage, spec: RunSpec) -> PastDurations:
    found = storage.read_each(lambda directory: _if_alike(directory, spec), NEWEST)[0]
    ended = [each for each in found if each is not None and list(_finished([each]))]
    alike = [each for each in ended if each.spec.benchmark == spec.benchmark] or ended
    same = [each for each in alike if each.spec.purpose == spec.purpose]
    runs = same or alike
    pace = pace_of(runs)
    peaks = [row[PEAK_GPU_BYTES] for each in _finished(runs) for row in each.rows if PEAK_GPU_BYTES in row]
    sizes = [bytes_of(storage.run(each.spec.name).path) for each in same if each.state == "finished"]
    return PastDurations(
        runs=tuple(each.spec.name for each in runs),
        pace=pace.of_share(spec.steps / runs[0].spec.steps) if pace else None,
        gpu_bytes=max(peaks, default=None),
        disk=max(sizes, default=None),
    )


def pace_of(runs: Iterable[RunStatus], purpose: Purpose | None = None) -> SecondsPerTrial | None:
    """Return the mean time of a trial that finished its last task, in runs of one purpose or both; else None."""
    wanted = [run for run in runs if purpose is None or run.spec.purpose == purpose]
    return pace_of_trials([trial.rows for trial in _finished(wanted)])


def pace_of_trials(trials: Sequence[Sequence[Row]]) -> SecondsPerTrial | None:
    """Return the mean time of trials from their metrics rows, which are equally many in each; None without trials.

    The cache gives a result at once, or when another trial has computed it: the shortest time counts for all.
    """
    if not trials:
        return None
    rows = [row for trial in trials for row in trial]
    stage = seconds(PRECONSOLIDATION)
    computed = [row[stage] for row in rows if stage in row and not row.get(CACHE_HIT)]
    given = [row[stage] for row in rows if stage in row and row.get(CACHE_HIT)]
    waited = sum(given) - min(given, default=0.0) * len(given)
    whole = sum(value for row in rows for name, value in row.items() if is_seconds(name))
    shared = statistics.fmean(computed) * len(trials[0]) if computed else 0.0
    return SecondsPerTrial((whole - sum(computed) - waited) / len(trials), shared)


def n_cache_misses(spec: RunSpec, ended: int = 0) -> int:
    """Return how many of the trials that are left compute their pre-consolidation: one for each seed without one."""
    if spec.purpose == "final" or not spec.cache_size:
        return spec.trials - ended
    return 0 if ended else 1


def n_reevaluation_cache_misses(spec: RunSpec) -> int:
    """Return how many re-evaluations at most compute their pre-consolidation: one in each round, which has a seed."""
    asked = spec.reevaluate if isinstance(spec, SearchSpec) else None
    return 0 if asked is None else asked.runs if spec.cache_size else reevaluations_of(spec)


def bytes_of(folder: Path) -> int:
    """Return the bytes of all files in and below a folder, without those that another process removes meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _if_alike(directory: RunDirectory, spec: RunSpec) -> RunStatus | None:
    there = read_spec(directory)
    keys = [(each.benchmark, each.method, each.protocol.backbone) for each in (there, spec)]
    retrained = spec.retrained if isinstance(spec, FinalSpec) else None  # its tasks are those of the other run
    alike = keys[0] == keys[1] or (retrained is not None and retrained.run_id == there.id)
    return read_status(directory) if alike and there.name != spec.name else None


def _finished(runs: Iterable[RunStatus]) -> Iterator[TrialSummary]:
    return (trial for run in runs for trial in run.trials if trial.status == "complete")
