"""An installed package, which no process has but by its environment: a campaign, a kill, Python, Ray's workers."""

from __future__ import annotations

from pathlib import Path

import pytest

import tausearch
from tausearch.runs import Record, SearchSpec, Storage, TrialTable, read_spec
from tausearch.studies import OptunaSearcher
from tests.support.drivers.searches import started
from tests.support.packages import install_example

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CAMPAIGN = """\
campaign: own
benchmarks: [stripes]
methods: [slda]
search: {trials: 4, reevaluate: 0, backbone: mixer, algorithm: annealing, scheduler: far-behind}
train: {seeds: [0]}
cells:
  - {method: ita-lora, search: {trials: 1, set: {curvature: per-layer}}}
"""
KILL = """\
import os
import signal

import psutil
import tausearch


class Kill:
    def on_event(self, event):
        if isinstance(event, tausearch.TaskDone) and event.trial.number == 1:
            for child in psutil.Process().children(recursive=True):
                child.kill()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_that_a_package_brings_works_in_a_campaign_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = install_example(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(site))
    noted = tmp_path / "imported"
    (site / "mlflow.py").write_text(f"open({str(noted)!r}, 'w').close()\nraise ImportError('not here')\n")
    (tmp_path / "own.yaml").write_text(CAMPAIGN)
    (tmp_path / "killing.py").write_text(KILL)
    storage = Storage(tmp_path / "tausearch-runs")
    options = ("--callback", "tally", "--tracking", "none", "--max-concurrent-trials", "1")
    words = ("campaign", "run", "own.yaml", *options, "--callback", "killing:Kill")
    with started(*words, cwd=tmp_path, out=tmp_path / "out.txt") as process:
        assert process.wait(600) == -9, (tmp_path / "out.txt").read_text()
    search, final = storage.run("own-stripes-slda"), storage.run("own-stripes-slda-final")
    killed = Record(search.record).trials()
    assert killed[0].rows and len(killed) < 4

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    result = tausearch.campaign("own.yaml", callbacks=["tally"], max_concurrent_trials=1)
    assert result.standing.finished and not result.failed and result.standing.cells[0].state == "done"
    trials, spec = Record(search.record).trials(), read_spec(search)
    assert trials[0].rows == killed[0].rows and len(trials) == 4
    assert isinstance(spec, SearchSpec) and (spec.protocol.backbone, spec.trackers) == ("mixer", ())
    assert OptunaSearcher(spec, trials, TrialTable(trials)).study.agrees  # what annealing proposes without a kill
    held = storage.run("own-stripes-ita-lora")
    assert read_spec(held).fixed["curvature"] == "per-layer" and Record(held.record).trials()[0].status == "complete"
    (trained,) = Record(final.record).trials()
    assert trained.status == "complete" and trained.rows[-1]["test/final_accuracy"] > 12.5  # a guess
    said = capsys.readouterr().out
    assert f"tally of {search.name}: {{'complete': 4}}" in said and f"tally of {final.name}: {{'complete': 1}}" in said
    assert not storage.mlflow_file.exists() and not noted.exists(), "no driver and no worker has imported MLflow"
