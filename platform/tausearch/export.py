"""Take a result out of the storage folder: the best file, and the task vectors of a final run."""

from __future__ import annotations

import shutil
from pathlib import Path

from tausearch.best import load_best
from tausearch.files import RunDirectory, Storage
from tausearch.spec import RunSpec, read_spec
from tausearch.status import latest_best
from trainables.errors import InputError


def export_best(storage: Storage, benchmark: str, method: str, target: Path) -> Path:
    """Write the best configuration of all searches of a benchmark and method.

    Returns:
        The file written.

    Raises:
        InputError: If there is none, or the file cannot be written.
    """
    best = load_best(latest_best(storage, benchmark, method).best_file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        best.save(target)
    except OSError as error:
        raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
    return target


def export_adapters(storage: Storage, benchmark: str, method: str, target: Path) -> Path:
    """Copy the task vectors (and PEFT adapters, where there are any) of the latest final run.

    Returns:
        The folder written: `seed_<s>/task_<t>/`.

    Raises:
        InputError: If there is no such run, it left no task vectors, or the folder exists.
    """
    runs = [(run, read_spec(run)) for run in storage.runs()]
    finals = [run for run, spec in runs if _is_final(spec, benchmark, method) and run.artifacts.exists()]
    if not finals:
        raise InputError(f"no final run of {method!r} on {benchmark!r} in {storage.root} left task vectors")
    if target.exists():
        raise InputError(f"--adapters {target}: exists already")
    shutil.copytree(_latest(finals).artifacts, target)
    return target


def _is_final(spec: RunSpec, benchmark: str, method: str) -> bool:
    return (spec.purpose, spec.benchmark, spec.method) == ("final", benchmark, method)


def _latest(runs: list[RunDirectory]) -> RunDirectory:
    return runs[-1]  # `Storage.runs` is oldest first
