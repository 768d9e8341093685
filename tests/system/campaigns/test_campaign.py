"""A table of four cells from one file, with trials that compute nothing: made, made again, changed, and failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from benchmarks.results.tables import provenance, tables
from tausearch.campaigns import (
    CampaignRequest,
    CampaignResult,
    plan_campaign,
    run_campaign,
    write_campaign_report,
)
from tausearch.runs import Record, Storage, read_spec, read_status
from tausearch.studies import load_best
from tausearch.tracking import TABLE_TAG
from tests.support.drivers.searches import assert_mlflow_has_each_task_once, run_here, tausearch, trials_of
from tests.support.drivers.trials import FiveTasks

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

TABLE = """
campaign: table
benchmarks: [digits, "digits?epochs=1"]
methods: [ita-lora, ita-ia3]
search: {algorithm: tpe, trials: 6}
train: {seeds: [0, 1, 2]}
cells:
  - {benchmark: "digits?epochs=1", method: ita-ia3, search: null}
  - {benchmark: "digits?epochs=1", method: ita-lora, search: {reevaluate: 2, reevaluate_runs: 2}}
"""
TITLES = ["digits/ita-lora", "digits/ita-ia3", "digits-epochs-1/ita-lora", "digits-epochs-1/ita-ia3"]
SEARCHES = ["table-digits-ita-lora", "table-digits-ita-ia3", "table-digits-epochs-1-ita-lora"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "table.yaml").write_text(TABLE)
    return folder


def request(folder: Path, file: str = "table.yaml", **options: Any) -> CampaignRequest:
    return CampaignRequest(folder / file, storage=folder / "tausearch-runs", **options)


@pytest.fixture(scope="module")
def result(folder: Path) -> CampaignResult:
    return run_campaign(plan_campaign(request(folder)), FiveTasks)


@pytest.fixture
def call(folder: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command line in this process and the folder of the campaign."""
    return partial(run_here, cwd=folder, capture=capfd)


@pytest.fixture
def root(folder: Path) -> Path:
    return folder / "tausearch-runs"


def test_every_cell_is_an_ordinary_search_and_an_ordinary_final_run(result: CampaignResult, root: Path) -> None:
    assert [each.runs.title for each in result.standing.cells] == TITLES
    assert {each.state for each in result.standing.cells} == {"done"} and result.failed == {}
    for name in SEARCHES:
        found = read_status(Storage(root).run(name))
        assert found.state == "finished" and found.counts["complete"] == 6
        assert read_spec(Storage(root).run(f"{name}-final")).source == name
        assert read_spec(Storage(root).run(f"{name}-final")).fixed["lr"] == found.best.hyperparameters["lr"]
    assert not Storage(root).run_exists("table-digits-epochs-1-ita-ia3")
    final = read_status(Storage(root).run("table-digits-epochs-1-ita-ia3-final"))
    assert [trial.seed for trial in final.trials] == [0, 1, 2] and final.spec.source is None


def test_a_cell_reevaluates_before_its_final_run(result: CampaignResult, root: Path) -> None:
    directory = Storage(root).run(SEARCHES[2])
    selection = load_best(directory.best_file).selection
    assert selection is not None and selection.reevaluation is not None
    assert len(selection.reevaluation.candidates) == 2 and selection.reevaluation.seeds == (1, 2)
    assert {trial.status for trial in Record(directory.reevaluation.record).trials()} == {"complete"}
    final = read_spec(Storage(root).run(f"{SEARCHES[2]}-final"))
    assert final.fixed["lr"] == load_best(directory.best_file).hyperparameters["lr"]
    assert not Storage(root).run(SEARCHES[0]).reevaluation.record.exists()


def test_mlflow_has_every_run_once(result: CampaignResult, root: Path) -> None:
    for name in ("table-digits-ita-lora", "table-digits-ita-ia3"):
        assert_mlflow_has_each_task_once(root, name, trials_of(root, name), killed=False)
        assert_mlflow_has_each_task_once(root, f"{name}-final", trials_of(root, f"{name}-final"), chosen=0)


def tagged(root: Path, kind: str) -> dict[str, Run]:
    """The runs of digits that stand in a table, by their names."""
    client = MlflowClient(tracking_uri=Storage(root).mlflow_uri)
    experiment = client.get_experiment_by_name("digits").experiment_id
    found = client.search_runs([experiment], f"tags.`{TABLE_TAG}` = 'table' and tags.kind = '{kind}'")
    return {run.data.tags["tausearch.run"]: run for run in found}


