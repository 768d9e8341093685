"""Final runs with real task vectors, trained in this process in a second."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tausearch.runs import FinalSpec, Resources, RunDirectory, Storage, TrialSummary, protocol_of
from tausearch.runs.creation import make_run_directory
from tests.support.runs.built_runs import BuiltRuns, finish
from trainables.backbones import Backbone
from trainables.composition import VectorPool, vector_folders
from trainables.curvature import CurvatureKind
from trainables.data import Benchmark, BenchmarkSource, build_benchmark, get_source
from trainables.sequence import IncrementalSequence
from trainables.user_code import allow_code

SMALL = "tests.support.methods.small_digits:SOURCE"
allow_code(SMALL)
# Task vectors large enough that compositions differ in what they get right.
SETTINGS: dict[str, dict[str, Any]] = {
    "ita-lora": {"alpha": 0.01, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.02, "rank": 2},
    "iel-lora": {"beta": 0.01, "beta_cls": 0.1, "beta_cls_prior": 0.01, "lr": 0.02, "rank": 2},
    "iel-fft": {"beta": 0.01, "beta_cls": 0.1, "beta_cls_prior": 0.01, "lr": 0.005},
    "ita-ia3": {"alpha": 0.01, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.1},
    "tmc": {"lr": 0.003},
    "tak": {"lr": 0.003, "strength": 0.1},
    "finetune": {"lr": 0.001},
    **dict.fromkeys(("arithmetic", "their_arithmetic:TaskArithmetic"), {"lr": 0.003, "scaling": 1.5}),  # of the example
}


@cache
def small_benchmark() -> Benchmark:
    return build_benchmark(get_source(SMALL), "final")


def pool_of(storage: Storage, name: str, seed: int) -> VectorPool:
    """Return the task vectors of a seed of a run."""
    return VectorPool(tuple(vector_folders(storage.run(name).artifacts / f"seed_{seed}")))


def make_composable_run(
    storage: Storage,
    name: str,
    method: str = "ita-lora",
    seeds: Sequence[int] = (0, 1),
    failed: Sequence[int] = (),
    source: BenchmarkSource | None = None,
    curvature: CurvatureKind | None = None,
) -> RunDirectory:
    """Put a final run of three tasks into a storage root; of a seed that failed, two tasks have left their vectors.

    The tasks are of two digits each, or those of another benchmark, which is run with the embedded backbone. With a
    kind of curvature, the curvature of each task is saved with its vector.
    """
    benchmark = SMALL if source is None else source.name
    return BuiltRuns.copy(_train, storage, name, method, tuple(seeds), tuple(failed), benchmark, curvature)


def _train(
    storage: Storage,
    name: str,
    method: str,
    seeds: tuple[int, ...],
    failed: tuple[int, ...],
    benchmark_name: str,
    curvature: CurvatureKind | None,
) -> None:
    source = get_source(benchmark_name)
    small = benchmark_name == SMALL
    benchmark = small_benchmark() if small else build_benchmark(source, "final", 0, Backbone().input)
    spec = FinalSpec(
        name=name,
        benchmark=source.name,
        method=method,
        protocol=protocol_of(source.spec, 0, Backbone()),
        resources=Resources(),
        trials=len(seeds),
        steps=source.num_tasks,
        fixed={**SETTINGS[method], **({"curvature": curvature} if curvature == "kronecker" else {})},
        save_curvature=curvature is not None,
        seeds=seeds,
        source="search",
        tuned_on=source.name,
    )
    _, directory = make_run_directory(spec, storage)
    trials = [_trained(benchmark, spec, directory, number, seed, seed in failed) for number, seed in enumerate(seeds)]
    finish(spec, directory, trials, tasks=source.num_tasks)


def _trained(
    benchmark: Benchmark, spec: FinalSpec, directory: RunDirectory, number: int, seed: int, fails: bool
) -> TrialSummary:
    sequence = IncrementalSequence(
        benchmark,
        spec.method,
        spec.fixed,
        backbone=Backbone(),
        seed=seed,
        artifacts=directory.artifacts / f"seed_{seed}",
        save_curvature=spec.save_curvature,
    )
    if fails:
        rows = [sequence.run_next_task() for _ in range(2)]
        return TrialSummary(number, seed, "failed", spec.fixed, rows, error="out of memory")
    rows = [sequence.run_next_task() for _ in sequence.tasks]
    return TrialSummary(number, seed, "complete", spec.fixed, rows, rows[-1]["test/final_accuracy"])
