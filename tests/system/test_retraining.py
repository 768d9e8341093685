"""`compose --forget --retrain-later` on Ray: stopped and called again, it ends as a run that never had the class."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tausearch.runs import FinalSpec, open_storage, read_spec
from tests.support.drivers.searches import started, tasks_done, trials_of
from tests.support.runs.composable_runs import make_composable_run
from trainables.data import get_source
from trainables.metrics import repeatable
from trainables.trial import build_sequence

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

WORDS = ("compose", "r", "--forget", "class:4", "--retrain-later", "--storage", "runs", "--format", "json")
NEW, LEFT = "r-retrained-1", "digits?epochs=1&task=0,1,2,3&task=5,6&task=7,8,9"


def test_stopped_and_called_again(call: Callable[..., str], tmp_path: Path) -> None:
    root = tmp_path / "runs"
    make_composable_run(open_storage(root, write=True), "r", source=get_source("digits?tasks=3&epochs=1"))
    run = open_storage(root, write=True).run("r")
    read_spec(run).model_copy(update={"tracking": ()}).save(run)  # nor is the new run
    before = {path: path.read_bytes() for path in (root / "r").rglob("*") if path.is_file()}
    with started(*WORDS, cwd=tmp_path, out=tmp_path / "out.txt") as process:
        deadline = time.monotonic() + 400
        while tasks_done(root, NEW) < 3:  # two that are taken over, and one
            assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "out.txt").read_text()
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(400) == 130
    out = (tmp_path / "out.txt").read_text()
    assert "estimate:" not in out  # one price
    assert "4 trainings, about" in out and out.endswith("interrupted; continue with: the same command\n"), out
    done = json.loads(call(*WORDS))
    spec = read_spec(open_storage(root, write=False).run(NEW))
    assert isinstance(spec, FinalSpec) and spec.benchmark == LEFT
    assert (done["runs"], done["removal"]["retrained"], done["weights"]) == ([NEW], "r", [1 / 3] * 3)
    for trial in trials_of(root, NEW):
        folder = tmp_path / f"anew-{trial.seed}"
        sequence = build_sequence(replace(spec.trial_config(trial.number, {}, cache=None), artifacts=str(folder)))
        rows = [repeatable(sequence.run_next_task()) for _ in sequence.tasks]
        assert [repeatable(row) for row in trial.rows] == rows
        files = sorted(folder.rglob("*.safetensors"))
        assert len(files) == 6  # a vector and an adapter of each task
        for path in files:
            there = load_file(root / NEW / "task_vectors" / f"seed_{trial.seed}" / path.relative_to(folder))
            assert all(torch.equal(value, there[name]) for name, value in load_file(path).items())
        means = [done["accuracies"][trial.number][task] for task in range(3)]
        assert means == [rows[-1][f"test/accuracy/task_{task}"] for task in (1, 2, 3)]
    assert {path: path.read_bytes() for path in (root / "r").rglob("*") if path.is_file()} == before
