"""Sharing a GPU: the bookkeeping with Ray's fake resources, and the fence where there is a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch

from benchmarks.many_trials.analytic import AnalyticTrial
from tausearch.cluster import cluster_capacity, session, trials_that_fit
from tausearch.cluster.pilot import propose
from tausearch.execution import Dispatcher, Run, StorageWatch
from tausearch.execution.tune_adapters import run_on_tune
from tausearch.runs import ExperimentProtocol, Record, Resources, SearchSpec, Storage, TrialTable
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import Runs
from trainables.device import CONTEXT_BYTES, claim, fence

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
TASKS = 3


class GreedyTrial(AnalyticTrial):
    """Runs out of memory at task 2 in trial 1 unless it has a whole GPU, in trial 2 always; notes what it was given."""

    tasks = TASKS

    def step(self) -> dict[str, Any]:
        row = super().step()
        share = ray.get_runtime_context().get_assigned_resources()["GPU"]
        assert share == self.config["gpus_per_trial"]
        greedy = self.config["trial"] == 2 or (self.config["trial"] == 1 and share < 1)
        if self.task == 2 and greedy:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {**row, "memory/peak_gpu_bytes": share}


@pytest.fixture
def fake_gpu() -> Iterator[None]:
    with session._needed_alone():
        ray.init(address="local", num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow  # four processes and two more
def test_out_of_memory_gets_a_whole_gpu_once_and_then_fails(fake_gpu: None, tmp_path: Path) -> None:
    protocol = ExperimentProtocol(
        tasks=TASKS, epochs=1, batch_size=1, split_seed=0, backbone="glyph_vit", weights_digest="0" * 64
    )
    spec = SearchSpec(
        name="greedy",
        benchmark="digits",
        method="ita-lora",
        protocol=protocol,
        resources=Resources(gpus_per_trial=0.25, max_concurrent_trials=4),
        trials=4,
        steps=TASKS,
    )
    points = {"alpha": 1.0, "lr": 0.01}

    storage = Storage(tmp_path)
    directory = storage.run("greedy")
    source = FixedSearcher((number, points) for number in range(4))
    record = Record(directory.record)
    run = Run(spec, storage, directory, source, TrialTable())
    run.listeners = [SimpleNamespace(trial_changed=record.write)]
    dispatcher = Dispatcher(Runs([run]), cluster_capacity, max_concurrent_trials=4)
    tune = partial(run_on_tune, before_first=lambda: None, own_ray=True)
    tune(dispatcher, directory, GreedyTrial, lambda: None, StorageWatch(directory))
    trials = record.trials()
    assert [trial.status for trial in trials] == ["complete", "complete", "failed", "complete"]
    assert "OutOfMemoryError" in (trials[2].error or "")
    shares = [[row["memory/peak_gpu_bytes"] for row in trial.rows] for trial in trials]
    assert shares == [[0.25] * 3, [0.25, 1.0, 1.0], [0.25], [0.25] * 3]  # task 1 is not run again


def test_as_many_run_at_a_time_as_cpus_and_gpus_fit() -> None:
    assert trials_that_fit(Resources(cpus_per_trial=2), cpus=5, gpus=0) == 2
    assert trials_that_fit(Resources(gpus_per_trial=0.25), cpus=64, gpus=2) == 8
    assert trials_that_fit(Resources(gpus_per_trial=0.25), cpus=3, gpus=2) == 3


def test_pilot_proposes_what_memory_and_cpus_allow() -> None:
    gib = 2**30
    assert propose(30 * gib, 140 * gib, cpus=16, cpus_per_trial=1) == 3  # 4 trials of 34.5 + 1 would need 142
    assert propose(gib, 140 * gib, cpus=16, cpus_per_trial=1) == 16
    assert propose(gib, 140 * gib, cpus=16, cpus_per_trial=4) == 4
    assert propose(200 * gib, 140 * gib, cpus=16, cpus_per_trial=1) == 1
    assert propose(1, 1000 * gib, cpus=1000, cpus_per_trial=1) == 64


def test_fence_leaves_room_for_the_context() -> None:
    assert fence(0.25, 100 * CONTEXT_BYTES) == pytest.approx(0.24)
    assert 4 * (fence(0.25, 100 * CONTEXT_BYTES) * 100 * CONTEXT_BYTES + CONTEXT_BYTES) <= 100 * CONTEXT_BYTES * 1.0001


def test_a_cpu_trial_sees_no_gpu() -> None:
    asked = "import torch; from trainables.device import claim; print(claim(0), torch.cuda.is_available())"
    # In a process of its own, as a trial has it: once CUDA has been asked for, no GPU can be hidden any more.
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cpu", "False"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_fence_holds() -> None:
    claim(0.1)
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(int(0.11 * total), dtype=torch.uint8, device="cuda")
    torch.empty(int(0.05 * total), dtype=torch.uint8, device="cuda")
