"""Time, GPU memory and disk space of earlier runs, read from their run directories."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tausearch.runs import RunDirectory, RunSpec, RunStatus, Storage, TrialSummary, read_spec, read_status
from trainables.config import Purpose
from trainables.metrics import PEAK_GPU_BYTES

NEWEST = 50  # the newest runs that are read: reading hundreds would delay the start of a search


@dataclass(frozen=True)
class Taken:
    """Measurements of runs like the one that is previewed; None for an unknown number.

    Attributes:
        runs: Names of the measured runs.
        seconds: Mean time of a trial that finished its last task.
        gpu_bytes: Largest GPU memory of a trial.
        disk: Bytes of the largest finished run directory of the same kind.
    """

    runs: tuple[str, ...] = ()
    seconds: float | None = None
    gpu_bytes: float | None = None
    disk: int | None = None


def taken_by_others(storage: Storage, spec: RunSpec) -> Taken:
    """Return the measurements of runs with the same method, benchmark and backbone; same kind of run first."""
    found = storage.read_each(lambda directory: _if_alike(directory, spec), NEWEST)[0]
    alike = [each for each in found if each is not None]
    same = [each for each in alike if each.spec.purpose == spec.purpose and list(_finished([each]))]
    runs = same or [each for each in alike if list(_finished([each]))]
    peaks = [row[PEAK_GPU_BYTES] for each in _finished(runs) for row in each.rows if PEAK_GPU_BYTES in row]
    sizes = [bytes_of(storage.run(each.spec.name).path) for each in same if each.state == "finished"]
    return Taken(
        runs=tuple(each.spec.name for each in runs),
        seconds=seconds_per_trial(runs),
        gpu_bytes=max(peaks, default=None),
        disk=max(sizes, default=None),
    )


def seconds_per_trial(runs: Iterable[RunStatus], purpose: Purpose | None = None) -> float | None:
    """Return the mean seconds of a trial that finished its last task, in runs of one purpose or both; else None."""
    wanted = [run for run in runs if purpose is None or run.spec.purpose == purpose]
    seconds = [trial.seconds for trial in _finished(wanted)]
    return statistics.fmean(seconds) if seconds else None


def bytes_of(folder: Path) -> int:
    """Return the bytes of all files in and below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _if_alike(directory: RunDirectory, spec: RunSpec) -> RunStatus | None:
    there = read_spec(directory)
    keys = [(each.benchmark, each.method, each.protocol.backbone) for each in (there, spec)]
    return read_status(directory) if keys[0] == keys[1] and there.name != spec.name else None


def _finished(runs: Iterable[RunStatus]) -> Iterator[TrialSummary]:
    return (trial for run in runs for trial in run.trials if trial.status == "complete")
