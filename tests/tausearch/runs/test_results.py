"""results.json of a final run: its metrics, and results from before there was one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tausearch.runs import Record, TrialSummary, open_storage, read_scores
from tausearch.runs.results import summarise
from tests.support.runs.final_runs import make_final_run


def test_every_metric_of_a_final_run_reaches_record_and_results(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    make_final_run(storage, "new", [80.0, None, 82.0], pooled=[70.0, None, 73.0])
    content = json.loads(storage.run("new").results_file.read_text())
    assert [seed["test/pooled_accuracy"] for seed in content["seeds"]] == [70.0, None, 73.0]
    scores = read_scores(storage.run("new"))
    assert {name: (score.mean, score.seeds) for name, score in scores.items()} == {
        "test/final_accuracy": (81.0, 2),
        "test/pooled_accuracy": (71.5, 2),
        "test/forgetting": (3.0, 2),
    }
    assert scores["test/pooled_accuracy"].std == pytest.approx(4.5**0.5)
    trials = Record(storage.run("new").record).trials()
    assert [trial.final.get("test/pooled_accuracy") for trial in trials] == [70.0, None, 73.0]


def test_what_an_older_version_wrote_is_read(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    make_final_run(storage, "old", [80.0, 82.0])
    scores = read_scores(storage.run("old"))
    assert set(scores) == {"test/final_accuracy", "test/forgetting"} and scores["test/final_accuracy"].mean == 81.0
    trials = Record(storage.run("old").record).trials()
    assert [trial.value for trial in trials] == [80.0, 82.0]
    # A run that an older version began and this one finished has it of its later seeds alone, and says of how many.
    row = {"task": 1.0, "test/final_accuracy": 84.0, "test/pooled_accuracy": 60.0, "test/forgetting": 3.0}
    trials.append(TrialSummary(2, 2, "complete", {}, [row], 84.0))
    found = summarise(trials)
    assert found["test/final_accuracy"]["seeds"] == 3
    assert found["test/pooled_accuracy"] == {"mean": 60.0, "std": None, "seeds": 1}
