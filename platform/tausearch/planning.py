"""Check everything that can be wrong with a search before any work starts, and say exactly what it will do."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import torch

from search_spaces import Scalar
from tausearch.benchmarks import OpenBenchmark
from tausearch.cluster import fit_at_once, local_cpus, require_reachable
from tausearch.files import RunDirectory, Storage, open_storage
from tausearch.lock import driver_lock
from tausearch.spaces import running_method, space_of
from tausearch.spec import ALGORITHMS, SCHEDULERS, Algorithm, Resources, RunSpec, Scheduler, protocol_of
from tausearch.study import FIRST_STOP
from tausearch.watch import require_space
from trainables.backbones import Backbone
from trainables.config import PRECISIONS
from trainables.errors import InputError

DEFAULT_TRIALS = 12
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_Name = TypeVar("_Name", bound=str)


def plan(
    *,
    benchmark: OpenBenchmark,
    method: str,
    trials: int | None,
    algorithm: str,
    scheduler: str,
    concurrent: int | None,
    cpus_per_trial: int,
    gpus_per_trial: float,
    seed: int,
    name: str | None,
    space: str | Path | None,
    overrides: Mapping[str, Scalar] | None,
    backbone: Backbone,
    precision: str,
    store_gigabytes: float,
    storage: str | Path,
    address: str | None,
) -> tuple[RunSpec, Storage]:
    """Check everything that can be wrong with a search, and say exactly what it will do; starts nothing.

    Returns:
        Specification, and the storage in which it is not created yet.

    Raises:
        InputError: If an argument is wrong.
    """
    entry = running_method(method)
    resolved = space_of(method, benchmark.ref.name, None if space is None else Path(space), overrides or {})
    chosen = _one_of("algorithm", algorithm, ALGORITHMS)
    steps = 1 if entry.capabilities.joint else benchmark.source.num_tasks
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed must be from 0 to {2**32 - 1}, got {seed}")
    resources = plan_resources(cpus_per_trial, gpus_per_trial, concurrent, address)
    count = _trial_count(trials, chosen, resolved.grid_size(), bool(resolved.space))
    root, run_name = new_run(storage, name, f"{benchmark.ref.slug}-{method}")
    protocol = protocol_of(benchmark.source.spec, seed, backbone, _one_of("precision", precision, PRECISIONS))
    benchmark.require("search", seed, backbone.input)
    spec = RunSpec(
        name=run_name,
        id=uuid4().hex,
        purpose="search",
        benchmark=str(benchmark.ref),
        data_root=benchmark.data_root,
        method=method,
        protocol=protocol,
        resources=resources,
        trials=count,
        steps=steps,
        store_gigabytes=checked_store(store_gigabytes),
        algorithm=chosen,
        scheduler=_scheduler(scheduler, chosen, steps),
        seed=seed,
        space=resolved.space,
        start=resolved.start,
        fixed=resolved.fixed,
    )
    return spec, root


def new_run(storage: str | Path, name: str | None, stem: str) -> tuple[Storage, str]:
    """Return the storage and the name of a new run: the one asked for, or the first of `stem-1`, `stem-2`, ... free.

    Raises:
        InputError: If the storage cannot be written or is full, or the name is taken or no name for a folder.
    """
    root = open_storage(storage, write=True)
    require_space(root.root)
    directory = root.run(name or root.free_name(stem))
    if directory.path.exists():
        raise InputError(_taken(directory))
    return root, directory.name


@contextmanager
def created(spec: RunSpec, storage: Storage, *, rename: bool = False) -> Iterator[tuple[RunSpec, RunDirectory]]:
    """Make the run directory and hold it while the run is driven.

    A run that the cluster cannot take leaves nothing behind: no trial was started.

    Args:
        spec: What was asked for.
        storage: Its root.
        rename: See `create`.

    Yields:
        See `create`.

    Raises:
        InputError: See `create`; or whatever the block raises.
    """
    spec, directory = create(spec, storage, rename=rename)
    with driver_lock(directory):
        try:
            yield spec, directory
        except InputError:
            if not directory.record.exists():
                shutil.rmtree(directory.path)
            raise


def create(spec: RunSpec, storage: Storage, *, rename: bool = False) -> tuple[RunSpec, RunDirectory]:
    """Make the run directory, with what was asked for in it: both or, if the process is killed, neither.

    Args:
        spec: What was asked for.
        storage: Its root.
        rename: Whether to take the next free name if another process has just taken this one, because nobody chose it.

    Returns:
        The specification, under the name that it got, and the run directory.

    Raises:
        InputError: If the name has been taken, or the folder cannot be made.
    """
    while True:
        directory = storage.run(spec.name)
        try:
            _make(spec, directory)
        except FileExistsError:
            if not rename:
                raise InputError(_taken(directory)) from None
            spec = spec.model_copy(update={"name": storage.free_name(spec.name.rpartition("-")[0])})
        else:
            return spec, directory


def _make(spec: RunSpec, directory: RunDirectory) -> None:
    unfinished = RunDirectory(directory.path.with_name(f".{directory.name}.{os.getpid()}.tmp"))
    try:
        unfinished.path.mkdir(parents=True, exist_ok=True)
        spec.save(unfinished)
        unfinished.path.rename(directory.path)
    except OSError as error:
        shutil.rmtree(unfinished.path, ignore_errors=True)
        if directory.path.exists():
            raise FileExistsError(directory.path) from None
        raise InputError(f"run directory {directory.path}: cannot be made ({error.strerror})") from error


def _taken(directory: RunDirectory) -> str:
    return f"a run named {directory.name!r} exists in {directory.path.parent}; choose another --name"


def _one_of(kind: str, name: str, allowed: Sequence[_Name]) -> _Name:
    for each in allowed:
        if each == name:
            return each
    raise InputError(f"unknown {kind} {name!r}; allowed: {', '.join(allowed)}")


def _scheduler(name: str, algorithm: Algorithm, steps: int) -> Scheduler:
    scheduler = _one_of("scheduler", name, SCHEDULERS)
    if scheduler != "none" and algorithm == "gp":
        raise InputError(f"--scheduler {name}: gp learns nothing from trials that were stopped; allowed with it: none")
    if scheduler != "none" and steps <= FIRST_STOP:
        raise InputError(
            f"--scheduler {name}: stops no trial before task {FIRST_STOP}, and a trial has {steps}; allowed: none"
        )
    return scheduler


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `45m`, `12h` or `2d`.

    Raises:
        InputError: If it is none, or zero.
    """
    number, unit = text[:-1], _UNITS.get(text[-1:])
    try:
        seconds = float(number) * (unit or math.nan)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InputError(f"--time-budget must be a number and s, m, h or d, such as 90m, got {text!r}")
    return seconds


