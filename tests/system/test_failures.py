"""Trials that fail or diverge in a real search: it goes on without them, says so, and keeps why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from optuna.trial import TrialState

from tausearch.runs import Storage
from tausearch.studies import load_best
from tests.support.drivers.searches import (
    assert_mlflow_has_each_task_once,
    nested_runs,
    started,
    study_trials,
    train_workers,
    trials_of,
)
from tests.support.drivers.services import wait_until


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_trial_whose_process_is_killed_three_times_has_failed(call: Callable[..., str], tmp_path: Path) -> None:
    root, out, killed = tmp_path / "tausearch-runs", tmp_path / "out.txt", list[psutil.Process]()
    size = ["--epochs", "1", "--algorithm", "grid", "--trials", "2", "--max-concurrent-trials", "1"]
    with started("search", "digits", "finetune", *size, "--name", "s", cwd=tmp_path, out=out) as process:

        def kill_one_that_got_on() -> bool:
            assert process.poll() is None, out.read_text()
            first = trials_of(root, "s")[:1]
            workers = [worker for worker in train_workers(process.pid) if worker not in killed]
            if workers and first and first[0].tasks_done > len(killed):
                workers[0].kill()
                killed.append(workers[0])
            return len(killed) == 3

        wait_until(kill_one_that_got_on, 400, "three processes to kill")
        assert process.wait(600) == 0
    failed, complete = trials_of(root, "s")
    assert (failed.status, complete.status) == ("failed", "complete")
    assert [row["task"] for row in failed.rows] == [1, 2, 3, 4, 5][: failed.tasks_done] and failed.value is None
    assert failed.error == "its process died (killed, crashed, short of memory, or with its node); failures: 3"
    said = f"trial 0 failed: {failed.error}"
    assert said in out.read_text() and "[1/2] trial 0 failed" in out.read_text()
    shown = call("status", "s")
    assert "s: finished; 1 complete, 1 failed" in shown and said in shown
    counts = json.loads(call("status", "s", "--format", "json"))["counts"]
    assert (counts["failed"], counts["complete"], sum(counts.values())) == (1, 1, 2)
    assert load_best(Storage(root).run("s").best_file).selection.trial == 1
    assert [trial.state for trial in study_trials(root, "s")] == [TrialState.FAIL, TrialState.COMPLETE]
    assert_mlflow_has_each_task_once(root, "s", [failed, complete])
    assert nested_runs(root, "s")[0].data.tags["error"] == failed.error


@pytest.mark.system
@pytest.mark.timeout(900)
def test_configurations_that_diverge(call: Callable[..., str], tmp_path: Path) -> None:
    root, space = tmp_path / "tausearch-runs", tmp_path / "space.yaml"
    dimensions = {
        "alpha": "{low: 1, high: 1.0e+9, log: true, grid: [1.0e+9, 400]}",
        "lr": "{low: 0.0001, high: 1.0e+30, log: true, grid: [1.0e+30, 0.0003]}",
    }
    space.write_text("space:\n" + "".join(f"  {name}: {values}\n" for name, values in dimensions.items()))
    fixed = ("--epochs", "1", "--set", "alpha_cls=0.1", "--set", "alpha_cls_prior=0.01", "--space", str(space))
    search = (
        "search",
        "digits",
        "ita-fft",
        "--algorithm",
        "grid",
        *fixed,
        "--max-concurrent-trials",
        "1",
        "--name",
        "s",
    )
    printed = call(*search)
    *diverged, complete = trials_of(root, "s")
    # The learning rate shows at once. The Fisher of two classes is small, so alpha shows at the second task.
    at_once, later = "loss is not finite at task 1", r"regularised loss of \d+ \(chance loss 0.69\) at task 2"
    shown = call("status", "s")
    for trial, (tasks_done, what) in zip(diverged, [(0, at_once), (1, later), (0, at_once)], strict=True):
        assert (trial.status, trial.tasks_done, trial.value) == ("diverged", tasks_done, None)
        assert re.fullmatch(rf"{what}, step \d+", trial.error or "")
        assert f"[{trial.number + 1}/4] trial {trial.number} diverged: {trial.error}" in printed
    for why in {trial.error for trial in diverged}:
        numbers = [str(trial.number) for trial in diverged if trial.error == why]
        said = f"trial{'s' * (len(numbers) > 1)} {', '.join(numbers)} diverged: {why}\n"
        assert said in printed and said in shown
    assert complete.status == "complete" and complete.tasks_done == 5
    assert "s: finished; 1 complete, 3 diverged" in shown
    assert load_best(Storage(root).run("s").best_file).selection.trial == 3
    assert [trial.state for trial in study_trials(root, "s")] == [TrialState.PRUNED] * 3 + [TrialState.COMPLETE]
    assert_mlflow_has_each_task_once(root, "s", [*diverged, complete])
    errors = [run.data.tags.get("error") for run in nested_runs(root, "s")]
    assert errors == [*(trial.error for trial in diverged), None]
