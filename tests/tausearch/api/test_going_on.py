"""The same command again: it starts a run, or goes on with it if it is the same; another one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.api import SearchRequest, plan_search, search
from tausearch.runs import Plan, Resources, SearchSpec, Storage, changed_fields, read_spec
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import final_spec
from trainables.errors import InputError


def planned(root: Path, **changes: Any) -> Plan:
    options: dict[str, Any] = {"name": "s", "trials": 4, "resume_if_exists": True, "storage": root, **changes}
    return plan_search(SearchRequest("digits", "ita-lora", **options))


def test_the_first_time_it_starts_and_then_it_goes_on_with_the_same_run(tmp_path: Path) -> None:
    first = planned(tmp_path)
    assert not first.exists
    with first.open_locked() as (spec, directory):
        assert (spec, directory.name) == (first.spec.model_copy(update={"created": spec.created}), "s")
    again = planned(tmp_path, max_concurrent_trials=1, tracking_uri="http://a:1", cache_size=1)
    assert again.exists and again.spec.id != spec.id
    with again.open_locked() as (continued, directory):
        assert continued.id == spec.id  # MLflow knows it by that
        assert continued == spec.model_copy(
            update={"resources": Resources(max_concurrent_trials=1), "tracking_uri": "http://a:1", "cache_size": 1}
        )
        assert read_spec(directory) == continued
        with pytest.raises(InputError, match="driven by another process"), planned(tmp_path).open_locked():
            pass
    with planned(tmp_path).open_locked() as (continued, _):
        assert continued.tracking_uri == "http://a:1"  # where it was, unless told otherwise


@pytest.mark.parametrize("first_stop", [0, 2.0])
def test_what_an_earlier_version_allowed_goes_on(tmp_path: Path, first_stop: float) -> None:
    options = {"scheduler": "median", "pruner_options": {"first_stop": first_stop}}
    with pytest.raises(InputError, match="first_stop must be a whole number from 1"):
        planned(tmp_path, **options)
    spec = planned(tmp_path, scheduler="median").spec.model_copy(update=options)
    make_run_directory(spec, Storage(tmp_path))
    assert planned(tmp_path, **options).continued().pruner_options == options["pruner_options"]


def test_a_search_goes_on_that_was_begun_with_hyperparameters_without_effect(tmp_path: Path) -> None:
    for name, benchmark in (("one", "digits"), ("two", "digits,glyphs")):

        def plan(benchmark: str = benchmark, name: str = name, **options: Any) -> Plan:
            options |= {"name": name, "resume_if_exists": True, "storage": tmp_path}
            return plan_search(SearchRequest(benchmark, "ita-lora", **options))

        whole, now = plan().spec, plan(set={"regularise": "none"}).spec
        assert isinstance(whole, SearchSpec) and {*whole.space} - {*now.space} >= {"alpha"}
        begun = whole.model_copy(update={"fixed": {**whole.fixed, "regularise": "none"}})
        make_run_directory(begun, Storage(tmp_path))
        assert plan(set={"regularise": "none"}).continued().space == whole.space
        assert changed_fields(begun, plan(set={"regularise": "head"}).spec) == [
            "fixed.regularise was none, is now head"
        ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 6}, "trials was 4, is now 6; `tausearch extend s --storage STORAGE --trials 6` only adds trials"),
        ({"algorithm": "random"}, "algorithm was tpe, is now random"),
        ({"seed": 1}, "protocol.split_seed was 0, is now 1; seed was 0, is now 1"),
        ({"set": {"lr": 0.5}}, "space.lr.low was .*, is now not there; .*fixed.lr was not there, is now 0.5"),
        ({"epochs": 2}, r"benchmark was digits, is now digits\?epochs=2; protocol.epochs was 5, is now 2"),
        ({"precision": "bf16"}, "protocol.precision was fp32, is now bf16"),
        ({"precision": "bf16", "trials": 6}, "protocol.precision was .*; trials was 4, is now 6$"),
    ],
)
def test_another_request_is_refused_with_what_differs(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with planned(tmp_path).open_locked() as (spec, directory):
        pass
    options = {"name": "s", "trials": 4, "resume_if_exists": True, "storage": tmp_path, **changes}
    said = said.replace("STORAGE", str(tmp_path))
    with pytest.raises(InputError, match=f"run 's' was started otherwise: {said}"):
        search("digits", "ita-lora", **options)
    assert read_spec(directory) == spec


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"precision": "bf16"}, "protocol.precision was fp32, is now bf16"),
        (
            {"epochs": 7, "trials": 9},
            "benchmark was letters,digits, is now letters?epochs=7,digits?epochs=7; protocol.epochs was 5, is now 7;"
            " trials was 2, is now 9",
        ),
        ({"benchmark": "letters,digits?epochs=7"}, "benchmark was letters,digits, is now letters,digits?epochs=7"),
    ],
)
def test_what_differs_on_each_of_several_benchmarks_is_said_once(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    asked: dict[str, Any] = {
        "benchmark": "letters,digits",
        "method": "ita-lora",
        "name": "s",
        "trials": 2,
        "storage": tmp_path,
    }
    make_run_directory(plan_search(SearchRequest(**asked)).spec, Storage(tmp_path))
    with pytest.raises(InputError) as caught:
        plan_search(SearchRequest(**{**asked, "resume_if_exists": True, **changes})).continued()
    assert str(caught.value) == f"run 's' was started otherwise: {said}"


def test_without_a_name_there_is_nothing_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--resume-if-exists goes with --name"):
        planned(tmp_path, name=None)


def test_without_the_option_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with planned(tmp_path).open_locked():
        pass
    with pytest.raises(InputError, match="choose another --name, or continue it with --resume-if-exists"):
        planned(tmp_path, resume_if_exists=False)
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        InputError, match="folder exists and is no run; choose another --name"
    ):  # no run: nothing to go on with
        planned(tmp_path, name="folder")


def test_how_and_where_a_run_is_driven_makes_it_no_other(spec: SearchSpec) -> None:
    other = {"id": "x", "resources": Resources(cpus_per_trial=2), "tracking_uri": "http://a", "version": "9"}
    assert changed_fields(spec, spec.model_copy(update=other)) == []
    final = final_spec(spec)
    more = final.model_copy(update={"seeds": (0, 1), "source": "digits-1"})
    assert changed_fields(final, more) == ["seeds was 0, is now 0 1", "source was not there, is now digits-1"]
