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


def test_final_runs_here_and_there(call: Callable[..., str], tmp_path: Path) -> None:
    storage = Storage(tmp_path / "tausearch-runs")
    call("search", "digits", "finetune", "--trials", "1", "--name", "s", "--format", "json")
    best = str(storage.run("s").best_file)
    out = call("train", best, "--benchmark", "glyphs", "--seeds", "0", "--name", "there")
    assert "tuned on      digits (search s), judged on glyphs" in out
    results = json.loads(storage.run("there").results_file.read_text())
    assert (results["benchmark"], results["tuned_on"], results["source"]) == ("glyphs", "digits", "s")
    client = MlflowClient(tracking_uri=storage.mlflow_uri)
    experiment = client.get_experiment_by_name("glyphs")
    runs = client.search_runs([experiment.experiment_id], "tags.`tausearch.run` = 'there'")
    assert [(run.data.tags["tuned_on"], run.data.tags["judged_on"]) for run in runs] == [("digits", "glyphs")]

    # The others would need a search on glyphs and minutes more; they are written as a final run writes them.
    here, there = (read_spec(storage.run(name)).protocol.model_dump() for name in ("s", "there"))
    make_final_run(storage, "here", [50.0], benchmark="digits", method="finetune", protocol=here)
    make_final_run(storage, "back", [40.0], benchmark="digits", tuned_on="glyphs", method="finetune", protocol=here)
    make_final_run(storage, "own", [30.0], benchmark="glyphs", method="finetune", protocol=there)
    (matrix,) = json.loads(call("compare", "--transfer", "--format", "json"))["matrices"]
    cells = {(cell["tuned_on"], cell["judged_on"]): cell for cell in matrix["cells"]}
    assert {pair: cell["run"] for pair, cell in cells.items()} == {
        ("digits", "digits"): "here",
        ("glyphs", "digits"): "back",
        ("digits", "glyphs"): "there",
        ("glyphs", "glyphs"): "own",
    }
    judged_there = results["summary"]["test/final_accuracy"]["mean"]
    assert cells["digits", "glyphs"]["loss"] == pytest.approx(30.0 - judged_there)

    rows = json.loads(call("compare", "digits", "--format", "json"))["rows"]
    assert [row["departures"][0] for row in rows] == ["the paper has no digits"] * 2
    assert "the paper has no digits" in call("compare") and storage.comparison_figure.stat().st_size > 5000
