"""A run beside chance, probe and joint: which runs count, what is said, and of which tasks little is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import (
    BesideBounds,
    DataFacts,
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunDirectory,
    RunSpec,
    SearchSpec,
    Storage,
    StorageError,
    beside_bounds,
    chance,
    hardly_learned,
    little_left,
    read_spec,
    read_status,
)
from tausearch.runs.creation import make_run_directory
from tests.support.runs.built_runs import make_run
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial
from trainables.config import BOUNDS
from trainables.methods import METHODS
from trainables.task_names import NamedTask

TASKS = tuple(NamedTask(classes, name) for classes, name in ((("a", "b"), "birds"), (("c", "d"), None)))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def searched(storage: Storage, spec: RunSpec, value: float | None, **changes: Any) -> RunDirectory:
    """A finished search of one trial."""
    _, directory = make_run_directory(spec.model_copy(update={"tasks": TASKS, "trials": 1, **changes}), storage)
    trial = make_trial(0, value=value) if value is not None else make_trial(0)
    Record(directory.record).write(trial)
    return directory


def bound(storage: Storage, spec: RunSpec, method: str, value: float | None, name: str = "", **changes: Any) -> None:
    searched(storage, spec, value, method=method, name=name or f"s-{method}", **changes)


def beside(directory: RunDirectory) -> BesideBounds | None:
    return beside_bounds(read_status(directory), Storage(directory.path.parent))


def test_the_bounds_are_methods() -> None:
    assert set(BOUNDS) <= set(METHODS)


def test_alone_it_stands_beside_chance_and_the_line_says_how_to_measure_bounds(spec: RunSpec, storage: Storage) -> None:
    found = beside(searched(storage, spec, 58.0, name="s"))
    assert found is not None and found.missing == ("probe", "joint")
    assert str(found) == (
        "58.00 % beside chance 25.00 %; missing here: probe, joint"
        f" (`tausearch resume s --storage {storage.root} --with-bounds` runs them)"
    )
    own = beside(searched(storage, spec, 58.0, name="own", method="m:Mine"))
    assert f"`tausearch resume own --storage {storage.root} --allow-code m:Mine --with-bounds`" in str(own)
    assert beside(searched(storage, spec, None, name="running")) is None
    assert str(beside(searched(storage, spec, 0.0, name="nothing"))).startswith("0.00 % beside chance")
    assert str(beside(searched(storage, spec, 50.0, name="p", method="probe"))).endswith("--with-bounds` runs it)")


def test_bounds_of_the_same_protocol_are_named_with_their_runs(spec: RunSpec, storage: Storage) -> None:
    bound(storage, spec, "joint", 96.0, "before")
    for method, value in (("joint", 98.0), ("probe", 50.0)):
        bound(storage, spec, method, value)
    bound(storage, spec, "joint", 97.0, "worse")
    bound(storage, spec, "joint", None, "unfinished")
    bound(storage, spec, "joint", 99.0, "stopped", trials=2)
    found = beside(searched(storage, spec, 58.0, name="s"))
    assert str(found) == "58.00 % beside chance 25.00 %, probe 50.00 % (s-probe), joint 98.00 % (s-joint)"
    assert found is not None and found.as_dict()["found"][1] == {"method": "joint", "run": "s-joint", "accuracy": 98.0}
    unknown = replace(found, chance=None)  # its classes are not known
    assert str(unknown) == "58.00 % beside probe 50.00 % (s-probe), joint 98.00 % (s-joint)"
    own = beside(storage.run("s-probe"))
    assert str(own) == "50.00 % beside chance 25.00 %, joint 98.00 % (s-joint)"


def test_a_bound_whose_record_may_not_be_read_is_passed_over(
    spec: RunSpec, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(directory: RunDirectory) -> None:
        raise StorageError(f"record {directory.record}: cannot be read (Permission denied)")

    bound(storage, spec, "joint", 98.0)
    status = read_status(searched(storage, spec, 58.0, name="s"))
    monkeypatch.setattr("tausearch.runs.bounds.read_status", refused)
    found = beside_bounds(status, storage)
    assert found is not None and found.missing == ("probe", "joint")


def test_a_choice_of_fresh_runs_stands_beside_bounds_with_its_accuracy_on_their_split(
    spec: SearchSpec, storage: Storage
) -> None:
    bound(storage, spec, "joint", 98.0)
    asked = {"name": "s", "reevaluate": Reevaluate(best=1, runs=1)}
    directory = searched(storage, spec, 90.0, **asked)
    assert "90.00 % (trial 0 on the search's own split)" in str(beside(directory)), "before its fresh runs, too"
    again = ReevaluationSpec.of(spec.model_copy(update={**asked, "trials": 1}))
    fresh = replace(make_trial(0, value=60.0), seed=again.seed_of(0))
    Record(directory.reevaluation.record).write(fresh)
    assert read_status(directory).accuracy == 60.0
    found = beside(directory)
    assert found is not None and (found.accuracy, found.as_dict()["trial"]) == (90.0, 0)
    assert str(found).startswith("90.00 % (trial 0 on the search's own split) beside chance 25.00 %, joint 98.00 %")
    assert str(found).endswith(
        f"missing here: probe (`tausearch resume s --storage {storage.root} --with-bounds` runs it)"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"benchmark": "digits?tasks=2"},
        {"protocol": {"split_seed": 1}},
        {"protocol": {"backbone": "vit_tiny"}},
        {"protocol": {"weights_digest": "1" * 64}},
        {"protocol": {"epochs": 9}},
        {"protocol": {"batch_size": 9}},
        {"protocol": {"initial_head_digest": "1" * 64}},
        {"protocol": {"precision": "bf16"}},
        {"data": DataFacts(digest="2", train=9, evaluation=3)},
        {"data": DataFacts(digest="1", train=9, evaluation=4)},
        {"data": DataFacts(digest="1", train=9, evaluation=3, evaluation_digest="2")},
    ],
)
def test_a_run_of_another_protocol_is_no_bound(changes: dict[str, Any], spec: RunSpec, storage: Storage) -> None:
    spec = spec.model_copy(update={"data": DataFacts(digest="1", train=9, evaluation=3, evaluation_digest="1")})
    if "protocol" in changes:
        changes = {"protocol": spec.protocol.model_copy(update=changes["protocol"])}
    bound(storage, spec, "joint", 98.0, **changes)
    found = beside(searched(storage, spec, 58.0, name="s"))
    assert found is not None and not found.found


def test_where_the_weights_lie_makes_no_difference(spec: RunSpec, storage: Storage) -> None:
    elsewhere = {"backbone_weights": "/a/file", "initial_head": "/a/head"}
    counted = DataFacts(digest="1", train=9, evaluation=3)  # which those of the other run were not
    bound(storage, spec, "joint", 98.0, protocol=spec.protocol.model_copy(update=elsewhere), data=counted)
    found = beside(searched(storage, spec, 58.0, name="s"))
    assert found is not None and found.missing == ("probe",)


def test_a_final_run_has_bounds_of_the_same_seeds_on_any_split_of_a_search(spec: RunSpec, storage: Storage) -> None:
    final = make_final_run(storage, "f", [80.0, 82.0])
    bound(storage, spec, "joint", 99.0, "searched", benchmark=final.benchmark, protocol=final.protocol)
    make_final_run(storage, "three", [95.0, 95.0, 95.0], method="joint")
    joint = make_final_run(storage, "j", [90.0, 92.0], method="joint", protocol={"split_seed": 5})
    others = [replace(trial, seed=5 + trial.seed) for trial in Record(storage.run("j").record).trials()]
    for trial in others:
        trial.rows[-1]["test/final_accuracy"] = 99.0
    make_run(storage, joint.model_copy(update={"name": "others", "seeds": (5, 6)}), others)
    found = beside(storage.run("f"))
    assert found is not None and (found.accuracy, found.chance, found.missing) == (81.0, None, ("probe",))
    assert [(each.run, each.accuracy) for each in found.found] == [("j", 91.0)]
    turned = [replace(each, seed=1 - each.number) for each in Record(storage.run("j").record).trials()]
    turned[0].rows[-1]["test/final_accuracy"] = 94.0
    make_run(storage, joint.model_copy(update={"name": "turned", "seeds": (1, 0)}), turned)
    found = beside(storage.run("f"))
    assert found is not None and [each.run for each in found.found] == ["turned"]  # in whatever order they ran
    for name, digest in (("f", "1"), ("turned", "2")):
        facts = DataFacts(digest=digest, train=9, evaluation=3)
        read_spec(storage.run(name)).model_copy(update={"data": facts}).save(storage.run(name))
    found = beside(storage.run("f"))
    assert found is not None and [each.run for each in found.found] == ["j"]  # not of other images


def test_a_run_that_cannot_be_read_is_passed_over(spec: RunSpec, storage: Storage) -> None:
    bound(storage, spec, "joint", 98.0)
    (next((storage.run("s-joint").record).glob("*"))).write_text("broken")
    found = beside(searched(storage, spec, 58.0, name="s"))
    assert found is not None and not found.found


def test_tasks_of_which_little_is_left_are_named_with_what_was_there(spec: RunSpec) -> None:
    protocol = spec.protocol.model_copy(update={"tasks": 2})
    spec = spec.model_copy(update={"tasks": TASKS, "protocol": protocol, "steps": 2})
    assert chance(spec) == 25.0

    def left(first: float, learned: float, second: float, said: Any = little_left) -> str | None:
        trials = [make_trial(number, tasks=2, value=50.0) for number in (0, 1)]
        for trial, apart in zip(trials, (-6.0, 6.0), strict=True):  # those are the means of the two
            trial.rows[0]["val/accuracy/task_1"] = learned + apart
            trial.rows[1] |= {"val/accuracy/task_1": first - apart, "val/accuracy/task_2": second + apart}
        found: str | None = said(spec, [*trials, make_trial(2, tasks=2, status="pruned")])
        return found

    assert left(60, 100, 60) is None and left(50, 100, 50) is None
    assert left(49, 60, 60) == "1: birds (49 %, 60 % when it was learned)"  # under twice chance
    assert left(54, 110, 60) == "1: birds (54 %, 110 % when it was learned)"  # under half
    assert left(60, 100, 8) is None  # the second task is the last: it has lost nothing
    assert left(60, 100, 8, hardly_learned) == "2: c, d (8 %)"
    assert left(30.2, 30.4, 60) is None and left(30.2, 30.4, 60, hardly_learned) == "1: birds (30 %)"
    assert left(49, 60, 60, hardly_learned) is None and left(60, 60, 60, hardly_learned) is None
    assert little_left(spec, [make_trial(1)]) is None
