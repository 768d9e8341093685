"""The precision of trials: what `auto` becomes on which GPUs, where it is kept, and where tf32 is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.campaigns import CampaignRequest, plan_campaign
from tausearch.cluster import bf16_at, continued_resources, resources as cluster_resources, session as cluster_session
from tausearch.execution import preview_plan, record_of
from tausearch.runs import MultiSearchSpec, Plan, Resources, SearchSpec, read_spec
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.support.runs.trials import make_trial
from trainables.errors import InputError

CLUSTER = "192.0.2.1:6379"
Cards = Callable[..., None]


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cluster_resources, cluster_session):
        monkeypatch.setattr(module, "require_reachable", lambda address: None)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]) -> Cards:
    """Pretend that this machine has GPUs with some compute capabilities."""

    def pretend(*capabilities: tuple[int, int]) -> None:
        gpus(len(capabilities))
        monkeypatch.setattr("torch.cuda.get_device_capability", lambda index: capabilities[index])

    return pretend


def request_of(root: Path, precision: str = "auto", **more: Any) -> SearchRequest:
    return SearchRequest("digits", "finetune", precision=precision, storage=root, tracking="none", **more)


@pytest.mark.parametrize(
    ("capabilities", "found"),
    [([], False), ([(8, 0)], True), ([(7, 5)], False), ([(9, 0), (12, 0)], True), ([(9, 0), (7, 0)], False)],
)
def test_gpus_from_ampere_on_have_bf16(capabilities: list[tuple[int, int]], found: bool, cards: Cards) -> None:
    cards(*capabilities)
    assert bf16_at(None) == found


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([], False),
        ([{"GPU": 8.0, "accelerator_type:H100": 1.0}], True),
        ([{"GPU": 8.0}], False),
        ([{"GPU": 1.0, "accelerator_type:V100": 1.0}], False),
        ([{"GPU": 1.0, "accelerator_type:A100": 1.0}, {"GPU": 1.0, "accelerator_type:T4": 1.0}], False),
        ([{"GPU": 1.0, "accelerator_type:A100": 1.0}, {"CPU": 4.0}], True),
        ([{"GPU": 1.0, "accelerator_type:Nova-9": 1.0}], False),
        ([{"GPU": 2.0, "accelerator_type:A100": 1.0, "accelerator_type:T4": 1.0}], False),
        ([{"CPU": 4.0}], False),
    ],
)
def test_a_cluster_has_bf16_where_ray_names_all_its_gpus_and_all_are_known_to_have_it(
    nodes: list[dict[str, float]], found: bool, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    @contextmanager
    def session(resources: object, address: object, **_: object) -> Any:
        asked.append(address)
        yield

    gone = {"Alive": False, "Resources": {"GPU": 1.0, "accelerator_type:K80": 1.0}}
    monkeypatch.setattr(cluster_session, "ray_session", session)
    monkeypatch.setattr("ray.is_initialized", lambda: joined)
    monkeypatch.setattr("ray.nodes", lambda: [gone, *({"Alive": True, "Resources": each} for each in nodes)])
    assert bf16_at(CLUSTER) == found and asked == ([] if joined else [CLUSTER])


@pytest.mark.parametrize(
    ("capabilities", "wish", "precision", "device"),
    [
        ([], None, "fp32", "the CPU in fp32 (precision auto: bf16 is for GPUs)"),
        ([(9, 0)], 0, "fp32", "the CPU in fp32 (as asked for; precision auto: bf16 is for GPUs)"),
        ([(9, 0)], 1, "bf16", "a whole GPU in bf16 (as asked for; precision auto: the GPUs have bf16)"),
        (
            [(7, 5)],
            0.5,
            "fp32",
            "1/2 of a GPU in fp32 (as asked for; precision auto: a GPU may lack bf16)",
        ),
        (
            [(8, 6)],
            None,
            "bf16",
            "a share of a GPU in bf16 (a pilot trial measures it; precision auto: the GPUs have bf16)",
        ),
    ],
)
def test_auto_is_resolved_when_the_run_is_planned_and_says_why(
    capabilities: list[tuple[int, int]], wish: Any, precision: str, device: str, cards: Cards, tmp_path: Path
) -> None:
    cards(*capabilities)
    plan = plan_search(request_of(tmp_path, gpus_per_trial=wish))
    shown = preview_plan(plan, None)
    assert plan.spec.protocol.precision == precision
    assert shown.device == shown.as_dict()["device"] == device
    assert plan.spec.trial_config(0, {}, cache=None).precision == precision
    asked = plan_search(request_of(tmp_path, precision, gpus_per_trial=wish)).spec
    assert asked.protocol == plan.spec.protocol and asked.resources.precision_from is None


@pytest.mark.parametrize(("there", "named", "precision"), [(0, True, "fp32"), (2, True, "bf16"), (2, False, "fp32")])
def test_auto_goes_by_the_gpus_of_the_cluster_and_not_by_those_of_the_driver(
    there: int, named: bool, precision: str, cards: Cards, tmp_path: Path
) -> None:
    cards(*([] if named else [(9, 0)]))
    asked: list[str | None] = []

    def bf16(address: str | None) -> bool:
        asked.append(address)
        return named

    plan = plan_search(request_of(tmp_path, address=CLUSTER), gpus=lambda address: there, bf16=bf16)
    assert plan.spec.protocol.precision == precision
    assert asked == ([CLUSTER] if there else [])  # it is joined only where the answer matters
    plan_search(request_of(tmp_path, "bf16", address=CLUSTER), gpus=lambda address: 2, bf16=bf16)
    assert len(asked) == bool(there)


def test_auto_holds_on_each_of_several_benchmarks(cards: Cards, tmp_path: Path) -> None:
    cards((9, 0))
    request = SearchRequest("digits,letters", "finetune", precision="auto", gpus_per_trial=1, storage=tmp_path)
    spec = plan_search(request).spec
    assert isinstance(spec, MultiSearchSpec)
    assert {each.protocol.precision for each in (spec, *spec.parts.values())} == {"bf16"}


def test_run_file_best_file_record_and_final_run_have_what_auto_became(cards: Cards, tmp_path: Path) -> None:
    cards((9, 0))
    plan = plan_search(request_of(tmp_path, gpus_per_trial=1, name="s"))
    spec, directory = make_run_directory(plan.spec, plan.storage)
    assert read_spec(directory).protocol.precision == "bf16"
    assert "precision: auto" not in directory.spec_file.read_text()
    assert read_spec(directory).resources.precision_from == "auto"
    best = unsearched_best_file(spec)
    assert (best.protocol.precision, best.device) == ("bf16", spec.device)
    record = record_of(spec, directory)
    record.write(make_trial(0))
    assert set(record.table().column("precision").to_pylist()) == {"bf16"}
    cards()
    final = plan_training(TrainRequest(best, storage=tmp_path)).spec
    assert (final.protocol.precision, final.resources.precision_from) == ("bf16", None)


def test_a_run_that_goes_on_keeps_its_precision_on_other_gpus(cards: Cards, tmp_path: Path) -> None:
    cards((9, 0))

    def planned(name: str = "s", precision: str = "auto") -> Plan[SearchSpec]:
        return plan_search(request_of(tmp_path, precision, gpus_per_trial=1, name=name, resume_if_exists=True))

    first, named = (make_run_directory(each.spec, each.storage)[0] for each in (planned(), planned("named", "bf16")))
    cards((7, 5))
    assert planned().continued() == first
    assert planned("named").continued() == named  # which was not chosen by the GPUs
    asked = plan_search(request_of(tmp_path, "fp32", gpus_per_trial=1, name="s", resume_if_exists=True))
    with pytest.raises(InputError, match="protocol.precision was bf16, is now fp32"):
        asked.continued()
    on_cpu = continued_resources(first, 0, None, None)
    moved = first.model_copy(update={"resources": on_cpu})
    assert moved.device == "the CPU in bf16 (as asked for; precision auto: as the run began)"
    assert continued_resources(first, None, None, None).precision_from == "auto"


def test_cells_of_a_campaign_have_what_auto_became_and_the_gpus_are_asked_about_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: 2)
    monkeypatch.setattr("tausearch.campaigns.plans.bf16_at", lambda address: asked.append(address) or True)
    file = tmp_path / "t.yaml"
    options = "search: {trials: 2, precision: auto}\ntrain: {seeds: [0]}\n"
    file.write_text(f"campaign: t\nbenchmarks: [digits]\nmethods: [finetune, ewc]\n{options}")
    plan = plan_campaign(CampaignRequest(file, storage=tmp_path / "runs", address="auto"))
    specs = [spec for cell in plan.cells for spec in cell.specs]
    assert {spec.protocol.precision for spec in specs} == {"bf16"} and len(specs) == 4 and asked == ["auto"]


ON_CPU = "tf32: trials run on the CPU, and TF32 is for GPUs; allowed on a CPU: fp32, bf16$"


@pytest.mark.parametrize(
    ("capabilities", "options", "message"),
    [
        ([], {}, f"^--precision {ON_CPU}"),
        ([(9, 0)], {"gpus_per_trial": 0}, f"^--precision {ON_CPU}"),
        ([], {"gpus_per_trial": 0, "address": CLUSTER}, f"^--precision {ON_CPU}"),
        ([], {"address": CLUSTER}, f"^--precision {ON_CPU}"),
        (
            [(9, 0), (7, 0)],
            {},
            "^--precision tf32: not every GPU of this machine has TF32; allowed on them: fp32, bf16$",
        ),
    ],
)
def test_tf32_is_refused_where_it_would_be_float32(
    capabilities: list[tuple[int, int]], options: dict[str, Any], message: str, cards: Cards, tmp_path: Path
) -> None:
    cards(*capabilities)
    with pytest.raises(InputError, match=message):
        plan_search(request_of(tmp_path, "tf32", **options), gpus=lambda address: 0 if address else len(capabilities))
    assert not list(tmp_path.iterdir())


def test_tf32_is_refused_with_all_that_is_wrong_before_images_are_read(cards: Cards, tmp_path: Path) -> None:
    cards()
    request = SearchRequest("digits", "fintune", precision="tf32", storage=tmp_path)
    with pytest.raises(InputError) as caught:
        plan_search(request)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()][1:] == ["--precision tf32"]


def test_a_search_in_tf32_is_trained_and_resumed_on_gpus_that_have_it(cards: Cards, tmp_path: Path) -> None:
    cards((8, 0))
    spec = plan_search(request_of(tmp_path, "tf32", gpus_per_trial=1)).spec
    assert spec.device == "a whole GPU in tf32 (as asked for)"
    best = unsearched_best_file(spec)
    assert plan_training(TrainRequest(best, storage=tmp_path)).spec.protocol.precision == "tf32"
    opened: list[object] = []
    with pytest.raises(InputError, match=f"^best file: protocol.precision {ON_CPU}"):
        plan_training(TrainRequest(best, gpus_per_trial=0, storage=tmp_path), lambda *_: opened.append(_))  # type: ignore[arg-type,return-value]
    assert not opened
    with pytest.raises(InputError, match=f"^run {spec.name!r}: protocol.precision {ON_CPU}"):
        continued_resources(spec, 0, None, None)
    assert continued_resources(spec, 0.5, None, None) == Resources(gpus_per_trial=0.5, gpus_from="request")
    cards((7, 5))
    for wish in (None, 1):
        with pytest.raises(InputError, match=r"protocol\.precision tf32: not every GPU of this machine has TF32"):
            continued_resources(spec, wish, None, None)
    on_cluster = plan_search(request_of(tmp_path, "tf32", address=CLUSTER), gpus=lambda address: 1)
    assert on_cluster.spec.protocol.precision == "tf32"  # whatever GPUs this machine has
