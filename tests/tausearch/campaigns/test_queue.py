"""Which runs a campaign opens, when it is given again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tausearch.campaigns import CampaignPlan, CampaignRequest, campaign_of, plan_campaign
from tausearch.campaigns.campaign_cell import CampaignCell
from tausearch.cli import main
from tausearch.execution import Interrupt, RunQueue, StorageWatch

TABLE = "campaign: t\nbenchmarks: [digits]\nmethods: [finetune, ewc]\nsearch: {trials: 2}\n"


def planned(tmp_path: Path) -> CampaignPlan:
    (tmp_path / "t.yaml").write_text(TABLE)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path))
    plan.directory.path.mkdir(parents=True, exist_ok=True)
    plan.kept.save(plan.directory)
    return plan


def opened(plan: CampaignPlan) -> list[str]:
    """The names of the runs that are opened of all cells, one after another, none of which is run; then what failed."""
    cells = [CampaignCell(plan, planned, lambda line: None) for planned in plan.cells]
    queue = RunQueue(cells, Interrupt(), StorageWatch(plan.directory), lambda line: None, lambda cell, run: [])
    names = []
    try:
        while (run := queue.open_next()) is not None:
            names.append(run.spec.name)
    finally:
        queue.release()
    return [*names, *(cell.runs.title for cell in cells if cell.error is not None)]


def test_a_run_that_was_seen_to_its_end_is_not_opened_and_a_deleted_one_is_made_again(tmp_path: Path) -> None:
    first, second = "t-digits-finetune", "t-digits-ewc"
    assert opened(planned(tmp_path)) == [first, second]
    plan = planned(tmp_path)
    for name in (first, f"{first}-final"):
        plan.directory.conclude(name)
    shutil.copytree(tmp_path / first, tmp_path / f"{first}-final")
    assert opened(plan) == [second]
    shutil.rmtree(tmp_path / first)
    assert opened(plan) == [first, second]


def test_a_cell_whose_search_chose_nothing_cannot_be_trained(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    opened(plan)
    plan.directory.conclude("t-digits-finetune")
    assert opened(plan) == ["t-digits-ewc", "digits/finetune"]  # failed, and the other goes on


def test_a_cells_run_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path)
    opened(plan)
    assert campaign_of(plan.storage, "t-digits-ewc") == "t" and campaign_of(plan.storage, "other") is None
    monkeypatch.setattr("sys.argv", ["tausearch", "rename", "t-digits-ewc", "mine", "--storage", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "is a cell's of campaign 't'" in capsys.readouterr().err
