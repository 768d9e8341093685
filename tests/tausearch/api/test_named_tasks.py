"""Explicit tasks from the request to what a run leaves and shows: names need neither the user's file nor the images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.api.tasks import class_order_of, tasks_of
from tausearch.cli.compose import _tasks
from tausearch.models import CompositionResult
from tausearch.models.removal.names import removal_of
from tausearch.presentation.figures.matrix import accuracy_matrix_figure
from tausearch.reports.html.tables import composition_tables, task_accuracy_table
from tausearch.runs import RunSpec, TrialSummary, read_spec, shown_benchmark
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import make_best_file
from tausearch.tracking.mlflow_run import _task_tags
from tausearch.tracking.mlflow_store import tracked_name
from trainables.data import get_source
from trainables.errors import InputError
from trainables.metrics import VALIDATION
from trainables.task_names import NamedTask

EVEN_ODD = (NamedTask(("0", "2", "4"), "even"), NamedTask(("7", "9")))
TEXT = "digits?task=even=0,2,4&task=7,9"


def planned(storage: Path, **more: Any) -> Any:
    return plan_search(SearchRequest("digits", "ita-lora", storage=storage, **more))


def test_tasks_are_read_from_texts_and_from_files(tmp_path: Path) -> None:
    mapping, lists = tmp_path / "mapping.yaml", tmp_path / "lists.yaml"
    mapping.write_text("even: [0, 2, 4]\nbig: ['7', 9]\nwritten: [007, 1e3, true]\n")
    lists.write_text("- [0, 2, 4]\n- [7, 9]\n")
    assert tasks_of(["even=0,2,4", "7, 9"]) == EVEN_ODD
    written = NamedTask(("007", "1e3", "true"), "written")
    assert tasks_of([str(mapping)]) == (EVEN_ODD[0], replace(EVEN_ODD[1], name="big"), written)
    assert tasks_of([lists])  # type: ignore[list-item]  # requests take a path, too
    assert tasks_of([str(lists)]) == (replace(EVEN_ODD[0], name=None), EVEN_ODD[1])


def test_an_order_is_read_from_a_list_a_text_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.txt"
    file.write_text("great dane\n\nzebra\n")
    wanted = ("great dane", "zebra")
    assert [class_order_of(each) for each in (list(wanted), "great dane, zebra", str(file))] == [wanted] * 3
    assert [class_order_of(each) for each in (None, "label", 3, 0)] == [None, None, 3, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: zebra\n", "must be a mapping of names to lists of classes, or a list of such lists, got 'zebra'"),
        ("a: [[zebra, horse], 1]\n", "a name must be text, got \\['zebra', 'horse'\\]"),
        ("0: [zebra, horse]\n", "the name of a task must not be a number"),
        ("a: [zebra]\n", "'a': must be at least 2 class names"),
        ("", "must be a mapping of names to lists"),
        ("[]", "has no tasks"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_files_that_have_no_tasks(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(content)
    with pytest.raises(InputError, match=message):
        tasks_of([str(tmp_path / "tasks.yaml")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": ["nowhere.yaml"]}, "--task nowhere.yaml: there is no such file"),
        ({"task": ["zebra"]}, "--task must be class names .* or a YAML file, got 'zebra'"),
        ({"task": []}, "--task must be at least one task"),
        ({"class_order": "nowhere.txt"}, "--class-order must be 'label' or a seed, .* got 'nowhere.txt'"),
        ({"class_order": ["0", "1"]}, "class_order: must name all 10 classes; missing: '2'"),
        ({"class_order": "zero,1"}, "class_order: there is no class 'zero'"),
        ({"task": ["0,1"], "tasks": 2}, "task says which classes form a task, so tasks cannot, too"),
        ({"task": ["nowhere.yml"]}, "--task nowhere.yml: there is no such file"),
    ],
)
def test_a_wrong_request_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        planned(tmp_path / "runs", **given)
    assert not (tmp_path / "runs").exists()


def test_a_run_needs_no_file_of_the_user_and_keeps_its_names(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text("even: [0, 2, 4]\nübrige: [7, 9]\n", encoding="utf-8")
    plan = planned(tmp_path, task=[str(file)])
    spec, directory = make_run_directory(plan.spec, plan.storage)
    file.unlink()
    assert spec.benchmark == "digits?task=even=0,2,4&task=übrige=7,9"
    assert str(file) not in directory.spec_file.read_text(encoding="utf-8")
    assert '"übrige"' in directory.tasks_file.read_text(encoding="utf-8")
    again = read_spec(directory)
    assert again == spec and [task.label for task in again.tasks] == ["even", "übrige"]
    assert again.left_out == ("classes '1', '3', '5', '6', '8', which are in no task",)
    one = planned(tmp_path / "one", task=["even=0,2,4", "others=1,3,5,6,7,9"])
    assert one.spec.left_out == ("class '8', which is in no task",)
    two = planned(tmp_path / "two", task=["even=0,2,4", "others=1,3,5,6,7"])
    assert two.spec.left_out == ("classes '8', '9', which are in no task",)
    for damaged in ("", "[1]", '[{"classes": 1}]'):
        directory.tasks_file.write_text(damaged)
        assert read_spec(directory).tasks == () and read_spec(directory).task_title(2) == "2"


def test_run_yaml_has_what_it_had(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    spec, directory = make_run_directory(plan.spec, plan.storage)
    assert [task.label for task in spec.tasks] == ["0, 1", "2, 3", "4, 5", "6, 7", "8, 9"]
    assert "tasks" not in spec.model_dump() and "\ntasks:" not in directory.spec_file.read_text()


def test_seeds_of_class_orders_have_tasks_of_their_own(tmp_path: Path) -> None:
    search = planned(tmp_path).spec
    trial = TrialSummary(0, 0, "complete", {**search.fixed, **search.start}, value=50.0)
    best = make_best_file(search, trial, competitors=1)
    final = plan_training(TrainRequest(best, seeds=[0], storage=tmp_path)).spec
    ordered = plan_training(TrainRequest(best, seeds=[0], class_orders=[1], storage=tmp_path)).spec
    assert len(final.tasks) == 5 and ordered.tasks == ()
    named = make_best_file(planned(tmp_path, task=["0,1", "2,3"]).spec, trial, competitors=1)
    with pytest.raises(InputError, match="task says which classes form a task, so class_order cannot, too"):
        plan_training(TrainRequest(named, seeds=[0], class_orders=[1], storage=tmp_path))


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    return planned(tmp_path, task=["even=0,2,4", "7,9"]).spec  # type: ignore[no-any-return]


def trial_of(spec: RunSpec) -> TrialSummary:
    names = [VALIDATION.accuracy(1), VALIDATION.accuracy(2)]
    rows = [{"task": 1.0, names[0]: 90.0}, {"task": 2.0, names[0]: 80.0, names[1]: 70.0}]
    return TrialSummary(0, 0, "complete", {}, rows, 75.0)


def test_tasks_are_given_by_number_or_name_and_a_name_with_a_comma_in_quotes() -> None:
    assert _tasks("drop", "'lion, male', 2,bear") == ["lion, male", 2, "bear"]
    assert _tasks("drop", "1, 2") == [1, 2]
    with pytest.raises(InputError, match="--drop must be tasks"):
        _tasks("drop", "1,,3")


def test_tables_and_figures_name_the_tasks(spec: RunSpec) -> None:
    table = task_accuracy_table(spec, [trial_of(spec)])
    assert [column.name for column in table.columns] == ["after task", "1: even", "2: 7, 9"]
    assert [row[0] for row in table.rows] == ["1: even", "2: 7, 9", "forgetting"]
    joint = task_accuracy_table(spec.model_copy(update={"steps": 1}), [trial_of(spec)])
    assert [row[0] for row in joint.rows][0] == "1"  # its one step is all tasks
    axes = accuracy_matrix_figure(trial_of(spec).rows, VALIDATION, "t", [task.label for task in spec.tasks]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1: even", "2: 7, 9"]
    made = {"runs": ("r",), "benchmark": TEXT, "seeds": (0,), "accuracies": ((90.0, 80.0),), "weights": (0.5, 0.5)}
    result = CompositionResult(label="uniform", task_names=("even", "7, 9"), **made)
    assert [column.name for column in composition_tables([result])[0].columns][-2:] == ["task 1: even", "task 2: 7, 9"]


def test_mlflow_has_the_names_and_short_ones_of_long_benchmarks(spec: RunSpec) -> None:
    assert _task_tags(spec) == {"tasks": "1: even (0, 2, 4); 2: 7, 9"}
    long = f"cub200?task={','.join(f'class {n}' for n in range(100))}"
    found = {tracked_name(long), tracked_name(f"{long},another")}
    assert len(found) == 2 and {len(name) for name in found} == {250} and tracked_name(TEXT) == TEXT
    assert len(shown_benchmark(long)) == 100


def test_a_task_is_forgotten_by_its_name() -> None:
    spec = get_source(TEXT).spec
    assert removal_of(["even"], spec) == removal_of(["task:1"], spec) == removal_of(["0,4,class:2"], spec)
