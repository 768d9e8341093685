"""With --with-bounds a run that has ended is followed by probe and joint, once, on the same split or seeds."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.api import ResumeRequest, SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.api.bounds import Remaining, bound_search, bound_training, with_bounds_of
from tausearch.runs import AnySpec, Record, RunDirectory, RunResult, SearchSpec, Storage, read_spec
from tausearch.studies import start_of
from tests.support.runs.trials import make_trial
from trainables.errors import InputError

OPTIONS: dict[str, Any] = {"trials": 3, "name": "s", "seed": 4, "epochs": 2, "cpus_per_trial": 2, "cache_size": 3.0}


def made(root: Path, **changes: Any) -> tuple[SearchSpec, RunDirectory]:
    """A search whose first trial has ended."""
    plan = plan_search(SearchRequest("digits", "ita-lora", **{**OPTIONS, "storage": root, **changes}))
    with plan.entered() as (spec, directory):
        Record(directory.record).write(replace(make_trial(0, tasks=5, value=58.0), seed=spec.seed))
    return spec, directory


def result_of(directory: RunDirectory, **changes: Any) -> RunResult:
    there = RunResult(directory.name, directory.path, [], None, False, directory.log_file, "", None)
    return replace(there, **changes)


def test_the_bounds_of_a_search_have_its_protocol_and_one_trial_at_the_start_of_their_space(tmp_path: Path) -> None:
    spec, _ = made(tmp_path, with_bounds=True, algorithm="random", reevaluate=2)
    for method in ("probe", "joint"):
        request = bound_search(spec, method, ResumeRequest("s", storage=tmp_path, progress_to="stderr"), 7.0)
        planned = plan_search(request).spec
        assert (planned.protocol, planned.benchmark, planned.data) == (spec.protocol, spec.benchmark, spec.data)
        assert (planned.seed, planned.trials, planned.reevaluate) == (4, 1, None)
        assert (planned.resources.cpus_per_trial, planned.cache_size) == (2, 3.0)
        assert (request.name, request.resume_if_exists, request.with_bounds) == (f"s-{method}", True, False)
        assert (request.time_budget, request.progress_to) == (7.0, "stderr")


def test_the_bounds_of_a_final_run_have_its_seeds_and_orders(tmp_path: Path) -> None:
    spec, _ = made(tmp_path)
    best, orders = start_of(spec), [1, 2]
    request = TrainRequest(best, seeds=[3, 5], class_orders=orders, storage=tmp_path, name="f")
    final = plan_training(request).spec
    bound = plan_training(bound_training(final, "joint", request)).spec
    assert (bound.name, bound.method, bound.seeds, bound.protocol) == ("f-joint", "joint", (3, 5), final.protocol)
    assert bound.fixed["lr"] == 0.001 and not any(tmp_path.glob("*joint*"))


@pytest.fixture
def measured() -> list[str]:
    return []


@pytest.fixture
def measure(measured: list[str], tmp_path: Path) -> Callable[[AnySpec, str], RunResult]:
    """Runs a bound that reaches 90 %."""

    def measure(spec: AnySpec, method: str) -> RunResult:
        measured.append(method)
        _, directory = made(tmp_path, name=f"{spec.name}-{method}", trials=1)
        read_spec(directory).model_copy(update={"method": method}).save(directory)
        return result_of(directory)

    return measure


def test_missing_bounds_are_run_once(
    tmp_path: Path, measure: Callable[[AnySpec, str], RunResult], measured: list[str]
) -> None:
    _, directory = made(tmp_path, with_bounds=True)
    how, result = ResumeRequest("s", storage=tmp_path), result_of(directory)
    assert with_bounds_of(read_spec(directory), result, how, measure) == result and measured == ["probe", "joint"]
    with_bounds_of(read_spec(directory), result, how, measure)
    assert measured == ["probe", "joint"]


@pytest.mark.parametrize(
    ("asked", "ended"), [(False, {}), (True, {"signal": signal.SIGINT}), (True, {"out_of_time": True})]
)
def test_none_is_run_unasked_or_after_a_stop(
    asked: bool,
    ended: dict[str, Any],
    tmp_path: Path,
    measure: Callable[[AnySpec, str], RunResult],
    measured: list[str],
) -> None:
    _, directory = made(tmp_path, with_bounds=asked)
    with_bounds_of(read_spec(directory), result_of(directory, **ended), ResumeRequest("s", storage=tmp_path), measure)
    assert measured == []


def test_a_stop_of_a_bound_is_a_stop_of_the_command(tmp_path: Path, measured: list[str]) -> None:
    _, directory = made(tmp_path, with_bounds=True)

    def stopped(spec: AnySpec, method: str) -> RunResult:
        measured.append(method)
        return result_of(directory, signal=signal.SIGINT)

    found = with_bounds_of(read_spec(directory), result_of(directory), ResumeRequest("s", storage=tmp_path), stopped)
    assert found.signal == signal.SIGINT and measured == ["probe"]


def test_a_bound_that_cannot_run_costs_nothing_else(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, directory = made(tmp_path, with_bounds=True)

    def refused(spec: AnySpec, method: str) -> RunResult:
        measured.append(method)
        raise InputError("run 's-probe' was started otherwise")

    result = result_of(directory)
    assert with_bounds_of(read_spec(directory), result, ResumeRequest("s", storage=tmp_path), refused) == result
    assert measured == ["probe", "joint"]
    assert "probe cannot be measured: run 's-probe' was started otherwise" in capsys.readouterr().out


def test_a_run_can_ask_for_bounds_later(tmp_path: Path) -> None:
    made(tmp_path)
    plan = plan_search(
        SearchRequest("digits", "ita-lora", **OPTIONS, storage=tmp_path, resume_if_exists=True, with_bounds=True)
    )
    with plan.entered() as (spec, directory):
        assert spec.with_bounds and read_spec(directory).with_bounds and Storage(tmp_path).run("s") == directory


def test_what_is_left_of_a_time_budget() -> None:
    left = Remaining(100.0)()
    assert left is not None and 90 < left <= 100
    assert Remaining(0.5)() == 1.0 and Remaining(None)() is None
