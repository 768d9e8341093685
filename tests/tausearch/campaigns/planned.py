"""Campaigns that are planned, and runs that an earlier driver has begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.campaigns import CampaignPlan, CampaignRequest, plan_campaign
from tausearch.runs import Record, RunDirectory
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import make_trial
from trainables.errors import InputError

TABLE = """
campaign: t
benchmarks: [digits]
methods: [ita-lora, finetune]
search: {{trials: {trials}, algorithm: random}}
train: {{seeds: [0, 1]}}
cells: [{{method: joint, search: null}}]
"""


REEVALUATED = TABLE.replace("trials: {trials}", "trials: {trials}, reevaluate: 2, reevaluate_runs: 2")


def planned(tmp_path: Path, text: str = TABLE, trials: int = 4, **options: Any) -> CampaignPlan:
    path = tmp_path / "t.yaml"
    path.write_text(text.format(trials=trials))
    return plan_campaign(CampaignRequest(path, storage=tmp_path / "runs", **options))


def started(tmp_path: Path, text: str = TABLE) -> CampaignPlan:
    """The folder of the campaign and the search of its first cell have been made."""
    plan = planned(tmp_path, text)
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    make_run_directory(plan.cells[0].search.spec, plan.storage)
    return plan


def faults_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        planned(tmp_path, text)
    start = f"campaign file {tmp_path / 't.yaml'}: "
    return [line.removeprefix(start) for line in str(caught.value).splitlines()]


def remember(
    directory: RunDirectory, number: int, seconds: float, *, complete: bool = True, seed: int = 0, tasks: int = 5
) -> None:
    """Leave a trial whose tasks took so long."""
    trial = make_trial(number, tasks, 5.0) if complete else make_trial(number, 3, status="pruned")
    rows = [{**row, "seconds/training": seconds} for row in trial.rows]
    Record(directory.record, tasks=tasks).write(replace(trial, rows=rows, seed=seed))