def checked_store(gigabytes: float) -> float:
    """Return the bound of the pre-consolidation store.

    Raises:
        InputError: If it is negative.
    """
    if gigabytes < 0:
        raise InputError(f"--store-size must be at least 0 (gigabytes), got {gigabytes:g}")
    return gigabytes


def require_gpu(wish: str) -> None:
    """Make sure that this machine has a GPU.

    Raises:
        InputError: If not; begins with `wish`.
    """
    if not torch.cuda.is_available():
        raise InputError(f"{wish}: this machine has no GPU")


def plan_resources(
    cpus_per_trial: int, gpus_per_trial: float, concurrent: int | None, address: str | None
) -> Resources:
    """Check what a trial is to get and work out how many fit.

    Returns:
        What each trial gets and how many run at a time.

    Raises:
        InputError: If a number is out of range, a GPU fraction does not divide a GPU, this machine has too little, or
            no cluster answers at the address.
    """
    if cpus_per_trial < 1:
        raise InputError(f"--cpus-per-trial must be at least 1, got {cpus_per_trial}")
    if concurrent is not None and concurrent < 1:
        raise InputError(f"--concurrent must be at least 1, got {concurrent}")
    if gpus_per_trial not in (0, 1) and gpus_per_trial not in [1 / k for k in range(2, 65)]:
        raise InputError(
            f"--gpus-per-trial must be 0, 1 or 1/k (such as 0.5, 0.25, 0.2, 0.125), got {gpus_per_trial:g}"
        )
    if address is not None:
        require_reachable(address)
    else:  # of a cluster, Ray knows once it is joined
        if gpus_per_trial:
            require_gpu(f"--gpus-per-trial {gpus_per_trial:g}")
        if cpus_per_trial > local_cpus():
            raise InputError(f"--cpus-per-trial {cpus_per_trial}: this machine has {local_cpus()} CPUs")
    resources = Resources(cpus_per_trial=cpus_per_trial, gpus_per_trial=gpus_per_trial, concurrent=concurrent)
    if address is None and concurrent is not None:
        fits = fit_at_once(resources, local_cpus(), torch.cuda.device_count())
        resources = resources.model_copy(update={"concurrent": min(concurrent, fits)})
    return resources


def _trial_count(trials: int | None, algorithm: Algorithm, grid_size: int, anything_to_search: bool) -> int:
    if trials is not None and trials < 1:
        raise InputError(f"--trials must be at least 1, got {trials}")
    if algorithm == "grid":
        if trials is not None and trials > grid_size:
            raise InputError(f"--trials {trials}: the grid has {grid_size} points")
        return trials or grid_size
    if not anything_to_search and trials is not None and trials > 1:
        raise InputError(f"--trials {trials}: every hyperparameter is fixed, so there is one configuration to try")
    return trials or (DEFAULT_TRIALS if anything_to_search else 1)
