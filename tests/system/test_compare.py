"""Tuned on one benchmark, judged on another, and compared: real runs through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tausearch.runs import Storage, read_spec
from tests.support.runs.final_runs import make_final_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HERE, THERE = "digits?epochs=1", "glyphs?epochs=1"


def test_final_runs_here_and_there(call: Callable[..., str], tmp_path: Path) -> None:
    storage = Storage(tmp_path / "tausearch-runs")
    call("search", HERE, "finetune", "--trials", "1", "--name", "s", "--format", "json")
    best = str(storage.run("s").best_file)
    out = call("train", best, "--benchmark", THERE, "--seeds", "0", "--name", "there")
    assert f"tuned on      {HERE} (search s), judged on {THERE}" in out
    results = json.loads(storage.run("there").results_file.read_text())
    assert (results["benchmark"], results["tuned_on"], results["source"]) == (THERE, HERE, "s")
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    experiment = client.get_experiment_by_name(THERE)
    runs = client.search_runs([experiment.experiment_id], "tags.`tausearch.run` = 'there'")
    assert [(run.data.tags["tuned_on"], run.data.tags["judged_on"]) for run in runs] == [(HERE, THERE)]

    # The others would need a search on glyphs and minutes more; they are written as a final run writes them.
    here, there = (read_spec(storage.run(name)).protocol.model_dump() for name in ("s", "there"))
    make_final_run(storage, "here", [50.0], benchmark=HERE, method="finetune", protocol=here)
    make_final_run(storage, "back", [40.0], benchmark=HERE, tuned_on=THERE, method="finetune", protocol=here)
    make_final_run(storage, "own", [30.0], benchmark=THERE, method="finetune", protocol=there)
    (matrix,) = json.loads(call("compare", "--transfer", "--format", "json"))["matrices"]
    cells = {(cell["tuned_on"], cell["judged_on"]): cell for cell in matrix["cells"]}
    assert {pair: cell["run"] for pair, cell in cells.items()} == {
        (HERE, HERE): "here",
        (THERE, HERE): "back",
        (HERE, THERE): "there",
        (THERE, THERE): "own",
    }
    judged_there = results["summary"]["test/final_accuracy"]["mean"]
    assert cells[HERE, THERE]["loss"] == pytest.approx(30.0 - judged_there)

    rows = json.loads(call("compare", HERE, "--format", "json"))["rows"]
    assert [row["departures"][0] for row in rows] == [f"the paper has no {HERE}"] * 2
    assert f"the paper has no {HERE}" in call("compare") and storage.comparison_figure.stat().st_size > 5000
