"""With --with-bounds a run that has ended is followed by probe and joint, once, on the same split or seeds."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tausearch.api import SearchRequest, SearchRun, TrainRequest, plan_search, plan_training
from tausearch.api.bounds import bound_search, bound_training
from tausearch.runs import Record, Resources, RunDirectory, SearchSpec, Storage, read_spec
from tausearch.studies import unsearched_best_file
from tests.support.runs.trials import make_trial
from tests.tausearch.cli.ended import result_of
from trainables.errors import InputError

WIDTH = 64  # of glyph_vit
OPTIONS: dict[str, Any] = {"trials": 3, "name": "s", "seed": 4, "epochs": 2, "cpus_per_trial": 2, "cache_size": 3.0}


def made(root: Path, *, value: float | None = 58.0, **changes: Any) -> tuple[SearchSpec, RunDirectory]:
    """A search whose first trial has ended."""
    plan = plan_search(SearchRequest("digits", "ita-lora", **{**OPTIONS, "storage": root, **changes}))
    with plan.open_locked() as (spec, directory):
        trial = make_trial(0, tasks=5, value=value, status="diverged" if value is None else "complete")
        Record(directory.record).write(replace(trial, seed=spec.seed))
    return spec, directory


def test_the_bounds_of_a_search_have_its_protocol_and_one_trial_at_the_start_of_their_space(tmp_path: Path) -> None:
    save_file({name: torch.ones(WIDTH) for name in "0123456789"}, tmp_path / "head.safetensors")
    own = {"initial_head": tmp_path / "head.safetensors", "precision": "bf16"}
    spec, _ = made(tmp_path, with_bounds=True, algorithm="random", reevaluate=2, **own)
    assert spec.protocol.initial_head_digest is not None
    for method in ("probe", "joint"):
        request = bound_search(spec, method, Storage(tmp_path))
        planned = plan_search(request).spec
        assert (planned.protocol, planned.benchmark, planned.data) == (spec.protocol, spec.benchmark, spec.data)
        assert (planned.seed, planned.trials, planned.reevaluate) == (4, 1, None)
        assert (planned.resources.cpus_per_trial, planned.cache_size) == (2, 3.0)
        assert (request.name, request.resume_if_exists, request.with_bounds) == (f"s-{method}", True, False)
        elsewhere = bound_search(
            spec.model_copy(update={"data_root": "/d", "address": "a:1"}), method, Storage(tmp_path)
        )
        assert (elsewhere.data_root, elsewhere.address) == ("/d", "a:1")
        long = bound_search(spec.model_copy(update={"name": 95 * "n"}), method, Storage(tmp_path)).name
        assert long is not None and Storage(tmp_path).run(long).name == f"{(99 - len(method)) * 'n'}-{method}"


def test_a_run_that_was_stopped_stands_beside_its_bounds_as_far_as_its_record_goes(tmp_path: Path) -> None:
    _, directory = made(tmp_path)
    nothing: dict[str, Any] = {"best": None, "best_file": None, "reevaluation": None}
    for signal in (None, 15):
        beside = result_of(directory, [], **nothing, signal=signal).bounds
        assert beside is not None and (beside.accuracy, beside.missing) == (58.0, ("probe", "joint"))


def test_the_bounds_of_a_search_run_and_are_tracked_as_it_is(tmp_path: Path) -> None:
    spec, _ = made(tmp_path)
    changes = {
        "protocol": spec.protocol.model_copy(update={"backbone": "vit_tiny_patch16_224"}),
        "resources": Resources(gpus_per_trial=0.5, max_concurrent_trials=2),
        "tracking": ("tensorboard",),
        "tracking_uri": "http://b:5000",
    }
    asked = bound_search(spec.model_copy(update=changes), "probe", Storage(tmp_path))
    assert (asked.backbone, asked.tracking, asked.tracking_uri) == (
        "vit_tiny_patch16_224",
        "tensorboard",
        "http://b:5000",
    )
    assert (asked.gpus_per_trial, asked.max_concurrent_trials) == (0.5, 2)


def test_the_bounds_of_a_final_run_have_its_seeds_and_orders(tmp_path: Path) -> None:
    spec, _ = made(tmp_path)
    best, orders = unsearched_best_file(spec), [1, 2]
    request = TrainRequest(best, seeds=[3, 5], class_orders=orders, storage=tmp_path, name="f")
    final = plan_training(request).spec
    bound = plan_training(bound_training(final, "joint", Storage(tmp_path))).spec
    assert (bound.name, bound.method, bound.seeds, bound.protocol) == ("f-joint", "joint", (3, 5), final.protocol)
    assert bound.fixed["lr"] == 0.001 and not any(tmp_path.glob("*joint*"))


@pytest.fixture
def said() -> list[str]:
    """The lines for a person."""
    return []


def opened(directory: RunDirectory, said: list[str], refuse: str | None = None) -> list[str]:
    """The methods of the bounds that are opened after a run, all of which reach 90 %; `refuse` cannot be opened."""
    spec = read_spec(directory)
    assert isinstance(spec, SearchSpec)
    storage = Storage(directory.path.parent)

    class Search(SearchRun):
        def open_bound(self, method: str, locks: ExitStack) -> SearchRun:
            if method == refuse:
                raise InputError(f"run 's-{method}' was started otherwise")
            return super().open_bound(method, locks)

    search, methods = Search(spec, storage, directory), list[str]()
    while True:
        with ExitStack() as locks:
            if (run := search.next_run(locks, said.append)) is None:
                return methods
            Record(run.directory.record).write(replace(make_trial(0, tasks=run.spec.steps, value=90.0), seed=4))
            methods.append(run.spec.method)


def test_missing_bounds_are_run_once(tmp_path: Path, said: list[str]) -> None:
    _, directory = made(tmp_path, with_bounds=True)
    assert opened(directory, said) == ["probe", "joint"] and said == []
    assert opened(directory, said) == []


def test_a_bound_that_was_begun_is_continued(tmp_path: Path, said: list[str]) -> None:
    spec, directory = made(tmp_path, with_bounds=True)
    with ExitStack() as locks:
        request = bound_search(spec, "joint", Storage(tmp_path))
        begun = SearchRun.open_locked(plan_search(request), locks).spec.id
    assert opened(directory, said) == ["probe", "joint"]
    assert read_spec(Storage(tmp_path).run("s-joint")).id == begun


@pytest.mark.parametrize(("asked", "value"), [(False, 58.0), (True, None)], ids=["unasked", "no trial finished"])
def test_none_is_run_unasked_or_without_a_result(
    asked: bool, value: float | None, tmp_path: Path, said: list[str]
) -> None:
    _, directory = made(tmp_path, with_bounds=asked, value=value)
    assert opened(directory, said) == []


def test_a_bound_that_cannot_run_costs_nothing_else(tmp_path: Path, said: list[str]) -> None:
    _, directory = made(tmp_path, with_bounds=True)
    assert opened(directory, said, refuse="probe") == ["joint"]
    assert said == ["probe cannot be measured: run 's-probe' was started otherwise"]


def test_a_run_can_ask_for_bounds_later(tmp_path: Path) -> None:
    made(tmp_path)
    plan = plan_search(
        SearchRequest("digits", "ita-lora", **OPTIONS, storage=tmp_path, resume_if_exists=True, with_bounds=True)
    )
    with plan.open_locked() as (spec, directory):
        assert spec.with_bounds and read_spec(directory).with_bounds and Storage(tmp_path).run("s") == directory