def view(root: Path) -> dict[str, Any]:
    """What MLflow's pages show of digits; they open it by the tag's last part."""
    experiment = MlflowClient(tracking_uri=Storage(root).mlflow_uri).get_experiment_by_name("digits")
    shown: dict[str, Any] = json.loads(experiment.tags["mlflow.sharedViewState.tausearch-table"])
    return shown


def test_mlflow_says_which_runs_stand_in_the_table(
    result: CampaignResult, call: Callable[..., str], folder: Path, root: Path
) -> None:
    assert set(tagged(root, "search")) == set(SEARCHES[:2])
    finals = tagged(root, "final")
    assert set(finals) == {f"{name}-final" for name in SEARCHES[:2]}
    accuracy = result.standing.cells[0].accuracy
    assert accuracy is not None
    assert finals["table-digits-ita-lora-final"].data.metrics["test/final_accuracy/mean"] == accuracy.mean
    (dataset,) = [each.dataset for each in finals["table-digits-ita-lora-final"].inputs.dataset_inputs]
    assert (dataset.name, json.loads(dataset.profile)) == ("digits", {"tasks": 5, "train": 1433, "test": 364})
    chosen = read_spec(Storage(root).run("table-digits-ita-lora-final")).fixed
    assert finals["table-digits-ita-lora-final"].data.params.items() >= {k: str(v) for k, v in chosen.items()}.items()
    shown = call("campaign", "status", "table")
    assert re.search(
        r"MLflow, digits: http://127.0.0.1:5000/#/experiments/\d+/runs.viewStateShareKey=tausearch-table", shown
    )
    assert {"params.`alpha`", "metrics.`paper/final_accuracy`"} <= set(view(root)["selectedColumns"])
    assert view(root)["searchFilter"] == "tags.`tausearch.table` = 'table' and tags.kind = 'final'"
    Storage(root).mlflow_file.unlink()
    tausearch("runs", "sync", cwd=folder)  # a process of its own: this one still holds the database
    assert set(tagged(root, "final")) == set(finals) and "params.`lr`" in view(root)["selectedColumns"]


def test_the_report_is_the_one_that_is_made_from_all_cells_anew(
    result: CampaignResult, root: Path, tmp_path: Path
) -> None:
    """The cells were read one by one, as they ended."""
    directory = Storage(root).campaign("table")
    anew = write_campaign_report(Storage(root), result.standing, tmp_path / "report.html")
    pages = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d[^<]*", "", path.read_text()) for path in (directory.report_file, anew)]
    assert pages[0] == pages[1]


def test_the_tables_of_the_results_page_are_made_of_it(result: CampaignResult, root: Path) -> None:
    found = tables(Storage(root), result.standing)
    names = {"digits", "digits?epochs=1"}
    assert set(found) == {*names, *(f"{name} searches" for name in names), "ablations", "evaluation"}
    for each in result.standing.cells:
        assert each.accuracy is not None
        (line,) = [row for row in found[each.runs.benchmark].splitlines() if f"`{each.runs.method}`" in row]
        assert each.accuracy.text() in line
        if each.best is not None and each.search is not None:
            values = [trial.value or 0 for trial in each.search.trials]
            assert f"| {min(values):.1f} / {values[0]:.1f} / {max(values):.1f} |" in line
    assert provenance(result.standing).endswith("% of the slots' time inside trials.")
    title = result.standing.cells[0].runs.title
    result.standing.directory.pilot_file.write_text(
        json.dumps({title: {"pace": {"own": 500, "shared": 225}, "memory": 0, "of": ""}})
    )
    assert re.search(r"4 cells took \d+:\d\d", provenance(result.standing))
    assert "pilot` and actual time: 1:30:00 and 0:" in provenance(result.standing)


def test_once_more_runs_nothing_again(
    result: CampaignResult, folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was started"))
    (root / "campaigns" / "table" / "report.html").unlink()
    record = {path: path.stat().st_mtime_ns for path in root.glob("*/record/*.parquet")}
    again = run_campaign(plan_campaign(request(folder)), FiveTasks)
    assert again.standing.as_dict() == result.standing.as_dict() and again.results == 0
    assert (root / "campaigns" / "table" / "report.html").exists()
    assert {path: path.stat().st_mtime_ns for path in root.glob("*/record/*.parquet")} == record


def test_what_a_kill_left_unconcluded_is_concluded_without_ray(
    result: CampaignResult, folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was started"))
    campaign, name = Storage(root).campaign("table"), "table-digits-ita-lora-final"
    campaign.reopen(name)
    Storage(root).run(name).results_file.unlink()
    again = run_campaign(plan_campaign(request(folder)), FiveTasks)
    assert again.results == 1 and again.standing.as_dict() == result.standing.as_dict()
    assert Storage(root).run(name).results_file.exists() and campaign.is_concluded(name)
