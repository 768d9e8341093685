"""Who looks while three processes write to one storage sees no error, and nothing that goes back."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

import pytest

from tausearch.api.final_runs import FinalRun
from tausearch.api.searches import SearchRun
from tausearch.campaigns import CampaignRequest, plan_campaign
from tausearch.execution import Run
from tausearch.runs import Record, SearchSpec, Storage, TrialSummary, driver_lock, final_value, read_status
from tausearch.runs.creation import make_run_directory
from tests.support.command_line import Ask

TABLE = """
campaign: t
benchmarks: [digits]
methods: [finetune, ewc]
search: {trials: 12, reevaluate: 0, algorithm: random}
train: {seeds: [0, 1, 2, 3, 4, 5, 6, 7]}
cells: [{method: joint, search: null}]
"""
TASKS_A_LOOK = 3  # that the writers may do while one command reads
Look = dict[str, Any]


def runs_of(folder: Path) -> tuple[Storage, list[Run]]:
    """Two searches and a final run, the cells of a campaign whose folder is there."""
    (folder / "t.yaml").write_text(TABLE)
    plan = plan_campaign(CampaignRequest(folder / "t.yaml", storage=folder / "runs"))
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    planned: list[tuple[SearchSpec, Callable[..., Run]]] = [
        (plan.cells[0].search.spec, SearchRun),
        (plan.cells[1].search.spec, SearchRun),
        (plan.cells[2].training.spec, FinalRun),
    ]
    made = [(*make_run_directory(spec, plan.storage), kind) for spec, kind in planned]
    return plan.storage, [kind(spec, plan.storage, directory) for spec, directory, kind in made]


def write(run: Run, pace: Semaphore) -> None:
    """Do what a driver does of it: trials side by side, record, best file, study file, results."""
    spec, record = run.spec, Record(run.directory.record, tasks=run.spec.steps, metric_names=run.spec.metrics)
    with driver_lock(run.directory):
        running: list[TrialSummary] = []
        while True:
            while len(running) < 2 and (suggested := run.searcher.next()) is not None:
                number, point = suggested
                running.append(TrialSummary(number, spec.seed_of(number), "running", {**spec.fixed, **point}))
            if not running:
                break
            trial = running.pop(0)
            assert pace.acquire(timeout=300)
            after = reported(spec, trial)
            run.trials.put(after)
            record.write(after)
            for listener in run.own_listeners:
                listener.trial_changed(after)
            if after.status == "running":
                running.append(after)
            else:
                run.searcher.finish(after.number, after.status, after.value)
        run.conclude(record.trials())


def reported(spec: SearchSpec, trial: TrialSummary) -> TrialSummary:
    """A trial one task later."""
    task, names = trial.tasks_done + 1, spec.metrics
    row = {"task": float(task), names.average_accuracy: 50.0 + trial.number, "seconds/training": 0.1}
    row |= {names.accuracy(k): 50.0 + trial.number for k in range(1, task + 1)}
    if task == spec.steps:
        row |= dict.fromkeys((names.final_accuracy, names.pooled_accuracy), 50.0 + trial.number)
        row |= {names.forgetting: 0.0}
    ended = "complete" if task == spec.steps else "running"
    rows = [*trial.rows, row]
    value = final_value(row)
    return TrialSummary(trial.number, trial.seed, ended, trial.hyperparameters, rows, value)  # type: ignore[arg-type]


@contextmanager
def writing(all_runs: list[Run]) -> Iterator[tuple[list[BaseProcess], Semaphore]]:
    """A process for each run; every task takes one of the semaphore's, so that they end when somebody has looked."""
    context: ForkContext = multiprocessing.get_context("fork")  # which has imported everything
    pace = context.Semaphore(0)
    processes = [context.Process(target=write, args=(run, pace), daemon=True) for run in all_runs]
    for process in processes:
        process.start()
    try:
        yield list(processes), pace
    finally:
        for _ in range(1000):  # all that they still have to do, if a look has failed
            pace.release()
        for process in processes:
            process.join(300)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def assert_no_step_back(before: Look, now: Look) -> None:
    """What has ended has ended, the best is not worse, and a run that is finished stays so."""
    for name, then in before.items():
        ended = [sum(each["counts"][kind] for kind in ("complete", "failed")) for each in (then, now[name])]
        assert ended[0] <= ended[1], (name, then, now[name])
        values = [(each["best"] or {"value": 0.0})["value"] for each in (then, now[name])]
        assert values[0] <= values[1], (name, then, now[name])
        assert then["state"] != "finished" or now[name]["state"] == "finished"


@pytest.mark.usefixtures("no_insight")
def test_whoever_looks_sees_no_error_and_no_step_back(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tausearch.reports.comparison.figure.save", lambda _, path: path
    )  # a picture of what has been read
    storage, all_runs = runs_of(tmp_path)
    at = ["--storage", str(storage.root)]
    looks: list[Look] = [{}]
    cells: list[list[int]] = [[0] * 3]
    compared = [0]
    with writing(all_runs) as (processes, pace):

        def more_is_written() -> None:
            for _ in range(TASKS_A_LOOK):
                pace.release()

        def asked(*command: str, hint: str = "") -> str:
            more_is_written()
            code, out, err = ask(*command, *at)
            assert code == 0 and (not err or (hint and err.startswith(hint))), (command, err)
            return out

        last = False
        while not last:
            last = not any(process.is_alive() for process in processes)  # and one look more
            looks.append({each["name"]: each for each in json.loads(asked("status", "--format", "json"))})
            assert_no_step_back(*looks[-2:])
            for _ in range(3):  # what a command reads, without its start
                more_is_written()
                assert storage.read_each(read_status)[1] == []
            asked("status", all_runs[len(looks) % 3].spec.name)
            status = json.loads(asked("campaign", "status", "t", "--format", "json"))
            cells.append([each["trials_ended"] + each["seeds_ended"] for each in status["cells"]])
            assert all(then <= now for then, now in zip(*cells[-2:], strict=True))
            compared.append(len(asked("compare", "--format", "csv", hint="no final runs").splitlines()))
            assert compared[-2] <= compared[-1]
    assert len({json.dumps(look) for look in looks}) > 4, "it looked at something that moved"
    assert cells[-1] == [12, 12, 8]
    assert [each["state"] for each in looks[-1].values()] == ["finished"] * 3
