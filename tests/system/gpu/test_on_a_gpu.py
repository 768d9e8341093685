"""Whole searches through the command line on a real GPU, several trials at a time on it; without one nothing runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tausearch.runs import Storage, TrialSummary, read_spec
from tests.support.drivers.searches import (
    assert_mlflow_has_each_task_once,
    kill_tree,
    run,
    started,
    tasks_done,
    train_workers,
    trials_of,
)
from tests.support.drivers.services import wait_until
from trainables.device import fence
from trainables.metrics import PEAK_GPU_BYTES, repeatable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
SHARE = 0.25
SEARCH = ["search", "digits", "ita-lora", "--algorithm", "grid", "--trials", "6", "--gpus-per-trial", str(SHARE)]

# One batch of it is more than 1/64 of any GPU, and less than a whole one.
LARGE = """
import torch
from trainables.data import BenchmarkSource, small_transforms

def load(part):
    count = {"train": 20_000, "test": 100}[part]
    generator = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 1, 32, 32), dtype=torch.uint8, generator=generator)
    return images, torch.arange(count) % 4

LARGE = BenchmarkSource(
    name="large", class_names=tuple("abcd"), num_tasks=2, epochs=1, batch_size=10_000, backbone="glyph_vit", load=load,
    transforms=small_transforms,
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(scope="module")
def calm(folder: Path) -> list[TrialSummary]:
    run(*SEARCH, "--name", "calm", cwd=folder)
    return trials_of(folder / "tausearch-runs", "calm")


def total_memory() -> int:
    return torch.cuda.get_device_properties(0).total_memory


def what_was_found(trials: list[TrialSummary]) -> list[Any]:
    return [repeatable(row) for trial in trials for row in trial.rows]


def test_trials_note_the_memory_that_they_took(folder: Path, calm: list[TrialSummary]) -> None:
    assert [trial.status for trial in calm] == ["complete"] * 6
    peaks = [row[PEAK_GPU_BYTES] for trial in calm for row in trial.rows]
    assert len(peaks) == 30 and min(peaks) > 0 and max(peaks) <= fence(SHARE, total_memory()) * total_memory()
    assert_mlflow_has_each_task_once(folder / "tausearch-runs", "calm", calm)


def test_a_final_run_and_what_is_composed_of_it(folder: Path, calm: list[TrialSummary]) -> None:
    run("train", "calm", "--seeds", "0,1", "--gpus-per-trial", "0.5", "--name", "final", cwd=folder)
    trials = trials_of(folder / "tausearch-runs", "final")
    composed = json.loads(run("compose", "final", "--format", "json", cwd=folder))
    own = [[trial.rows[-1][f"test/accuracy/task_{task}"] for task in range(1, 6)] for trial in trials]
    assert composed["accuracies"] == own and composed["summary"]["test/final_accuracy"]["mean"] > 70


def test_killed_and_resumed_it_finds_the_same(folder: Path, calm: list[TrialSummary]) -> None:
    root, out = folder / "tausearch-runs", folder / "killed.txt"
    with started(*SEARCH, "--name", "killed", cwd=folder, out=out) as process:
        wait_until(lambda: tasks_done(root, "killed") >= 3 and bool(train_workers(process.pid)), 300, "three tasks")
        train_workers(process.pid)[0].kill()
        wait_until(lambda: tasks_done(root, "killed") >= 10, 300, "ten tasks")
        assert process.poll() is None, out.read_text()
        kill_tree(process.pid)
    assert tasks_done(root, "killed") < 30
    run("resume", "killed", cwd=folder)
    killed = trials_of(root, "killed")
    assert what_was_found(killed) == what_was_found(calm)
    assert_mlflow_has_each_task_once(root, "killed", killed)


def test_the_pilot_measures_how_many_fit(folder: Path) -> None:
    arguments = ["--trials", "2", "--gpus-per-trial", "auto", "--name", "auto"]
    printed = run("search", "digits", "finetune", *arguments, cwd=folder)
    measured = re.search(r"pilot: (\S+) of (\S+) GiB at most, so (\d+) trials per GPU", printed)
    assert measured is not None and 0 < float(measured[1]) < float(measured[2]) <= total_memory() / 2**30 + 0.1
    spec = read_spec(Storage(folder / "tausearch-runs").run("auto"))
    assert spec.resources.gpus_per_trial == 1 / int(measured[3])


def test_a_trial_too_large_for_its_share_gets_a_whole_gpu(folder: Path) -> None:
    (folder / "large.py").write_text(LARGE)
    arguments = ["--trials", "2", "--max-concurrent-trials", "2", "--gpus-per-trial", str(1 / 64), "--name", "large"]
    run("search", "large:LARGE", "finetune", *arguments, cwd=folder)
    trials = trials_of(folder / "tausearch-runs", "large")
    assert [(trial.status, trial.tasks_done) for trial in trials] == [("complete", 2)] * 2
    share = fence(1 / 64, total_memory()) * total_memory()
    assert min(row[PEAK_GPU_BYTES] for trial in trials for row in trial.rows) > share
