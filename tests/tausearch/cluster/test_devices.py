"""The device of trials: who chooses it, what a plan says of it, and what stays when a run goes on."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.api import SearchRequest, TrainRequest, final_runs, plan_search, plan_training, searches
from tausearch.api.bounds import as_beside
from tausearch.cluster import (
    asked_once,
    continued_resources,
    pilot,
    resources as cluster_resources,
    with_device,
    with_measured_gpu_share,
)
from tausearch.cluster.devices import _asked
from tausearch.execution import preview_plan, record_of
from tausearch.runs import Pilot, Plan, Resources, SearchSpec, Storage, read_spec, read_status
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.support.runs.trials import make_trial
from trainables.backbones import EMBEDDED
from trainables.errors import InputError
from trainables.metrics import PEAK_GPU_BYTES

HUB = "vit_base_patch16_224.augreg_in21k"
GPUS = Callable[[int], None]
PILOT = Pilot(peak_bytes=2**30, gpu_bytes=80 * 2**30)
SHARED = Resources(gpus_per_trial=0.25, gpus_from="rule", pilot=PILOT)


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_resources, "require_reachable", lambda address: None)


def request_of(root: Path, wish: Any = None, **more: Any) -> SearchRequest:
    return SearchRequest("digits", "finetune", gpus_per_trial=wish, storage=root, tracking="none", **more)


def plan_of(
    spec: SearchSpec, root: Path, backbone: str = EMBEDDED, address: str | None = None, cpus: int = 1
) -> Plan[SearchSpec]:
    protocol = spec.protocol.model_copy(update={"backbone": backbone})
    own = {"protocol": protocol, "address": address, "resources": Resources(cpus_per_trial=cpus)}
    return Plan(spec.model_copy(update=own), Storage(root), named=True, resume_if_exists=True)


@pytest.mark.parametrize(
    ("there", "wish", "backbone", "share", "chosen_by", "measures"),
    [
        (0, None, EMBEDDED, 0, None, False),
        (0, None, HUB, 0, None, False),
        (0, 0, HUB, 0, None, False),
        (1, None, EMBEDDED, 1, "rule", True),
        (1, None, HUB, 1, "rule", False),
        (1, None, "my_module:Backbone", 1, "rule", False),
        (1, "auto", HUB, 1, "request", True),
        (1, "auto", EMBEDDED, 1, "request", True),
        (1, 0.25, EMBEDDED, 0.25, "request", False),
        (1, 0, EMBEDDED, 0, "request", False),
    ],
)
@pytest.mark.parametrize("address", [None, "192.0.2.1:6379"])
def test_trials_use_a_gpu_where_there_is_one(
    there: int,
    wish: Any,
    backbone: str,
    share: float,
    chosen_by: str | None,
    measures: bool,
    address: str | None,
    spec: SearchSpec,
    tmp_path: Path,
    gpus: GPUS,
) -> None:
    gpus(0 if address else there)
    asked: list[str | None] = []

    def gpus_at(where: str | None) -> float:
        asked.append(where)
        return float(there)

    plan = with_device(plan_of(spec, tmp_path, backbone, address), wish, gpus_at)
    if address is not None and wish == 0:
        chosen_by = None  # nobody has looked whether the cluster has a GPU
    assert plan.spec.resources == Resources(gpus_per_trial=share, gpus_from=chosen_by)  # type: ignore[arg-type]
    assert plan.pilot == measures
    assert asked == ([address] if wish is None else [])  # a cluster is joined only where the answer matters


def test_a_cluster_that_refuses_is_asked_once() -> None:
    asked: list[str | None] = []

    def refuse(address: str | None) -> float:
        asked.append(address)
        raise InputError("no Ray cluster answers there")

    gpus_at = asked_once(refuse)
    for address in ("auto", "auto", "192.0.2.1:6379"):
        with pytest.raises(InputError, match="answers there"):
            gpus_at(address)
    assert asked == ["auto", "192.0.2.1:6379"]


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (Resources(), ""),
        (Resources(gpus_from="request"), "the CPU in bf16 (as asked for)"),
        (Resources(gpus_per_trial=1, gpus_from="rule"), "a whole GPU in bf16 (the default where there is one)"),
        (Resources(gpus_per_trial=1 / 3, gpus_from="request"), "1/3 of a GPU in bf16 (as asked for)"),
        (Resources(gpus_per_trial=0.34), "1/3 of a GPU in bf16"),
        (SHARED, "1/4 of a GPU in bf16 (a pilot trial took 1.00 of 80.0 GiB)"),
        (Resources(gpus_per_trial=0.5), "1/2 of a GPU in bf16"),  # of an earlier version
    ],
)
def test_device_precision_and_reason_are_said_and_no_word_without_a_gpu(resources: Resources, words: str) -> None:
    assert resources.words("bf16") == words


def test_what_a_run_without_a_gpu_does_not_have_is_not_in_its_file() -> None:
    plain = Resources().model_dump(mode="json")
    assert plain == {"cpus_per_trial": 1, "gpus_per_trial": 0, "max_concurrent_trials": None}
    assert Resources.model_validate(SHARED.model_dump(mode="json")) == SHARED


def test_a_planned_search_and_a_final_run_say_their_device_in_the_dry_run(tmp_path: Path, gpus: GPUS) -> None:
    gpus(2)
    plan = plan_search(request_of(tmp_path, precision="bf16"))
    shown = preview_plan(plan, None)
    assert shown.device == shown.as_dict()["device"] == "a share of a GPU in bf16 (a pilot trial measures it)"
    final = plan_training(TrainRequest(unsearched_best_file(plan.spec), gpus_per_trial=0.5, storage=tmp_path))
    assert preview_plan(final, None).device == "1/2 of a GPU in bf16 (as asked for)" and not final.pilot
    gpus(0)
    without = preview_plan(plan_search(request_of(tmp_path)), None)
    assert without.device == "" and "device" not in without.as_dict()


def test_on_several_benchmarks_each_is_measured(tmp_path: Path, gpus: GPUS, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(1)
    plan = plan_search(replace(request_of(tmp_path, "auto"), benchmark="digits,letters"))
    assert plan.pilot and plan.spec.resources.gpus_from == "request"
    found: list[Any] = []

    def share(spec: SearchSpec, configs: Any, address: object, say: Any, check: Any) -> tuple[SearchSpec, str]:
        found.extend(configs)
        return spec, "pilot"

    monkeypatch.setattr(pilot, "with_measured_share", share)
    with_measured_gpu_share(plan, None, io.StringIO())
    assert [each.benchmark for each in found] == ["digits", "letters"]
    assert {str(each.hyperparameters) for each in found} == {str({**plan.spec.fixed, **plan.spec.start})}


def pilot_that(monkeypatch: pytest.MonkeyPatch, resources: Resources | None) -> None:
    """Let pilots find resources; None to let them fail."""

    def share(spec: Any, configs: Any, address: str | None, say: Any, check: Any) -> tuple[Any, str]:
        if resources is None:
            raise pilot.PilotError("the pilot trial failed (out of memory)")
        return spec.model_copy(update={"resources": resources}), "pilot: 4 trials per GPU"

    monkeypatch.setattr(pilot, "with_measured_share", share)


@pytest.mark.parametrize("progress_to", ["stdout", "stderr"])
def test_a_pilot_says_its_line_before_the_run_starts_where_progress_is_shown(
    progress_to: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gpus: GPUS
) -> None:
    gpus(1)
    pilot_that(monkeypatch, SHARED)
    went: list[tuple[Any, ...]] = []
    monkeypatch.setattr(searches, "warm_start_lines", lambda spec, ahead: ["warm start: 1 point"])
    monkeypatch.setattr(searches, "run_search", lambda run, options: went.append((run.spec.resources, options)))
    searches.search_with(request_of(tmp_path, progress_to=progress_to, time_budget=9.0))
    ((resources, options),) = went
    assert (resources, options.time_budget, options.progress_to) == (SHARED, 9.0, progress_to)
    first = "a pilot trial on a whole GPU measures how many can share one\n"
    said = f"{first}pilot: 4 trials per GPU\nwarm start: 1 point\n"
    assert tuple(capsys.readouterr()) == ((said, "") if progress_to == "stdout" else ("", said))


def test_a_final_run_has_a_pilot_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: GPUS) -> None:
    gpus(1)
    pilot_that(monkeypatch, SHARED)
    went: list[Resources] = []
    monkeypatch.setattr(final_runs, "run_training", lambda run, *how: went.append(run.spec.resources))
    best = unsearched_best_file(plan_search(request_of(tmp_path)).spec)
    final_runs.train(best, seeds=[0], storage=tmp_path, tracking="none", progress_to="stderr")
    assert went == [SHARED]


def test_a_pilot_that_fails_ends_the_command_only_if_it_was_asked_for(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: GPUS
) -> None:
    gpus(1)
    pilot_that(monkeypatch, None)
    out = io.StringIO()
    plan = with_device(plan_of(spec, tmp_path), None, lambda address: 1)
    found = with_measured_gpu_share(plan, None, out)
    assert found.spec.resources == Resources(gpus_per_trial=1, gpus_from="rule") and not found.pilot
    assert out.getvalue().splitlines()[1] == "the pilot trial failed (out of memory); each trial gets a whole GPU"

    def refuse(*_: object) -> None:
        raise InputError("no Ray cluster can be joined there")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="can be joined"):
        patch.setattr(pilot, "with_measured_share", refuse)
        with_measured_gpu_share(plan, None, out)
    asked = with_device(plan_of(spec, tmp_path), "auto", lambda address: 1)
    with pytest.raises(InputError, match=r"^--gpus-per-trial auto: the pilot trial failed \(out of memory\)$"):
        with_measured_gpu_share(asked, None, out)


def test_a_pilot_waits_for_a_node_no_longer_than_the_time_budget(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: GPUS
) -> None:
    gpus(1)

    def share(spec: Any, configs: Any, address: str | None, say: Any, check: Any) -> tuple[Any, str]:
        check()
        return spec, "there is a node"

    monkeypatch.setattr(pilot, "with_measured_share", share)
    plan = with_device(plan_of(spec, tmp_path), "auto", lambda address: 1)
    for budget in (None, 60.0):
        assert not with_measured_gpu_share(plan, None, io.StringIO(), budget).pilot
    with pytest.raises(InputError, match=r"^--time-budget: is used up, and the pilot trial has no node yet; nothing"):
        with_measured_gpu_share(plan, None, io.StringIO(), -1.0)


@pytest.mark.parametrize(("asked", "planned", "fit"), [(3, 3, 3), (9, 8, 4), (None, None, None)])
def test_trials_at_a_time_are_those_that_fit_with_the_measured_share(
    asked: int | None,
    planned: int | None,
    fit: int | None,
    spec: SearchSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: GPUS,
) -> None:
    gpus(1)
    monkeypatch.setattr(cluster_resources, "local_cpus", lambda: 8)
    plan = plan_of(spec, tmp_path)
    wanted = Resources(max_concurrent_trials=asked)
    plan = with_device(replace(plan, spec=plan.spec.model_copy(update={"resources": wanted})), None, lambda address: 1)
    assert plan.spec.resources.max_concurrent_trials == planned  # no more than fit the CPUs
    shared = plan.spec.resources.model_copy(update={"gpus_per_trial": 0.25})
    for measured, at_once in ((shared, fit), (None, asked and 1)):  # without a measurement each has a whole GPU
        pilot_that(monkeypatch, measured)
        assert with_measured_gpu_share(plan, None, io.StringIO()).spec.resources.max_concurrent_trials == at_once


@pytest.mark.parametrize("wish", [None, "auto"])
def test_a_run_that_goes_on_keeps_its_device(wish: Any, spec: SearchSpec, tmp_path: Path, gpus: GPUS) -> None:
    gpus(1)
    plan = plan_of(spec, tmp_path, cpus=2)
    make_run_directory(plan.spec.model_copy(update={"resources": SHARED}), plan.storage)
    found = with_device(plan, wish, lambda address: pytest.fail("joined"))
    assert found.spec.resources == SHARED.model_copy(update={"cpus_per_trial": 2}) and not found.pilot
    assert with_device(plan, 1, lambda address: 1).spec.resources.gpus_per_trial == 1
    gpus(0)
    with pytest.raises(InputError, match=r"began on 1/4 of a GPU, and this machine has no GPU; .*--gpus-per-trial 0"):
        with_device(plan, wish, lambda address: 0)


def test_a_run_that_began_on_the_cpu_stays_there(spec: SearchSpec, tmp_path: Path, gpus: GPUS) -> None:
    gpus(1)
    plan = plan_of(spec, tmp_path)
    make_run_directory(plan.spec, plan.storage)
    found = with_device(plan, None, lambda address: 1)
    assert found.spec.resources == Resources() and not found.pilot


def test_a_resumed_run_takes_another_share_if_it_is_told_to(spec: SearchSpec, gpus: GPUS) -> None:
    on_gpu = spec.model_copy(update={"resources": SHARED})
    gpus(0)
    with pytest.raises(InputError, match="began on 1/4 of a GPU, .* or on the CPU with --device cpu"):
        continued_resources(on_gpu, None, None, None, on_cpu="--device cpu")
    assert continued_resources(on_gpu, 0, 2, None) == Resources(gpus_from="request", max_concurrent_trials=2)
    assert continued_resources(spec, 0, None, None) == Resources()
    assert continued_resources(on_gpu, None, 3, "auto") == SHARED.model_copy(update={"max_concurrent_trials": 3})
    wide = spec.model_copy(update={"resources": Resources(cpus_per_trial=9)})
    assert [continued_resources(wide, wish, None, "auto").cpus_per_trial for wish in (None, 0)] == [9, 9]
    gpus(1)
    assert continued_resources(on_gpu, None, None, None) == SHARED
    assert continued_resources(spec, 0.5, None, None) == Resources(gpus_per_trial=0.5, gpus_from="request")


def test_bounds_have_the_device_of_their_run(spec: SearchSpec, tmp_path: Path) -> None:
    run = spec.model_copy(update={"resources": SHARED})
    assert as_beside(plan_of(spec, tmp_path), run).spec.resources == SHARED


def test_a_bound_on_gpu_memory_needs_a_gpu(tmp_path: Path, gpus: GPUS) -> None:
    bound = f"{PEAK_GPU_BYTES} <= 1e9"
    gpus(0)
    with pytest.raises(InputError, match="peak_gpu_bytes"):
        plan_search(request_of(tmp_path, constraint=[bound]))
    on_cluster = request_of(tmp_path, constraint=[bound], address="192.0.2.1:6379")
    assert plan_search(on_cluster, gpus=lambda address: 2).spec.constraints[0].metric == PEAK_GPU_BYTES
    with pytest.raises(InputError, match=r"no trial at 192\.0\.2\.1:6379 measures it, as trials run on CPUs"):
        plan_search(on_cluster, gpus=lambda address: 0)
    with pytest.raises(InputError, match="no trial at .* measures it"):
        plan_search(request_of(tmp_path, objective=["bytes"], address="192.0.2.1:6379"), gpus=lambda address: 0)
    assert plan_search(replace(on_cluster, gpus_per_trial=0.5)).spec.resources.gpus_per_trial == 0.5
    assert plan_search(replace(on_cluster, gpus_per_trial="auto")).pilot
    gpus(1)
    spec = plan_search(request_of(tmp_path, constraint=[bound])).spec
    assert spec.resources.gpus_from == "rule"
    with pytest.raises(InputError, match=r"^memory/peak_gpu_bytes: no trial measures it, as trials run on CPUs$"):
        continued_resources(spec, 0, None, None)


def test_the_device_is_in_the_best_file_in_the_run_file_and_in_the_record(spec: SearchSpec, tmp_path: Path) -> None:
    assert "device" not in unsearched_best_file(spec).model_dump()
    on_gpu = spec.model_copy(update={"resources": SHARED})
    assert (
        unsearched_best_file(on_gpu).device
        == on_gpu.device
        == "1/4 of a GPU in fp32 (a pilot trial took 1.00 of 80.0 GiB)"
    )
    _, directory = make_run_directory(on_gpu, Storage(tmp_path))
    assert read_spec(directory).resources == SHARED
    record = record_of(on_gpu, directory)
    record.write(make_trial(0))
    assert set(record.table().column("gpus_per_trial").to_pylist()) == {0.25}
    found = read_status(directory)
    assert found.as_dict()["device"] == on_gpu.device and "device" not in replace(found, spec=spec).as_dict()


def test_a_user_who_asks_for_no_gpu_chooses_only_where_there_is_known_to_be_one(gpus: Callable[[int], None]) -> None:
    for here, chosen in ((1, "request"), (0, None)):
        gpus(here)
        assert (_asked(0, None), _asked(0, "10.0.0.1:6379"), _asked(None, None)) == (chosen, None, None)
        assert _asked("auto", None) == _asked(0.5, "10.0.0.1:6379") == "request"
