"""Which words, files and tags a run gets in MLflow."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tausearch.runs import (
    Conclusion,
    Constraint,
    KnownPoint,
    Objective,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    SearchSpec,
    Status,
    Storage,
)
from tausearch.tracking import MlflowRun, mlflow_run
from tausearch.tracking.mlflow_callback import tracking_uri_of
from tausearch.tracking.mlflow_run import ID_TAG, MATRIX_FILE, PARENT_TAG, RUN_TAG
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.several.made import several_spec
from tests.tausearch.tracking.memory_store import Store
from trainables.task_names import NamedTask

URI = "http://a:1"


def opened(spec: Any, root: Path) -> MlflowRun:
    return MlflowRun(spec, Storage(root), URI)


def nested(store: Store, number: int = 0) -> Any:
    (found,) = [run for run in store.runs.values() if run.data.tags.get("trial") == str(number)]
    return found


class TestTrials:
    @pytest.mark.parametrize(
        ("status", "word"),
        [
            ("complete", "FINISHED"),
            ("pruned", "KILLED"),
            ("diverged", "FAILED"),
            ("failed", "FAILED"),
            ("running", "RUNNING"),
        ],
    )
    def test_a_status_in_the_words_of_mlflow(
        self, spec: SearchSpec, store: Store, tmp_path: Path, status: Status, word: str
    ) -> None:
        opened(spec, tmp_path).write(make_trial(0, tasks=2, status=status))
        assert nested(store).info.status == word
        assert nested(store).data.tags.get("status") == (None if status == "running" else status)

    def test_a_trial_that_ends_otherwise_after_all_says_so(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        for status in ("failed", "diverged"):  # the same word to MLflow
            opened(spec, tmp_path).write(make_trial(0, tasks=2, status=status))
        assert nested(store).data.tags["status"] == "diverged"

    def test_a_batch_that_arrives_twice_has_the_same_times(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        """MLflow then stores its points once."""
        opened(spec, tmp_path).write(make_trial(0, tasks=2))
        nested(store).data.tags["tasks"] = "1"
        assert store.points.pop().key == "val/average_accuracy"  # a kill came before the last metric of task 2
        opened(spec, tmp_path).write(make_trial(0, tasks=2))
        times = [(point.key, point.timestamp) for point in store.points if point.step == 2]
        assert len(times) == 5 and len(set(times)) == 3

    def test_a_task_that_runs_again_after_a_kill_before_its_tag_is_not_written_again(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        trial, longer = make_trial(0, tasks=2), make_trial(1, tasks=1)
        trial.rows[1]["seconds/training"], longer.rows[0]["seconds/training"] = 9.0, 99.0  # so the longer began first
        for each in (longer, trial):
            opened(spec, tmp_path).write(each)
        nested(store).data.tags["tasks"] = "1"
        again = replace(trial, rows=[trial.rows[0], trial.rows[1] | {"seconds/training": 1.5}])
        opened(spec, tmp_path).write(again)
        assert [point.step for point in store.points] == [1] * 3 + [1] * 3 + [2] * 3
        assert nested(store).data.tags["tasks"] == "2"
        opened(spec, tmp_path).write(make_trial(0, tasks=3))
        _, second, third = store.get_metric_history(nested(store).info.run_id, "val/average_accuracy")
        assert third.timestamp == second.timestamp + 1  # by its seconds it would come before

    def test_a_trial_whose_end_was_half_written_ends(self, spec: SearchSpec, store: Store, tmp_path: Path) -> None:
        trial = make_trial(0, value=70.0)
        opened(spec, tmp_path).write(trial)
        store.runs[nested(store).info.run_id].info.status = "RUNNING"  # a kill came after the tags
        opened(spec, tmp_path).write(trial)
        assert nested(store).info.status == "FINISHED"

    def test_the_end_of_a_trial_goes_with_its_last_metrics(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        run = opened(spec, tmp_path)
        store.batches.clear()
        run.write(make_trial(0, tasks=1))
        run.write(make_trial(0, tasks=2, status="failed", error="its process died"))
        assert [tags for *_, tags in store.batches] == [["tasks"], ["tasks", "status", "error"]]
        assert run.changes == 4  # the nested run, its tasks twice, its status

    def test_an_error_is_cut_at_its_end(self, spec: SearchSpec, store: Store, tmp_path: Path) -> None:
        opened(spec, tmp_path).write(make_trial(0, tasks=1, status="failed", error="a" * 4000 + "b"))
        assert nested(store).data.tags["error"] == "a" * 4000

    def test_the_chosen_trial_alone_gets_a_picture_and_once(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        trials = [make_trial(number, value=70.0 + number) for number in (0, 1)]
        other, picture = tmp_path / "history.png", tmp_path / MATRIX_FILE
        for file in (other, picture):
            file.touch()
        for chosen in (0, 0, 1):  # a continued search chooses another one
            run = opened(spec, tmp_path)
            for trial in trials:
                run.write(trial)
            run.conclude("FINISHED", Conclusion(trials[chosen], files=(other, picture)))
        ids = [nested(store, number).info.run_id for number in (0, 1)]
        assert [file for file in store.files if file[0] in ids] == [(each, MATRIX_FILE) for each in ids]

    def test_a_trial_that_is_written_late_has_its_true_length(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        opened(spec, tmp_path).write(make_trial(0, tasks=2))  # of 1.5 s each
        assert nested(store).info.start_time == pytest.approx(1000 * (time.time() - 3.0), abs=1000)

    def test_metrics_go_in_batches_and_the_number_of_tasks_goes_last(
        self, spec: SearchSpec, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mlflow_run, "_BATCH", 4)
        opened(spec, tmp_path).write(make_trial(0, tasks=3))  # three metrics for each task
        mine = [batch for batch in store.batches if batch[0] == nested(store).info.run_id]
        assert sorted(len(metrics) for _, metrics, _, _ in mine) == [1, 4, 4] and len(store.points) == 9
        assert [tags for *_, tags in mine] == [[], [], ["tasks"]] and "alpha" in mine[-1][2]

    def test_a_kill_between_two_batches_loses_no_task(
        self, spec: SearchSpec, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mlflow_run, "_BATCH", 4)
        run, trial = opened(spec, tmp_path), make_trial(0, tasks=3)  # three metrics for each task
        written = mock.Mock(side_effect=[store.log_batch, ConnectionError])
        with monkeypatch.context() as patch, pytest.raises(ConnectionError):
            patch.setattr(store, "log_batch", lambda *args, **kwargs: written()(*args, **kwargs))
            run.write(trial)
        opened(spec, tmp_path).write(trial)
        history = store.get_metric_history(nested(store).info.run_id, "val/average_accuracy")
        assert {point.step for point in history} == {1, 2, 3}

    def test_tasks_that_mlflow_has_are_not_written_again(self, spec: SearchSpec, store: Store, tmp_path: Path) -> None:
        for tasks in (2, 3):
            run = opened(spec, tmp_path)
            run.write(make_trial(0, tasks=tasks))
            run.write(make_trial(0, tasks=tasks))
        assert [point.step for point in store.points[::3]] == [1, 2, 3] and run.written == 1
        assert nested(store).data.tags["tasks"] == "3"

    def test_a_trial_that_the_record_lost_gets_a_new_run_for_its_new_hyperparameters(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        """After `resume --without-damaged` its number is drawn again, and MLflow never changes a parameter."""
        other = make_trial(1, tasks=2)
        for trial in (make_trial(0, value=70.0), other):
            opened(spec, tmp_path).write(trial)
        kept = nested(store, 1)
        again = make_trial(0, value=80.0)
        again.hyperparameters["lr"] = 0.5
        for trial in (replace(again, status="running", rows=again.rows[:1], value=None), again, other):
            opened(spec, tmp_path).write(trial)
        found = nested(store).data  # the only one
        assert (found.params["lr"], found.metrics["val/final_accuracy"], found.tags["tasks"]) == ("0.5", 80.0, "3")
        assert nested(store, 1) is kept


class TestParent:
    def test_the_parent_with_nested_runs_is_kept(self, spec: SearchSpec, store: Store, tmp_path: Path) -> None:
        for name in ("empty", "first", "second"):
            store.add(name, {RUN_TAG: spec.run_name})
        store.add("trial", {PARENT_TAG: "second", "trial": "0", "role": "trial"})
        opened(spec, tmp_path)
        assert set(store.runs) == {"second", "trial"}

    def test_a_search_and_its_re_evaluations_leave_each_others_trials_alone(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)}))
        for each in (spec, again):
            opened(each, tmp_path).write(make_trial(0, tasks=1))
        parents = {run.data.tags.get(PARENT_TAG) for run in store.runs.values()}
        assert len(store.runs) == 3 and len(parents) == 2  # one parent run, which has none
        assert opened(spec, tmp_path)._nested != opened(again, tmp_path)._nested and len(store.runs) == 3
        names = [run.info.run_name for run in store.runs.values()]
        assert names == [spec.name, f"{spec.name}/trial-0", f"{spec.name}/trial-0-seed-1"]
        splits = [run.data.params.get("split_seed") for run in store.runs.values()]
        assert splits == [None, None, "1"]
        assert [run.data.tags.get("reevaluates") for run in store.runs.values()] == [None, None, "0"]

    def test_a_re_evaluation_is_tagged_with_the_trial_that_runs_again_and_found_by_its_own_number(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2)}))
        numbers = [again.number(*each) for each in ((0, 1), (3, 0), (3, 1))]
        for _ in range(2):
            run = opened(again, tmp_path)
            for number in numbers:
                run.write(make_trial(number, tasks=1))
        made = [each for each in store.runs.values() if PARENT_TAG in each.data.tags]
        assert [each.data.tags["trial"] for each in made] == ["0", "3", "3"]
        for each in made:  # as an earlier version wrote them
            each.data.tags["trial"] = each.data.tags.pop("tausearch.number")
        assert sorted(opened(again, tmp_path)._nested) == numbers and len(store.runs) == 4

    def test_a_run_with_an_id_is_found_by_it_and_gets_its_new_name(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        store.add("mine", {RUN_TAG: "old", ID_TAG: "x"})
        store.add("namesake", {RUN_TAG: spec.run_name, ID_TAG: "y"})
        opened(spec.model_copy(update={"id": "x"}), tmp_path)
        assert store.runs["mine"].data.tags[RUN_TAG] == spec.run_name and len(store.runs) == 2
        assert store.runs["mine"].info.run_name == spec.run_name

    def test_a_final_run_learns_the_new_name_of_its_search(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        for source in ("before", "after"):
            opened(final_spec(spec, id="x", tuned_on="digits", source=source), tmp_path)
        (run,) = store.runs.values()
        assert run.data.tags["source"] == "after"

    @pytest.mark.parametrize(("kind", "parameters"), [("search", {"algorithm", "seed"}), ("final", set())])
    def test_a_new_parent_says_its_kind_and_what_was_asked_for(
        self, spec: SearchSpec, store: Store, tmp_path: Path, kind: str, parameters: set[str]
    ) -> None:
        spec = spec.model_copy(update={"fixed": {**spec.fixed, "method": "of an own method"}})
        opened(spec if kind == "search" else final_spec(spec), tmp_path)
        (parent,) = store.runs.values()
        assert parent.data.params["method"] == spec.method
        assert parent.data.tags["kind"] == kind and parent.data.params.keys() & {"algorithm", "seed"} == parameters
        assert (parent.data.params["lr_pre"], parent.data.params["protocol/epochs"]) == ("0.1", "5")
        assert "protocol/backbone_weights" not in parent.data.params and len(parent.inputs.dataset_inputs) == 1

    def test_a_search_has_tags_of_all_its_first_points_bounds_and_objectives(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        known = tuple(KnownPoint(origin=origin, point={"alpha": 1.0, "lr": 0.01}) for origin in ("a", "the paper"))
        bounds = tuple(Constraint(metric="val/forgetting", relation=each, bound=5) for each in ("<=", ">="))
        aim = (Objective(metric="val/forgetting", direction="minimize"),)
        asked = {"warm_start": known, "constraints": bounds, "objectives": aim}
        opened(spec.model_copy(update=asked), tmp_path).write(make_trial(0, tasks=1))
        parent, trial = store.runs.values()
        assert {name: parent.data.tags[name] for name in asked} == {
            "warm_start": "a; the paper",
            "constraints": "val/forgetting <= 5; val/forgetting >= 5",
            "objectives": "less forgetting",
        }
        assert trial.data.tags.keys().isdisjoint(asked)

    def test_what_an_earlier_attempt_did_not_write_of_a_parent_is_written_and_nothing_twice(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        opened(spec, tmp_path)
        (parent,) = store.runs.values()
        written = dict(parent.data.params)
        parent.data.params.clear()  # a kill came before
        opened(spec, tmp_path)
        assert parent.data.params == written and len(parent.inputs.dataset_inputs) == 1

    def test_a_final_run_says_where_it_was_tuned_and_where_it_is_judged(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        opened(final_spec(spec, tuned_on="glyphs", source="s"), tmp_path).write(make_trial(0, tasks=1))
        assert len(store.runs) == 2  # the final run and its seed
        for each in store.runs.values():
            told = {name: each.data.tags[name] for name in ("tuned_on", "judged_on", "source")}
            assert told == {"tuned_on": "glyphs", "judged_on": "digits", "source": "s"}

    def test_the_names_of_tasks_are_cut_where_a_tag_ends(self, spec: SearchSpec) -> None:
        tasks = (NamedTask(classes=("zebra", "horse"), name="animals"), *[NamedTask(classes=("star",))] * 2000)
        text = mlflow_run._task_tags(spec.model_copy(update={"tasks": tasks}))["tasks"]
        assert len(text) == 5000 and text.startswith("1: animals (zebra, horse); 2: ")
        assert mlflow_run._task_tags(spec) == {}

    def test_the_device_is_a_tag_which_a_continued_run_may_change(
        self, spec: SearchSpec, tmp_path: Path, store: Store
    ) -> None:
        opened(spec, tmp_path)
        (parent,) = store.runs.values()
        assert "device" not in parent.data.tags
        for share, words in ((0.5, "1/2 of a GPU in fp32"), (1, "a whole GPU in fp32")):
            opened(spec.model_copy(update={"resources": Resources(gpus_per_trial=share)}), tmp_path)
            (parent,) = store.runs.values()
            assert parent.data.tags["device"] == words
        opened(spec.model_copy(update={"resources": Resources(gpus_per_trial=1), "id": "new"}), tmp_path)
        assert [run.data.tags["device"] for run in store.runs.values()] == ["a whole GPU in fp32"] * 2


class TestEnd:
    @pytest.mark.parametrize(("second", "tagged"), [(1, {1}), (0, {0}), (None, set())])
    def test_only_the_last_choice_is_tagged(
        self, spec: SearchSpec, store: Store, tmp_path: Path, second: int | None, tagged: set[int]
    ) -> None:
        trials = [make_trial(number, value=70.0 + number) for number in (0, 1)]
        for number in (0, second):
            run = opened(spec, tmp_path)
            for trial in trials:
                run.write(trial)
            run.conclude("FINISHED", Conclusion(None if number is None else trials[number]))
        assert {number for number in (0, 1) if "chosen" in nested(store, number).data.tags} == tagged
        if second is not None:
            parent = next(run for run in store.runs.values() if RUN_TAG in run.data.tags)
            assert parent.data.metrics["best/val/final_accuracy"] == 70.0 + second
            assert parent.data.tags["best/alpha"] == str(1.0 + second)

    def test_a_choice_that_ran_again_and_failed_is_tagged_no_more(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        trials = [make_trial(number, value=71.0 - number) for number in (0, 1)]
        for status, chosen in (("complete", 0), ("failed", 1)):
            run = opened(spec, tmp_path)
            trials[0] = replace(trials[0], status=status)
            for trial in trials:
                run.write(trial)
            run.conclude("FINISHED", Conclusion(trials[chosen]))
        assert ["chosen" in nested(store, number).data.tags for number in (0, 1)] == [False, True]

    def test_metrics_that_changed_are_written_and_trials_without_a_driver_are_killed(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        for metrics in ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}):
            run = opened(spec, tmp_path)
            for trial in (make_trial(0, tasks=1), make_trial(1, value=70.0), make_trial(2, tasks=1, status="failed")):
                run.write(trial)
            run.conclude("KILLED", Conclusion(metrics=metrics))
        parent = next(run for run in store.runs.values() if RUN_TAG in run.data.tags)
        assert [point.key for point in store.points if point.key in "ab"] == ["a", "b", "b"]
        assert (nested(store).info.status, parent.info.status) == ("KILLED", "KILLED")
        assert [nested(store, number).info.status for number in (1, 2)] == ["FINISHED", "FAILED"]  # they had ended

    def test_an_end_withdraws_what_it_lacks_of_an_earlier_one(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        """MLflow deletes no metric, so it becomes NaN, once."""
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)}))
        earlier = {"gain": 0.0, "gain_error": 0.0, "reevaluated/val/final_accuracy": 93.0, "best/val/forgetting": 1.0}
        others, trial = {"paper/final_accuracy": 80.0, "gain_of_mine": 1.0}, make_trial(0, value=70.0)
        for conclusion in (Conclusion(trial, metrics=earlier | others), Conclusion(trial, metrics={"gain": 3.0})):
            run = opened(spec, tmp_path)
            run.write(trial)
            run.conclude("FINISHED", conclusion)
            opened(again, tmp_path).conclude("KILLED", Conclusion())
        parent = next(run for run in store.runs.values() if RUN_TAG in run.data.tags)
        nan = pytest.approx(math.nan, nan_ok=True)
        now = {"gain": 3.0, **dict.fromkeys(earlier.keys() - {"gain"}, nan), "best/val/final_accuracy": 70.0}
        assert parent.data.metrics == now | others and parent.data.tags["best/alpha"] == "1.0"
        for _ in range(2):
            opened(spec, tmp_path).conclude("KILLED", Conclusion())
        assert "best/alpha" not in parent.data.tags and parent.data.tags.keys() >= {"method", "kind"}
        assert [point.key for point in store.points].count("gain_error") == 2

    def test_a_note_is_cut_where_a_tag_ends(self, spec: SearchSpec, store: Store, tmp_path: Path) -> None:
        opened(spec, tmp_path).conclude("FINISHED", Conclusion(notes={"ended": "a" * 5000 + "b"}))
        (parent,) = store.runs.values()
        assert parent.data.tags["ended"] == "a" * 5000

    def test_what_the_end_of_an_earlier_driver_said_goes_when_the_search_goes_on(
        self, spec: SearchSpec, store: Store, tmp_path: Path
    ) -> None:
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)}))
        notes = {"ended": "interrupted", "front": "1 2"}
        opened(spec, tmp_path).conclude("KILLED", Conclusion(notes=notes))
        (parent,) = store.runs.values()
        opened(again, tmp_path)  # it may be written after the end of its search
        assert notes.items() <= parent.data.tags.items()
        opened(spec, tmp_path)
        assert not notes.keys() & parent.data.tags.keys()

    def test_a_search_on_several_benchmarks_names_its_score_and_the_size_of_none(
        self, store: Store, tmp_path: Path
    ) -> None:
        run, chosen = opened(several_spec(), tmp_path), make_trial(0, value=70.0)
        run.write(chosen)
        run.conclude("FINISHED", Conclusion(chosen))
        parent = next(run for run in store.runs.values() if RUN_TAG in run.data.tags)
        assert [name for name in parent.data.metrics if name.startswith("best/")] == ["best/val/normalised"]
        assert parent.data.tags["across"] == "normalised" and nested(store).data.tags["benchmark"] == "digits,glyphs"
        assert "protocol/epochs" not in parent.data.params and "protocol/precision" in parent.data.params
        data = [each.dataset for each in parent.inputs.dataset_inputs]
        assert [(each.name, json.loads(each.profile)["tasks"]) for each in data] == [("digits", 3), ("glyphs", 2)]


@pytest.mark.parametrize(
    ("changes", "uri"),
    [
        ({}, "sqlite:////r/mlflow.db"),
        ({"tracking_uri": URI}, URI),
        ({"tracking": ("tensorboard",), "tracking_uri": URI}, None),
    ],
)
def test_a_run_that_mlflow_lacks_has_no_address_there(spec: SearchSpec, changes: dict[str, Any], uri: str) -> None:
    assert tracking_uri_of(spec.model_copy(update=changes), Storage(Path("/r"))) == uri


def test_a_seed_of_a_class_order_says_both(spec: SearchSpec, store: Store, tmp_path: Path) -> None:
    protocol = spec.protocol.model_copy(update={"class_orders": (7, 0)})
    final = final_spec(spec, protocol=protocol, seeds=(0, 1), trials=4)
    run = opened(final, tmp_path)
    run.write(replace(make_trial(3, tasks=0), seed=1))
    found = nested(store, 3).data.params
    assert (found["seed"], found["class_order"]) == ("1", "0") and "split_seed" not in found
