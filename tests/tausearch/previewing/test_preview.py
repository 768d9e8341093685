"""What a run says of itself before it starts: where its trials come from, and what runs like it took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tausearch
from tausearch.choosing import OptunaSource, SearchStudy
from tausearch.previewing import preview
from tausearch.runs import Record, Resources, RunSpec, Storage, open_storage
from tausearch.runs.creating import create
from tests.support.command_line import run
from tests.support.trials import make_trial


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.cluster.planning.local_cpus", lambda: 2)


def previewed(spec: RunSpec, root: Path, address: str | None = None, **changes: Any) -> tausearch.Preview:
    return preview(spec.model_copy(update=changes), Storage(root), address)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 12}, "1 known point first, 6 at random, 5 chosen by tpe from what it has seen by then"),
        (
            {"trials": 6, "algorithm": "gp"},
            "1 known point first, 5 at random, none chosen by gp: it learns once 6 have",
        ),
        ({"trials": 9, "algorithm": "random"}, "1 known point first, 8 at random"),
        ({"trials": 4, "algorithm": "grid"}, "4 of 6 points of the grid, spread"),
        ({"trials": 6, "algorithm": "grid"}, "all 6 points of the grid"),
    ],
)
def test_it_says_where_trials_come_from(spec: RunSpec, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    found = previewed(spec, tmp_path, **changes)
    assert f"trials: {said}" in str(found) and "estimate: unknown, as no finished trial of ita-lora on this" in str(
        found
    )
    assert len(found.points) + found.random + found.learned == changes["trials"]


@pytest.mark.parametrize("slots", [1, 3])
def test_the_algorithm_learns_when_it_says_so(spec: RunSpec, tmp_path: Path, slots: int) -> None:
    """Played with so many at a time, the trials that are not drawn at random are those that the preview counts."""
    spec = spec.model_copy(update={"trials": 20, "resources": Resources(concurrent=slots)})
    found, source, guided = previewed(spec, tmp_path), OptunaSource(spec), 0
    running: list[int] = []
    sampler = source.study.optuna.sampler
    for _ in range(spec.trials):
        if len(running) == slots:
            source.finish(ended := running.pop(0), "complete", 50.0 + ended)
        number = source.next()
        assert number is not None
        running.append(number[0])
        told = [each for each in source.study.optuna.trials if each.state.name == "COMPLETE"]
        guided += len(told) >= sampler._n_startup_trials
    assert found.learned == guided > 0


def test_the_points_are_those_that_the_search_tries(spec: RunSpec, tmp_path: Path) -> None:
    spec = spec.model_copy(update={"algorithm": "grid", "trials": 4})
    study: SearchStudy = OptunaSource(spec).study
    assert list(previewed(spec, tmp_path).points) == [study.ask(number) for number in range(4)]


def remembered(spec: RunSpec, root: Path, seconds: float, **changes: Any) -> None:
    """Leave a search whose trials of one task took so long."""
    storage = open_storage(root, write=True)
    spec, directory = create(spec.model_copy(update=changes), storage)
    record = Record(directory.record, {}, tasks=3, names=spec.metrics)
    for number in range(spec.trials):
        trial = make_trial(number, value=50.0)
        rows = [{**row, "seconds/training": seconds / 3, "memory/peak_gpu_bytes": 2e9} for row in trial.rows]
        record.write(replace(trial, rows=rows))


def test_time_is_known_from_runs_alike_and_from_no_others(spec: RunSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before")
    remembered(spec, tmp_path, 999.0, name="other-method", method="ita-fft")
    remembered(spec, tmp_path, 999.0, name="other-tasks", benchmark="digits?tasks=2")
    found = previewed(spec, tmp_path, name="now", trials=12)
    assert found.taken.runs == ("before",) and found.taken.seconds == pytest.approx(60)
    assert found.slots == 2 and found.seconds == pytest.approx(360)
    assert "6:00 with 2 at a time, 12:00 inside 12 trials, 2.0 GB of a GPU per trial" in str(found)
    assert previewed(spec, tmp_path, name="now", address="a:1").seconds is None  # the cluster alone knows
    assert previewed(spec, tmp_path, name="before").taken.seconds is None  # a run is not its own estimate


class TestDryRun:
    def test_it_shows_the_points_and_starts_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = tmp_path / "runs"
        command = ["search", "digits", "ewc", "--algorithm", "grid", "--trials", "5", "--dry-run"]
        command += ["--storage", str(root)]
        code, out, _ = run(command, capsys, monkeypatch)
        assert code == 0 and "5 trials of 5 tasks each, 25 tasks to train" in out and "5 of 18 points" in out
        assert "nothing was started" in out and not root.exists()
        code, out, _ = run([*command, "--json"], capsys, monkeypatch)
        told = json.loads(out)
        found = tausearch.preview_search("digits", "ewc", algorithm="grid", trials=5, storage=root)
        assert code == 0 and told == json.loads(json.dumps(found.as_dict())) and len(told["points"]) == 5
        assert told["algorithm"] == "grid" and told["steps_per_epoch"] == 8 and told["batch_size"] == 32

    def test_a_final_run_says_its_seeds(
        self, spec: RunSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan = tausearch.api.plan_search(tausearch.api.SearchRequest("digits", "finetune", storage=tmp_path))
        best = tausearch.choosing.start_of(plan.spec)
        found = tausearch.preview_train(best, seeds=[3, 4], storage=tmp_path)
        assert found.spec.seeds == (3, 4) and found.tasks == 10 and "trials:" not in str(found)
        best.save(tmp_path / "best.yaml")
        command = ["train", str(tmp_path / "best.yaml"), "--seeds", "3", "4", "--dry-run", "--storage", str(tmp_path)]
        code, out, _ = run(command, capsys, monkeypatch)
        assert code == 0 and "2 seeds of 5 tasks each, 10 tasks to train" in out

    def test_what_is_wrong_is_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command = ["search", "digits", "ewc", "--algorithm", "grid", "--trials", "99", "--dry-run"]
        code, _, err = run([*command, "--storage", str(tmp_path)], capsys, monkeypatch)
        assert code == 2 and "the grid has 18 points" in err
