"""Measure with a pilot trial how many trials can share a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray
import torch

from tausearch.cluster.capacity import local_cpus
from tausearch.cluster.session import ray_session
from tausearch.runs import Pilot, RunSpec
from trainables.config import TrialConfig
from trainables.device import CONTEXT_BYTES, peak_bytes, release
from trainables.errors import InputError
from trainables.sequence import IncrementalSequence
from trainables.trial import build_sequence

S = TypeVar("S", bound=RunSpec)
HEADROOM = 1.15  # later tasks have more head rows, and allocators fragment
MAX_TRIALS_PER_GPU = 64


class PilotError(InputError):
    """A pilot trial has failed, or has measured nothing."""


def propose(peak_bytes: int, total_bytes: int, cpus: int, cpus_per_trial: int) -> int:
    """Return the number of trials that fit the memory and the CPUs of one GPU, at least 1."""
    by_memory = int(total_bytes / (HEADROOM * peak_bytes + CONTEXT_BYTES))
    return max(1, min(by_memory, cpus // cpus_per_trial, MAX_TRIALS_PER_GPU))


def with_measured_share(
    spec: S,
    configs: Sequence[TrialConfig],
    address: str | None,
    say: Callable[[str], None],
    check: Callable[[], None],
) -> tuple[S, str]:
    """Run the first tasks of pilot trials, each on a whole GPU, and set the GPU share of the spec.

    `configs` are a trial of it, or one on each of several benchmarks; the largest counts. `check` is called while a
    node is waited for.

    Returns:
        The spec with the share 1/k, and a line with the measurement.

    Raises:
        InputError: If Ray cannot be started or joined, or has no GPU.
        PilotError: If a pilot fails.
    """
    resources = spec.resources.model_copy(update={"gpus_per_trial": 1.0})
    with ray_session([resources], address, say=say, check=check, quiet=True):
        task = ray.remote(_measure).options(num_gpus=1, num_cpus=spec.resources.cpus_per_trial)
        try:
            found = ray.get([task.remote(config.as_dict()) for config in configs])
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise PilotError(f"the pilot trial failed ({reason})") from error
        cpus = _cpus_per_gpu()
    peak, total = max(peak for peak, _ in found), min(total for _, total in found)
    if peak == 0:
        raise PilotError("the pilot trial used no GPU memory, so there is nothing to measure")
    k = propose(peak, total, cpus, spec.resources.cpus_per_trial)
    pilot = Pilot(peak_bytes=peak, gpu_bytes=total)
    chosen = resources.model_copy(update={"gpus_per_trial": 1 / k, "pilot": pilot})
    return spec.model_copy(
        update={"resources": chosen}
    ), f"pilot: {pilot} at most, so {k} trial{'s' if k > 1 else ''} per GPU"


def _cpus_per_gpu() -> int:
    """Return the CPUs for each GPU of the connected cluster, of the nodes that have GPUs; the fewest count."""
    alive = (node["Resources"] for node in ray.nodes() if node["Alive"])
    return min((int(has.get("CPU", 0) // has["GPU"]) for has in alive if has.get("GPU")), default=local_cpus())


def first_rows(sequence: IncrementalSequence, tasks: int) -> Iterator[dict[str, float]]:
    """Run at most `tasks` tasks of a sequence and yield their metrics rows; then close the sequence."""
    try:
        for _ in range(tasks):
            if not sequence.finished:
                yield sequence.run_next_task()
    finally:
        sequence.close()


def _measure(config: dict[str, Any]) -> tuple[int, int]:
    """Return the peak memory of a trial on this worker's GPU, and the GPU's total memory, bytes."""
    sequence = build_sequence(TrialConfig(**config))
    release()
    for _ in first_rows(sequence, sequence.entry.capabilities.tasks_to_peak):
        pass
    total = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 0
    return peak_bytes(), total
