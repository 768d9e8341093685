"""How a driver comes to its trials, and what it says on the way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from tausearch.execution import DriveOptions, Run, driver as driver_module
from tausearch.execution.announcer import Announcer
from tausearch.execution.driver import _headline, drive, read_by_trials
from tausearch.execution.recorder import Recorder
from tausearch.runs import AnySpec, Record, Resources, Retraining, SearchSpec, Storage, TrialTable
from tausearch.studies import FixedSearcher, TrialListener
from tests.support.runs.trials import final_spec, make_trial, run_of
from tests.tausearch.execution.driver.world import MlflowWriter, World, on_cluster, opened
from tests.tausearch.several.made import several_spec
from trainables.data import BenchmarkRef
from trainables.errors import InputError
from trainables.trial import TrialTrainable


def test_all_trials_run_on_a_ray_of_its_own(run: Run, world: World, capfd: pytest.CaptureFixture[str]) -> None:
    result = drive(run)
    assert [(trial.number, trial.value) for trial in result.trials] == [(n, 60.0 + n) for n in range(4)]
    assert (result.signal, result.out_of_time, result.tracking_uri) == (None, False, run.storage.mlflow_uri)
    assert world.did == [
        ("ray", [run.spec.resources], None),
        "raylet watched",
        "a process has started",
        ("tune", run.directory, TrialTrainable, None),
        "ray is left",
    ]
    out, err = capfd.readouterr()
    assert out.startswith("search digits-ita-lora-1: ita-lora on digits, 4 trials, ") and err == ""
    assert f"log of Ray, Optuna and MLflow: {run.directory.log_file}" in out
    assert MlflowWriter.closed == [("FINISHED", float("inf"))]


def test_listeners_of_the_run_are_told_after_the_record_and_callbacks(run: Run) -> None:
    own = cast(TrialListener, SimpleNamespace(trial_changed=lambda trial: None))
    run.own_listeners = [own]
    drive(run)
    record, announcer, third, *_ = run.listeners
    assert isinstance(record, Recorder) and isinstance(announcer, Announcer) and third is own


def test_the_record_is_compacted_when_it_is_opened_and_as_trials_end(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []

    def compact(record: Record, numbers: Iterable[int], has_ended: Callable[[int], bool]) -> None:
        asked.append([number for number in numbers if has_ended(number)])

    monkeypatch.setattr(Record, "compact", compact)
    drive(opened(spec, tmp_path, [make_trial(0, value=60.0), make_trial(1, tasks=1)]))
    assert asked == [[0], [2], [3]]


def test_without_trackers_mlflow_is_left_alone(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tausearch.execution.queue.MlflowCallback", lambda *_: pytest.fail("MLflow is used"))
    untracked = opened(spec.model_copy(update={"tracking": ()}), tmp_path)
    result = drive(untracked)
    assert (result.tracking_uri, result.tracking_error, len(result.trials)) == (None, None, 4)
    assert "MLflow lacks" not in capfd.readouterr().out


def test_a_program_reads_stdout_while_people_see_progress(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    drive(run, DriveOptions(progress_to="stderr"))
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("search digits-ita-lora-1: ")


def test_a_cluster_is_joined_watched_and_looked_at(spec: SearchSpec, world: World, tmp_path: Path) -> None:
    resources = Resources(cpus_per_trial=2, max_concurrent_trials=3)
    run = opened(spec.model_copy(update={"resources": resources, "data_root": "/data"}), tmp_path)
    drive(on_cluster(run, "10.0.0.1:6379"))
    resume = world.did[0][2]
    assert resume.endswith(f"resume digits-ita-lora-1 --storage {tmp_path}")
    assert world.did == [
        ("head watched", "10.0.0.1:6379", resume),
        ("ray", [resources], "10.0.0.1:6379"),
        ("nodes", [resources], run.directory.path, ["/data"]),
        "nodes watched",
        "a process has started",
        ("tune", run.directory, TrialTrainable, 3),
        "the check is over",
        "ray is left",
    ]
    assert world.own_ray is False


@pytest.mark.parametrize("answered", [True, False])
def test_a_cluster_whose_nodes_are_unfit_begins_no_trial_and_the_run_is_released(
    answered: bool, run: Run, world: World
) -> None:
    """Nor is a process waited for if all nodes have answered, as none may be able to start."""

    def unfit() -> None:
        assert not run.directory.record.exists()
        raise InputError("node a: has no torch")

    world.checked, world.answered = unfit, answered
    with pytest.raises(InputError, match="node a: has no torch"):
        drive(on_cluster(run))
    assert "tune" not in [each[0] for each in world.did] and ("a process has started" in world.did) is not answered
    assert not run.directory.record.exists() and MlflowWriter.closed == []


def test_ray_starts_as_many_processes_as_trials_run_at_a_time(
    spec: SearchSpec, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: 8)
    drive(opened(spec.model_copy(update={"algorithm": "random"}), tmp_path))
    assert (world.processes, world.own_ray) == (4, True)  # all trials of the search
    resources = Resources(max_concurrent_trials=3)
    drive(opened(spec.model_copy(update={"resources": resources, "name": "other"}), tmp_path))
    assert world.processes == 3
    known = [make_trial(number, value=60.0) for number in range(3)]
    drive(opened(spec.model_copy(update={"algorithm": "random", "name": "third"}), tmp_path, known))
    assert world.processes == 1  # one trial is left
    drive(opened(several_spec(trials=3, algorithm="random"), tmp_path))
    assert world.processes == 6  # each trial on both benchmarks


def test_a_benchmark_of_the_users_code_is_allowed_again_in_the_command_that_goes_on(
    spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    drive(on_cluster(opened(spec.model_copy(update={"benchmark": "mine:tasks"}), tmp_path)))
    assert world.did[0][2].endswith(f"resume digits-ita-lora-1 --storage {tmp_path} --allow-code mine:tasks")


def test_what_mlflow_lacks_and_what_was_put_aside_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MlflowWriter, "errors", {run.spec.name: "no server"})
    monkeypatch.setattr("tausearch.execution.queue.prepare_checkpoints", lambda *_: ["trial 0: was put aside"])
    assert drive(on_cluster(run)).tracking_error == "no server"
    out = capfd.readouterr().out
    assert "trial 0: was put aside\n" in out and "4 trials, as many as the cluster fits at a time" in out


def test_a_search_that_goes_on_says_how_far_it_was(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def preview(spec: SearchSpec, storage: Storage, address: str | None, trials: TrialTable) -> SimpleNamespace:
        return SimpleNamespace(lines=lambda estimate: [f"{len(list(trials))} trials known, on {address} {estimate}"])

    monkeypatch.setattr(driver_module, "preview_spec", preview)
    drive(on_cluster(opened(spec, tmp_path, [make_trial(0, value=60.0), make_trial(1, tasks=1)])))
    out = capfd.readouterr().out
    run = opened(spec.model_copy(update={"name": "other"}), tmp_path, [make_trial(0, value=60.0)])
    run.time_said = True
    drive(on_cluster(run))
    assert "\n1 trials known, on auto False\n" in capfd.readouterr().out  # the command has said a better estimate
    assert "(continued: 2 have started)" in out and "\n2 trials known, on auto True\n" in out


def test_a_run_that_has_ended_needs_no_ray(
    spec: SearchSpec,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    known = [make_trial(number, value=60.0) for number in range(4)]
    run = opened(spec, tmp_path, known)
    renamed = spec.model_copy(update={"name": "again"})
    again = Run(renamed, run.storage, run.directory, FixedSearcher([]), TrialTable(known))
    monkeypatch.setattr(run, "follow_up", lambda: again)
    result = drive(run)
    assert len(result.trials) == 4 and world.did == []
    assert len(MlflowWriter.closed) == 2  # MLflow may lack its re-evaluation
    out = capfd.readouterr().out
    assert "all trials have ended: none is run" in out and "(continued: 4 have started)" in out


@pytest.mark.parametrize(
    ("before", "begun", "after"),
    [(None, False, None), ("earlier\n", False, "earlier\n"), ("earlier\n", True, "earlier\nRay\n")],
)
def test_a_driver_that_is_refused_before_it_has_begun_leaves_the_log_as_it_was(
    run: Run, world: World, before: str | None, begun: bool, after: str | None
) -> None:
    def refuse(dispatcher: object = None) -> None:
        os.write(1, b"Ray\n")
        raise InputError("no node has a GPU")

    if before is not None:
        run.directory.log_file.write_text(before)
    if begun:
        world.tune = refuse
    else:
        world.starting = refuse
    with pytest.raises(InputError):
        drive(run)
    assert (run.directory.log_file.read_text() if run.directory.log_file.exists() else None) == after


def test_a_run_that_cannot_be_opened_leaves_no_thread(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.enumerate()
    monkeypatch.setattr("tausearch.execution.queue.note_code", mock.Mock(side_effect=InputError("no such code")))
    with pytest.raises(InputError, match="no such code"):
        drive(run)
    assert threading.enumerate() == before


def test_a_seed_that_only_has_the_tasks_of_another_run_has_not_started(spec: SearchSpec, tmp_path: Path) -> None:
    again = Retraining(run="r", run_id="0", forgotten=(1,), kept=1)
    asked = final_spec(spec, seeds=(0, 1), trials=2, retrained=again)
    run = opened(asked, tmp_path, [make_trial(0, 1), make_trial(1, 1)])
    assert "continued" not in _headline(run, on_cluster=False)
    run.trials.put(make_trial(1, 2))
    assert _headline(run, on_cluster=False).endswith("(continued: 1 have started)")


@pytest.mark.parametrize(
    ("address", "stages"),
    [
        (None, ["starting Ray on this machine", "Ray runs; "]),
        ("auto", ["joining the Ray that runs on this machine", "joined 3 nodes; looking at each of them, and "]),
        ("ray://a:1", ["joining the Ray that runs at ray://a:1", "joined 3 nodes; looking at each of them, and "]),
    ],
)
def test_how_it_comes_to_ray_is_said(
    address: str | None, stages: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("tausearch.presentation.ProgressDisplay.enter", lambda self, stage: said.append(stage))
    drive(on_cluster(run, address))
    assert said == [
        stages[0],
        f"{stages[1]}starting the processes of trials, each of which imports torch",
        "writing results, figures, and what MLflow lacks",
    ]


def test_the_files_that_trials_read_are_named(spec: SearchSpec, tmp_path: Path) -> None:
    assert read_by_trials(spec) == []
    protocol = spec.protocol.model_copy(update={"backbone_weights": "/w", "initial_head": "/h"})
    benchmark = f"folder:{tmp_path}?tasks=3"
    changed = spec.model_copy(update={"protocol": protocol, "data_root": "/d", "benchmark": benchmark})
    assert read_by_trials(changed) == ["/w", "/h", "/d", BenchmarkRef.parse(benchmark).path]
    both = several_spec()
    parts = {name: part.model_copy(update={"data_root": f"/{name}"}) for name, part in both.parts.items()}
    assert read_by_trials(both.model_copy(update={"parts": parts})) == ["/digits", "/glyphs"]


@pytest.mark.parametrize(
    ("changes", "seeds", "said"),
    [
        ({"trials": 12}, None, "12 trials, 2 at a time, 3 tasks each, algorithm tpe"),
        ({"scheduler": "asha"}, None, "4 trials, 2 at a time, 3 tasks each, algorithm tpe, scheduler asha"),
        (
            {"trials": 1, "steps": 1, "algorithm": "random"},
            None,
            "1 trial, 1 at a time, 1 task each, algorithm random",
        ),
        (
            {"resources": Resources(gpus_per_trial=1, gpus_from="request", max_concurrent_trials=3)},
            None,
            "4 trials, 3 at a time, 3 tasks each, algorithm tpe, on a whole GPU in fp32 (as asked for)",
        ),
        ({"trials": 2}, (3, 5), "seeds 3 5, 2 at a time, 3 tasks each"),
        ({"trials": 4}, (3, 5), "seeds 3 5 with each of the class orders 1 2, 2 at a time, 3 tasks each"),
    ],
)
def test_the_first_line_says_what_will_be_done(
    changes: dict[str, Any],
    seeds: tuple[int, ...] | None,
    said: str,
    spec: SearchSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: 2)
    if seeds is None:
        asked: AnySpec = spec.model_copy(update=changes)
    else:
        orders = (1, 2) if changes["trials"] == 4 else None
        asked = final_spec(
            spec, seeds=seeds, protocol=spec.protocol.model_copy(update={"class_orders": orders}), **changes
        )
    assert _headline(run_of(asked, FixedSearcher([])), on_cluster=False).endswith(f"on digits, {said}")


@pytest.mark.parametrize(("cpus", "said"), [(1, "1 part at a time"), (4, "4 parts at a time")])
def test_of_a_search_on_several_benchmarks_parts_are_counted(
    cpus: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: cpus)
    run = run_of(several_spec(trials=3, algorithm="random"), FixedSearcher([]))
    assert f"3 trials, {said}, 2 benchmarks each" in _headline(run, on_cluster=False)
