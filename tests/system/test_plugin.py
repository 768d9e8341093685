"""An installed package, which no process has but by its environment: campaign, Python, resume, Ray's workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tausearch.runs import Record, Storage, read_spec
from tests.support.drivers.searches import run
from tests.support.packages import install_example

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CAMPAIGN = """\
campaign: own
benchmarks: [digits]
methods: [slda]
search: {trials: 2, reevaluate: 0}
train: {seeds: [0]}
"""
PYTHON = """\
import tausearch
found = tausearch.search("digits", "slda", trials=2, name="s", reevaluate=0, time_budget=0.5, progress_to="stderr")
print(found.out_of_time, len([trial for trial in found.trials if trial.status == "complete"]))
"""


def test_it_is_used_like_what_comes_with_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install_example(tmp_path / "site")))
    (tmp_path / "own.yaml").write_text(CAMPAIGN)
    run("campaign", "run", "own.yaml", cwd=tmp_path)
    storage = Storage(tmp_path / "tausearch-runs")
    (trial,) = Record(storage.run("own-digits-slda-final").record).trials()
    assert trial.status == "complete" and trial.rows[-1]["test/final_accuracy"] > 90  # 96.4 was measured
    assert (tmp_path / "tausearch-runs" / "campaigns" / "own" / "best" / "digits" / "slda.yaml").is_file()
    words = [sys.executable, "-c", PYTHON]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == ["True", "0"]
    run("resume", "s", cwd=tmp_path)
    searched = {name: Record(storage.run(name).record).trials() for name in ("s", "own-digits-slda")}
    for name, trials in searched.items():
        assert [each.status for each in trials] == ["complete", "complete"], name
        assert read_spec(storage.run(name)).method == "slda"
    scores = [[each.rows[-1]["val/final_accuracy"] for each in trials] for trials in searched.values()]
    assert scores[0] == scores[1]
