"""TensorBoard's event files: every task of every trial once, also after a kill."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tausearch.runs import Reevaluate, ReevaluationSpec, RunDirectory, SearchSpec, Storage
from tausearch.tracking import RunEnded, RunInfo, TensorBoardCallback, replayed_events, trial_events
from tests.support.runs.trials import make_trial
from tests.tausearch.several.made import several_spec

pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")


def run_at(root: Path, spec: SearchSpec) -> RunInfo:
    return RunInfo(spec, root / spec.name, Storage(root))


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def told(callback: TensorBoardCallback, run: RunInfo, *trials: Any) -> None:
    for event in replayed_events(run, ()):
        callback.on_event(event)
    for trial in trials:
        for event in trial_events(run, trial):
            callback.on_event(event)


def test_every_task_of_a_trial_is_a_step_of_its_folder(spec: SearchSpec, tmp_path: Path) -> None:
    run, callback = run_at(tmp_path, spec), TensorBoardCallback()
    first = make_trial(0, value=70.0)
    first.rows[0]["val/forgetting"] = 0.0
    told(callback, run, first, make_trial(1, tasks=1, status="diverged", error="not finite"))
    told_so_far = scalars(RunDirectory(run.path).tensorboard / "trial-0")
    assert told_so_far["val/average_accuracy"] == [(1, 90.0), (2, 80.0), (3, 70.0)]
    assert told_so_far["val/forgetting"] == [(1, 0.0), (3, 1.0)]
    assert told_so_far["hparam/val/final_accuracy"] == [(3, 70.0)] and "task" not in told_so_far
    assert scalars(RunDirectory(run.path).tensorboard / "trial-1")["val/average_accuracy"] == [(1, 90.0)]
    callback.on_event(RunEnded(run, stopped=False, metrics={"importance/lr": 0.5}))
    assert scalars(RunDirectory(run.path).tensorboard / "run") == {"importance/lr": [(0, 0.5)]}


def test_on_several_benchmarks_a_trial_has_its_accuracy_as_its_score_moves(tmp_path: Path) -> None:
    run, callback, trial = run_at(tmp_path, several_spec()), TensorBoardCallback(), make_trial(0, value=70.0)
    told(callback, run, replace(trial, value=100.0))
    found = scalars(RunDirectory(run.path).tensorboard / "trial-0")
    assert {name: value for name, value in found.items() if "hparam" in name} == {
        "hparam/val/final_accuracy": [(3, 70.0)]
    }


def test_the_end_of_a_trial_has_its_seed_or_its_error_and_that_of_a_stopped_run_its_metrics(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: dict[str, Any] = defaultdict(MagicMock)
    monkeypatch.setattr("tausearch.tracking.tensorboard._open", lambda folder: writers[folder.name])
    run, callback, ended = run_at(tmp_path, spec), TensorBoardCallback(), make_trial(0, value=70.0)
    told(callback, run, ended, make_trial(1, tasks=1, status="failed", error="killed"), make_trial(2, tasks=1))
    told(callback, run, make_trial(3, value=0.0))
    writers["trial-3"].add_hparams.assert_called_once()  # it is complete, though it gets nothing right
    told(callback, run_at(tmp_path, spec.model_copy(update={"name": "other"})), make_trial(4, tasks=1))
    callback.on_event(RunEnded(run, stopped=True, metrics={"importance/lr": 0.5}))
    writers["trial-4"].close.assert_not_called()  # it is of another run
    assert writers["trial-0"].add_hparams.call_args.args[0] == {**ended.hyperparameters, "seed": 0}
    writers["trial-1"].add_text.assert_called_once_with("status", "failed: killed")
    writers["trial-2"].close.assert_called_once_with()
    writers["run"].add_scalar.assert_called_once_with("importance/lr", 0.5, 0)


def test_what_is_told_can_be_read_before_the_trial_ends(spec: SearchSpec, tmp_path: Path) -> None:
    run, callback = run_at(tmp_path, spec), TensorBoardCallback()
    told(callback, run, make_trial(0, tasks=2))
    found = scalars(RunDirectory(run.path).tensorboard / "trial-0")
    assert found["val/average_accuracy"] == [(1, 90.0), (2, 80.0)]


def test_the_next_driver_makes_the_files_anew(spec: SearchSpec, tmp_path: Path) -> None:
    run, killed = run_at(tmp_path, spec), TensorBoardCallback()
    told(killed, run, make_trial(0, tasks=2), make_trial(5, tasks=1))
    again = TensorBoardCallback()
    known, whole = make_trial(0, tasks=2), make_trial(0, value=70.0)
    whole.rows[:2] = known.rows
    for event in [
        *replayed_events(run, [known]),
        *trial_events(run, replace(known), known),
        *trial_events(run, whole, known),
    ]:
        again.on_event(event)
    again.on_event(RunEnded(run, stopped=True))
    root = RunDirectory(run.path).tensorboard
    assert [folder.name for folder in root.iterdir()] == ["trial-0"]  # the record has no trial 5
    assert scalars(root / "trial-0")["val/average_accuracy"] == [(1, 90.0), (2, 80.0), (3, 70.0)]


def test_reevaluations_lie_beside_their_search(spec: SearchSpec, tmp_path: Path) -> None:
    search = spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)})
    run, callback = run_at(tmp_path, search), TensorBoardCallback()
    again = RunInfo(ReevaluationSpec.of(search), RunDirectory(run.path).reevaluation.path, run.storage)
    told(callback, run, make_trial(0, value=70.0))
    told(callback, again, make_trial(0, value=71.0))
    for each in (run, again):
        callback.on_event(RunEnded(each, stopped=False))
    found = RunDirectory(run.path).reevaluation.tensorboard / "trial-0-seed-1"
    assert scalars(found)["val/average_accuracy"][0] == (1, 90.0)
    assert (RunDirectory(run.path).tensorboard / "trial-0").is_dir()
