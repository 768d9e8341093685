"""Make a recorded table: every configuration runs on each validation split as a trial of a search, then as final runs.

Configurations are those of a random search that starts from what the paper chose; each runs by the trial's own code, in
one of as many processes as there are cores, with the cache that trials share. What has been run lies in records below
the work folder and is not run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import torch

from tausearch.api import SearchRequest, plan_search
from tausearch.cluster import local_cpus
from tausearch.runs import Record, SearchSpec, TrialSummary, final_value
from tausearch.studies import TABLES, ConfigurationTable, OptunaSearcher, points_to_evaluate, write_table
from trainables.config import Purpose, TrialConfig
from trainables.errors import DivergedError
from trainables.metrics import names_of
from trainables.trial import build_sequence

SPLITS, TEST_SEEDS = (0, 1, 2), (0,)
BLOCK = 16  # configurations that run everywhere before the next ones begin, so that an unfinished table has whole ones


@dataclass(frozen=True)
class Wanted:
    """A table to make."""

    benchmark: str  # name
    method: str  # name
    configurations: int  # how many random ones, beside the start and what the paper chose
    splits: tuple[int, ...]  # seeds of the validation splits, and of the trials on them
    test_seeds: tuple[int, ...]  # seeds of the final runs
    work: Path  # folder for records and cache
    gpus_per_trial: float = 0  # 1/k of a GPU for each process, or 0 to compute on the CPU

    @property
    def runs(self) -> list[tuple[Purpose, int]]:
        """Purpose and seed of all runs of a configuration."""
        return [*(("search", seed) for seed in self.splits), *(("final", seed) for seed in self.test_seeds)]

    def record(self, purpose: Purpose, seed: int, tasks: int = 0) -> Record:
        """Return the record of all runs of one kind."""
        folder = self.work / f"{self.benchmark}-{self.method}" / f"{purpose}-{seed}"
        return Record(folder, tasks=tasks, metric_names=names_of(purpose))


def make_table(wanted: Wanted, cores: int) -> Path:
    """Run what has not been run in so many processes; write the table of all that is done, and return its file."""
    spec = _spec(wanted)
    left = list(_left(wanted, spec))
    print(f"{len(left)} of {spec.trials * len(wanted.runs)} runs are left", flush=True)
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_run, config): config for config in left}
        for count, done in enumerate(as_completed(running), start=1):
            config, trial = running[done], done.result()
            wanted.record(config.purpose, config.seed, spec.steps).write(trial)
            if count % 20 == 0 or count == len(left):
                print(f"{count}/{len(left)}: configuration {trial.number} {trial.status} {trial.value}", flush=True)
    return collect(wanted)


def collect(wanted: Wanted) -> Path:
    """Write the table of all configurations whose runs are all done; returns the file."""
    spec = _spec(wanted)
    found = {key: {run.number: run for run in wanted.record(*key).trials()} for key in wanted.runs}
    whole = set.intersection(*(set(runs) for runs in found.values()))
    runs = {key: {number: runs[number] for number in sorted(whole)} for key, runs in found.items()}
    path = TABLES / f"{wanted.benchmark}-{wanted.method}.parquet"
    write_table(path, ConfigurationTable(spec.model_copy(update={"trials": len(whole)}), runs))
    return path


def _spec(wanted: Wanted) -> SearchSpec:
    """Return the search whose trials are the configurations."""
    request = SearchRequest(
        wanted.benchmark, wanted.method, algorithm="random", reevaluate=0, warm_start=["paper"], storage=wanted.work
    )
    spec = plan_search(request).spec
    trials = len(points_to_evaluate(spec)) + wanted.configurations
    resources = spec.resources.model_copy(update={"gpus_per_trial": wanted.gpus_per_trial})
    name = f"{wanted.benchmark}-{wanted.method}"
    return spec.model_copy(update={"name": name, "trials": trials, "resources": resources})


def _left(wanted: Wanted, spec: SearchSpec) -> Iterator[TrialConfig]:
    """Yield what has not been run, block by block; within a block a process keeps its images in memory."""
    source, points = OptunaSearcher(spec), []
    while (suggestion := source.next()) is not None:
        points.append(suggestion)
    done = {key: {run.number for run in wanted.record(*key).trials()} for key in wanted.runs}
    for first in range(0, len(points), BLOCK):
        for purpose, seed in wanted.runs:
            for number, point in points[first : first + BLOCK]:
                if number not in done[purpose, seed]:
                    yield _config(spec, number, point, purpose, seed, wanted.work / "cache")


def _config(
    spec: SearchSpec, number: int, point: dict[str, float | int | str | bool], purpose: Purpose, seed: int, cache: Path
) -> TrialConfig:
    protocol = spec.protocol.model_copy(update={"split_seed": seed})
    own = spec.model_copy(update={"seed": seed, "protocol": protocol})
    return replace(own.trial_config(number, point, cache=cache), purpose=purpose, images=None)


def _run(config: TrialConfig) -> TrialSummary:
    """Run a trial to its end, in this process."""
    sequence = build_sequence(config)
    run = TrialSummary(config.trial, config.seed, "complete", dict(config.hyperparameters))
    try:
        while not sequence.finished:
            run.rows.append(sequence.run_next_task())
        run.value = final_value(run.rows[-1])
    except DivergedError as error:
        run.status, run.error = "diverged", str(error)
    finally:
        sequence.close()
    return run


def processes() -> ProcessPoolExecutor:
    """Return a process per core, each of one thread: with two, a Gaussian process took 8.1 s for 4.5 s on two cores."""
    return ProcessPoolExecutor(
        local_cpus(), mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
