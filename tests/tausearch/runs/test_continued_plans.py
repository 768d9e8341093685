"""Which differences make two runs different, and what a continued run takes from the new request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import DataFacts, Plan, Resources, SearchSpec, Storage, differences, read_spec
from tausearch.runs.creation import create
from trainables.errors import InputError

SETTINGS: dict[str, Any] = {  # they change no result
    "id": "other",
    "version": "0.0",
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
    assert differences(spec, spec.model_copy(update={name: SETTINGS[name]})) == []


@pytest.mark.parametrize("name", CHANGES)
def test_anything_else_does(spec: SearchSpec, tmp_path: Path, name: str) -> None:
    changed = spec.model_copy(update={name: CHANGES[name]})
    assert all(line.startswith(name) for line in differences(spec, changed)) and differences(spec, changed)
    create(spec, Storage(tmp_path))
    with pytest.raises(InputError, match=f"was started otherwise: {name}"):
        Plan(changed, Storage(tmp_path), named=True, resume_if_exists=True).continued()


def test_a_difference_has_the_old_value_first_and_names_what_is_new(spec: SearchSpec) -> None:
    changed = spec.model_copy(update={"trials": 9, "fixed": {**spec.fixed, "wd": 0.1}})
    there = ["trials was 4, is now 9", "fixed.wd was not there, is now 0.1"]
    back = ["trials was 9, is now 4", "fixed.wd was 0.1, is now not there"]
    assert [sorted(differences(*pair)) for pair in ((spec, changed), (changed, spec))] == [sorted(there), sorted(back)]


def test_a_continued_run_takes_the_new_settings_and_keeps_what_it_is(spec: SearchSpec, tmp_path: Path) -> None:
    then, _ = create(
        spec.model_copy(update={"id": "own", "data_root": "/old", "tracking_uri": "http://old:1"}), Storage(tmp_path)
    )
    now = then.model_copy(update=SETTINGS)
    new = {name: SETTINGS[name] for name in ("resources", "address", "data_root", "cache_size", "tracking_uri")}
    with Plan(now, Storage(tmp_path), named=True, resume_if_exists=True).entered() as (found, directory):
        assert found == then.model_copy(update=new) == read_spec(directory)
    plain = then.model_copy(update={"data_root": None, "tracking_uri": None})
    again = Plan(plain, Storage(tmp_path), named=True, resume_if_exists=True).continued()
    assert (again.tracking_uri, again.data_root, again.address) == (
        "http://new:1",
        None,
        None,
    )  # only the tracking store is remembered


def test_a_step_of_accuracy_is_one_image_of_those_that_judge(spec: SearchSpec) -> None:
    facts = DataFacts(digest="0", train=1000, evaluation=200)
    assert (spec.resolution, spec.model_copy(update={"data": facts}).resolution) == (0.0, 0.5)
