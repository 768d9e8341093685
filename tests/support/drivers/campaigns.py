"""The trials of a campaign's runs, and what must hold for them after any kill."""

from __future__ import annotations

from pathlib import Path

from tausearch.campaigns import read_campaign_status
from tausearch.runs import Storage
from tests.support.drivers.kills import Table, assert_nothing_runs_again
from tests.support.drivers.searches import assert_mlflow_has_each_task_once, trials_of

Tables = dict[str, Table]  # by the names of runs, without that of the campaign


def tables(root: Path, campaign: str) -> Tables:
    """Return the trials of a campaign's runs."""
    names = [directory.name for directory in Storage(root).runs() if directory.name.startswith(campaign)]
    return {name.removeprefix(f"{campaign}-"): trials_of(root, name) for name in names}


def assert_no_run_loses_anything(earlier: Tables, later: Tables) -> None:
    for name, table in earlier.items():
        assert_nothing_runs_again(table, later[name])


def assert_all_is_there(root: Path, campaign: str, cells: int) -> None:
    status = read_campaign_status(Storage(root), Storage(root).campaign(campaign))
    assert [each.state for each in status.cells] == ["done"] * cells
    names = [each for cell in status.cells for each in (cell.runs.search, cell.runs.final) if each is not None]
    for name in names:
        assert_mlflow_has_each_task_once(root, name, trials_of(root, name), chosen=int(not name.endswith("-final")))
