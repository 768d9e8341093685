"""Which differences make two runs different, and what a continued run takes from the new request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import (
    DataFacts,
    Plan,
    Reevaluate,
    Resources,
    SearchSpec,
    StopRule,
    Storage,
    changed_fields,
    read_spec,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.support.runs.trials import final_spec
from trainables.errors import InputError
from trainables.metrics import average_accuracy

SETTINGS: dict[str, Any] = {  # they change no result
    "id": "other",
    "version": "0.0",
    "created": 1.0,
    "resources": Resources(cpus_per_trial=3),
    "address": "192.0.2.1:6379",
    "tracking_uri": "http://new:1",
    "data_root": "/new",
    "cache_size": 7.0,
    "data": DataFacts(digest="0", train=1, evaluation=1),
    "code_digests": {"my_method:Mine": "0"},
}
CHANGES: dict[str, Any] = {
    "trials": 5,
    "seed": 1,
    "algorithm": "gp",
    "scheduler": "asha",
    "start": {"alpha": 2.0, "lr": 0.01},
    "fixed": {"lr_pre": 0.5},
    "left_out": ("a.png",),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_makes_no_other_run(spec: SearchSpec, name: str) -> None:
    assert changed_fields(spec, spec.model_copy(update={name: SETTINGS[name]})) == []


@pytest.mark.parametrize("name", CHANGES)
def test_anything_else_does(spec: SearchSpec, tmp_path: Path, name: str) -> None:
    changed = spec.model_copy(update={name: CHANGES[name]})
    assert all(line.startswith(name) for line in changed_fields(spec, changed)) and changed_fields(spec, changed)
    make_run_directory(spec, Storage(tmp_path))
    with pytest.raises(InputError, match=f"was started otherwise: {name}"):
        Plan(changed, Storage(tmp_path), named=True, resume_if_exists=True).continued()


def test_a_newer_hyperparameter_at_its_neutral_value_makes_no_other_run(spec: SearchSpec, tmp_path: Path) -> None:
    make_run_directory(spec, Storage(tmp_path))
    newer = spec.model_copy(update={"fixed": {**spec.fixed, "regularise": "all"}})
    assert Plan(newer, Storage(tmp_path), named=True, resume_if_exists=True).continued().fixed == spec.fixed


def test_a_copy_of_the_images_makes_no_other_run_and_other_numbers_of_them_do(spec: SearchSpec) -> None:
    data = DataFacts(digest="0", train=9, evaluation=3, evaluation_digest="0", per_task=(9,), evaluation_per_task=(3,))
    copied = data.model_copy(
        update={
            "digest": "1",
            "evaluation_digest": "1",
            "classes_digest": "1",
            "per_task": (),
            "evaluation_per_task": (),
        }
    )
    fewer = data.model_copy(update={"evaluation": 2})
    first, copy, other = (spec.model_copy(update={"data": each}) for each in (data, copied, fewer))
    assert changed_fields(first, copy) == [] and changed_fields(first, other) == ["data.evaluation was 3, is now 2"]


def test_a_folder_that_an_earlier_version_named_with_two_slashes_is_the_same(spec: SearchSpec) -> None:
    older, now = (spec.model_copy(update={"benchmark": f"folder:{slashes}a/b?tasks=2"}) for slashes in ("//", "/"))
    assert changed_fields(older, now) == [] and len(changed_fields(older, spec)) == 1
    final, other = (final_spec(spec, tuned_on=each.benchmark) for each in (older, now))
    assert changed_fields(final, other) == []
    assert unsearched_best_file(older).is_on("folder:/a/b?tasks=2")
    assert list(older.model_copy(update={"data": DataFacts(digest="0", train=1, evaluation=1)}).images) == [
        now.benchmark
    ]


def test_a_final_run_with_other_seeds_is_told_by_these_alone(spec: SearchSpec) -> None:
    one, two = final_spec(spec), final_spec(spec, seeds=(0, 1), trials=2)
    assert changed_fields(one, two) == ["seeds was 0, is now 0 1"]


def test_a_difference_has_the_old_value_first_and_names_what_is_new(spec: SearchSpec) -> None:
    changed = spec.model_copy(update={"trials": 9, "fixed": {**spec.fixed, "wd": 0.1}})
    there = ["trials was 4, is now 9", "fixed.wd was not there, is now 0.1"]
    back = ["trials was 9, is now 4", "fixed.wd was 0.1, is now not there"]
    assert [sorted(changed_fields(*pair)) for pair in ((spec, changed), (changed, spec))] == [
        sorted(there),
        sorted(back),
    ]


def test_a_continued_run_takes_the_new_settings_and_keeps_what_it_is(spec: SearchSpec, tmp_path: Path) -> None:
    then, _ = make_run_directory(
        spec.model_copy(update={"id": "own", "data_root": "/old", "tracking_uri": "http://old:1"}), Storage(tmp_path)
    )
    now = then.model_copy(update=SETTINGS)
    new = {name: SETTINGS[name] for name in ("resources", "address", "data_root", "cache_size", "tracking_uri")}
    with Plan(now, Storage(tmp_path), named=True, resume_if_exists=True).open_locked() as (found, directory):
        assert found == then.model_copy(update=new) == read_spec(directory)
    plain = then.model_copy(update={"data_root": None, "tracking_uri": None})
    again = Plan(plain, Storage(tmp_path), named=True, resume_if_exists=True).continued()
    assert (again.tracking_uri, again.data_root, again.address) == (
        "http://new:1",
        None,
        None,
    )  # only the tracking store is remembered


def test_a_continued_run_has_bounds_and_trackers_as_the_new_request_says(spec: SearchSpec, tmp_path: Path) -> None:
    make_run_directory(spec.model_copy(update={"tracking": ("tensorboard",)}), Storage(tmp_path))

    def continued(**changes: Any) -> SearchSpec:
        asked = spec.model_copy(update=changes)
        return Plan(asked, Storage(tmp_path), named=True, resume_if_exists=True).continued()

    assert continued(with_bounds=True).with_bounds and not continued().with_bounds
    assert [continued(tracking=each).tracking for each in (None, (), ("mlflow",))] == [
        ("tensorboard",),
        (),
        ("mlflow",),
    ]


def test_a_step_of_accuracy_is_an_image_of_the_task_with_the_fewest(spec: SearchSpec) -> None:
    facts, tasks = DataFacts(digest="0", train=1000, evaluation=200), (50, 125, 25)
    counted = facts.model_copy(update={"evaluation_per_task": tasks})
    for known, step in ((None, 0.0), (facts, 0.5), (counted, 4 / 3)):  # `facts` are those of an earlier version
        assert spec.model_copy(update={"data": known}).accuracy_resolution == pytest.approx(step)
    right = [30, 100, 20]
    better = [[count + (k == task) for k, count in enumerate(right)] for task in range(3)]
    found = [[100 * r / n for r, n in zip(row, tasks, strict=True)] for row in (right, *better)]
    before, *after = map(average_accuracy, found)
    assert max(after) - before == pytest.approx(counted.accuracy_resolution)


def test_a_continued_run_counts_as_it_did(spec: SearchSpec, tmp_path: Path) -> None:
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=2, start=True), "stop": StopRule(patience=2)})
    rule = StopRule(patience=2, since=3, least_gain=1.5)  # as of a search that was extended
    then = asked.model_copy(update={"stop": rule})
    then, _ = make_run_directory(then, Storage(tmp_path))
    assert Plan(asked, Storage(tmp_path), named=True, resume_if_exists=True).continued() == then
    final = final_spec(spec, name="f", seeds=(0, 1), trials=2)
    make_run_directory(final, Storage(tmp_path))
    turned = final.model_copy(update={"seeds": (1, 0)})
    assert Plan(turned, Storage(tmp_path), named=True, resume_if_exists=True).continued().seeds == (0, 1)


def test_an_extended_search_re_evaluates_as_many_as_it_is_now_asked_for(spec: SearchSpec, tmp_path: Path) -> None:
    make_run_directory(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=2)}), Storage(tmp_path))
    more = spec.model_copy(update={"trials": 9, "reevaluate": Reevaluate(best=3, runs=2)})
    plans = [Plan(more, Storage(tmp_path), True, resume_if_exists=True, may_extend=each) for each in (False, True)]
    assert [plan.added for plan in plans] == [0, 5] and plans[1].continued().reevaluate == more.reevaluate
    extend = f"extend digits-ita-lora-1 --storage {tmp_path} --trials 9"
    with pytest.raises(InputError, match=f"`tausearch {extend}` only adds trials"):
        plans[0].continued()
    fewer = spec.model_copy(update={"trials": 2})
    with pytest.raises(InputError) as refused:
        Plan(fewer, Storage(tmp_path), named=True, resume_if_exists=True, may_extend=True).continued()
    assert "tausearch extend" not in str(refused.value)


@pytest.mark.parametrize(
    ("orders", "seeds", "may", "why"),
    [
        (None, (1, 2, 3), True, "seeds was 0 1, is now 1 2 3$"),
        (None, (1, 2), True, "seeds was 0 1, is now 1 2$"),
        (None, (0, 1, 2), False, "is now 0 1 2; only a campaign adds seeds: train all of them under another --name$"),
        ((7, 8), (0, 1, 2), True, "with class orders no seeds are added"),
        ((7, 8), (0, 3), True, "seeds was 0 1, is now 0 3$"),
    ],
)
def test_seeds_are_added_to_those_that_there_are_and_not_with_class_orders(
    spec: SearchSpec, tmp_path: Path, orders: tuple[int, ...] | None, seeds: tuple[int, ...], may: bool, why: str
) -> None:
    protocol, count = spec.protocol.model_copy(update={"class_orders": orders}), len(orders or (None,))
    make_run_directory(final_spec(spec, protocol=protocol, seeds=(0, 1), trials=2 * count), Storage(tmp_path))
    more = final_spec(spec, protocol=protocol, seeds=seeds, trials=len(seeds) * count)
    with pytest.raises(InputError, match=why):
        Plan(more, Storage(tmp_path), named=True, resume_if_exists=True, may_extend=may).continued()
