"""Plans: what a method cannot run on is refused before anything is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import timm
from optuna.exceptions import ExperimentalWarning
from safetensors.torch import save_file

from checked_input.ranges import TRIALS
from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.api.plans.new_runs import benchmark_text, earlier_search
from tausearch.api.plans.trial_counts import MOST_GP_TRIALS, require_enough
from tausearch.runs import Reevaluate, SearchSpec, Storage, TrialSummary
from tausearch.runs.creation import make_run_directory
from tausearch.studies import requested_reevaluation, unsearched_best_file
from tausearch.studies.best_file import make_best_file
from trainables.backbones import Backbone, glyph_vit
from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.errors import InputError
from trainables.methods import METHODS, Scenario
from trainables.methods.sequential.finetune import FinetuneConfig
from trainables.sequence import IncrementalSequence

TASKS = (range(2), range(2, 4), range(4, 6), range(6, 8), range(8, 10))
SCENARIOS: list[Scenario] = []
BRUTE = "optuna:BruteForceSampler"


def is_picky(config: FinetuneConfig, scenario: Scenario) -> None:
    SCENARIOS.append(scenario)
    if config.lr * scenario.num_tasks > 0.1 * scenario.backbone.shape.width / 64:
        raise InputError(f"picky: lr {config.lr:g} is too much for {scenario.num_tasks} tasks")
    if config.optimizer == "sgd":
        raise InputError("picky: sgd is out of fashion")


@pytest.fixture
def picky() -> Iterator[None]:
    SCENARIOS.clear()
    entry = dataclasses.replace(
        METHODS["finetune"],
        validate=is_picky,
        build=mock.Mock(wraps=METHODS["finetune"].build),
    )
    with mock.patch.dict(METHODS, finetune=entry):
        yield


@pytest.mark.usefixtures("picky")
@pytest.mark.parametrize(
    ("space", "refused"),
    [
        ("lr: {low: 0.001, high: 0.02, grid: [0.01]}", None),
        ("lr: {low: 0.001, high: 0.03, grid: [0.01]}", "lr 0.03 is too much for 5 tasks"),
        ("optimizer: {choices: [adamw, sgd]}\n  lr: {low: 0.001, high: 0.02, grid: [0.01]}", "sgd is out of fashion"),
    ],
)
def test_a_search_is_refused_where_a_value_of_its_space_cannot_run(
    space: str, refused: str | None, tmp_path: Path
) -> None:
    file, storage = tmp_path / "space.yaml", tmp_path / "runs"
    file.write_text(f"space:\n  {space}\nstart:\n  default: {{lr: 0.01}}\n")
    request = SearchRequest("digits", "finetune", space=file, storage=storage)
    if refused is None:
        assert plan_search(request).spec.steps == 5
    else:
        with pytest.raises(InputError, match=refused):
            plan_search(request)
        assert not storage.exists()
    assert {scenario.task_classes for scenario in SCENARIOS} == {TASKS}


@pytest.mark.usefixtures("picky")
def test_a_final_run_is_refused_where_its_configuration_cannot_run(tmp_path: Path) -> None:
    spec = plan_search(SearchRequest("digits", "finetune", set={"lr": 0.01}, storage=tmp_path)).spec
    best = make_best_file(spec, TrialSummary(0, 0, "complete", {"lr": 0.01}, value=50.0), competitors=1)
    assert plan_training(TrainRequest(best, storage=tmp_path)).spec.fixed["lr"] == 0.01
    with pytest.raises(InputError, match=r"lr 0\.03 is too much for 5 tasks"):
        plan_training(TrainRequest(best, set={"lr": 0.03}, storage=tmp_path))


@pytest.mark.usefixtures("picky")
def test_a_trial_is_refused_before_its_method_is_made() -> None:
    benchmark = build_benchmark(get_source("digits"), "search")
    with pytest.raises(InputError, match="too much for 5 tasks"):
        IncrementalSequence(benchmark, "finetune", {"lr": 0.03}, backbone=Backbone())
    METHODS["finetune"].build.assert_not_called()  # type: ignore[attr-defined]


def test_a_method_of_all_tasks_at_once_has_one() -> None:
    scenario = METHODS["joint"].scenario(get_source("digits").spec, Backbone())
    assert scenario.task_classes == (range(10),) and (scenario.num_tasks, scenario.num_classes) == (1, 10)


def test_a_plan_has_the_usual_name_and_number_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.safetensors").write_bytes(glyph_vit.WEIGHTS.read_bytes())
    plan = plan_search(SearchRequest("digits", "finetune", backbone_weights="w.safetensors", storage=tmp_path / "runs"))
    assert (plan.spec.name, plan.spec.trials) == ("digits-finetune-1", 12)
    assert plan.spec.protocol.backbone_weights == str(tmp_path / "w.safetensors")  # a worker has another folder
    whole = plan_search(SearchRequest("digits", "ewc", algorithm="grid", storage=tmp_path / "runs")).spec
    assert whole.trials == 18
    final = plan_training(TrainRequest(unsearched_best_file(whole), storage=tmp_path / "runs")).spec
    assert (final.name, final.seeds, final.source, final.tuned_on) == ("digits-ewc-final-1", (0, 1, 2), None, None)


@pytest.mark.parametrize(
    ("asked", "benchmark", "measured"),
    [
        ({"constraint": ("forgetting <= 5",)}, None, False),
        ({"constraint": ("forgetting <= 5", "removability/rest <= 3")}, None, True),
        ({"constraint": ("removability >= 20",)}, "digits?tasks=1", False),  # there is no other task
        ({"objective": ("final_accuracy", "forgetting")}, None, False),
        ({"objective": ("final_accuracy", "removability/rest")}, None, True),
    ],
)
def test_a_final_run_measures_the_removability_that_its_search_has_bounded_or_aimed_at(
    asked: dict[str, Any], benchmark: str | None, measured: bool, tmp_path: Path
) -> None:
    spec = plan_search(SearchRequest("digits", "ita-lora", storage=tmp_path, **asked)).spec
    row = {"task": 5.0, **{each.metric: 5.0 for each in spec.objectives}}
    trial = TrialSummary(0, 0, "complete", {**spec.fixed, **spec.start}, [row], 50.0)
    best = make_best_file(spec, trial, competitors=1)
    final = plan_training(TrainRequest(best, benchmark=benchmark, storage=tmp_path)).spec
    assert final.removability == final.trial_config(0, {}, cache=None).removability == measured
    assert not plan_training(TrainRequest(unsearched_best_file(spec), storage=tmp_path)).spec.removability


def test_only_a_search_that_goes_on_has_an_earlier_one(tmp_path: Path) -> None:
    request = SearchRequest("digits", "finetune", name="s", storage=tmp_path)
    directory = make_run_directory(plan_search(request).spec, Storage(tmp_path))[1]
    (tmp_path / "empty").mkdir()
    assert earlier_search(request) is earlier_search(replace(request, name="empty", resume_if_exists=True)) is None
    assert earlier_search(replace(request, resume_if_exists=True)) == directory


def test_a_sampler_that_tries_each_point_once_gets_no_more_trials_than_there_are_points(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"

    def planned(least: int, trials: int | None = None, algorithm: str = BRUTE) -> int:
        space = f"space: {{epochs_pre: {{low: {least}, high: 20, integer: true, grid: [20]}}}}"
        own.write_text(f"{space}\nstart: {{default: {{epochs_pre: 20}}}}\nfixed: {{default: {{lr_pre: 0.1}}}}\n")
        request = SearchRequest("digits", "probe", space=own, algorithm=algorithm, trials=trials, storage=tmp_path)
        return plan_search(request).spec.trials

    with pytest.warns(ExperimentalWarning):
        assert [planned(least) for least in (18, 9, 1)] == [3, 12, 12] and planned(1, 20) == 20
        with pytest.raises(
            InputError, match=f"^--trials 4: {BRUTE} tries each point of the space once, and it has 3 p"
        ):
            planned(18, 4)
    assert planned(18, 4, "random") == 4


def test_the_most_trials_are_allowed(spec: SearchSpec) -> None:
    for trials, algorithm, points in ((MOST_GP_TRIALS, "gp", None), (18, "grid", 18), (6, BRUTE, 6)):
        require_enough(trials, algorithm, points, spec)
        with pytest.raises(InputError, match=f"^--trials {trials + 1}: "):
            require_enough(trials + 1, algorithm, points, spec)
    require_enough(None, "grid", int(TRIALS.high), spec)
    with pytest.raises(InputError, match="^the grid has "):
        require_enough(None, "grid", int(TRIALS.high) + 1, spec)


def test_the_options_about_a_benchmark_go_into_its_name() -> None:
    given: dict[str, Any] = {"tasks": 2, "class_order": 0, "epochs": 3, "partial": True, "skip_broken": True}
    request = SearchRequest("parquet:/x", "finetune", variant="v", label_column="fine", **given)
    found = BenchmarkRef.parse(benchmark_text(request))
    assert {name: getattr(found, name) for name in given} == given
    assert (found.name, found.variant, found.label_column) == ("parquet:/x", "v", "fine")
    own = "parquet:/x?class_order=0&epochs=3&label_column=fine&partial=yes&skip_broken=yes&tasks=2&variant=v"
    assert BenchmarkRef.parse(benchmark_text(SearchRequest(own, "finetune"))) == found


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("epochs=1", {"epochs": 2}, ["--epochs 2: benchmark 'digits?epochs=1' has epochs=1; give it once"]),
        (
            "tasks=2&class_order=0",
            {"tasks": 5, "class_order": "label"},
            [
                "--tasks 5: benchmark 'digits?tasks=2&class_order=0' has tasks=2; give it once",
                "--class-order label: benchmark 'digits?tasks=2&class_order=0' has class_order=0; give it once",
            ],
        ),
        (
            "task=0,1&task=a=2,3",
            {"task": ("1,0", "a=2,3")},
            ["--task 1,0 a=2,3: benchmark 'digits?task=0,1&task=a=2,3' has task=0,1 a=2,3; give it once"],
        ),
        ("variant=x", {"variant": "y"}, ["--variant y: benchmark 'digits?variant=x' has variant=x; give it once"]),
        (
            "label_column=x",
            {"label_column": "y"},
            ["--label-column y: benchmark 'digits?label_column=x' has label_column=x; give it once"],
        ),
        ("classes_per_task=2", {"classes_per_task": 2, "class_order": "label", "partial": True}, []),
        ("task=0,1&task=2,3&skip_broken=yes", {"task": ("0,1", "2,3"), "skip_broken": True}, []),
        ("class_order=1,0", {"class_order": ("1", "0"), "epochs": 3}, []),
        ("partial=yes&class_order=0", {"class_order": 0}, []),
    ],
)
def test_an_option_has_one_value_in_a_request_and_in_the_name_of_its_benchmark(
    name: str, given: dict[str, Any], said: list[str]
) -> None:
    request = SearchRequest(f"digits?{name}", "finetune", **given)
    if not said:
        assert all(part in benchmark_text(request) for part in name.split("&"))
        return
    with pytest.raises(InputError) as refused:
        benchmark_text(request)
    assert list(refused.value.args) == said


@pytest.mark.parametrize("trials", [None, 1])
def test_one_configuration_is_tried_once(trials: int | None, tmp_path: Path) -> None:
    request = SearchRequest("digits", "finetune", set={"lr": 0.01}, trials=trials, storage=tmp_path)
    assert plan_search(request).spec.trials == 1


def test_what_leaves_nothing_to_search_is_said(tmp_path: Path) -> None:
    said = r"^--trials 4: every hyperparameter is fixed \(no effect: lr_pre with epochs_pre=0\), so there is one conf"
    with pytest.raises(InputError, match=said):
        plan_search(SearchRequest("digits", "probe", set={"epochs_pre": 0}, trials=4, storage=tmp_path))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"set": {"lr": 0.01}, "trials": 2}, "--trials 2: every hyperparameter is fixed"),
        ({"patience": 6, "trials": 6}, "--patience 6: cannot end a search of 6 trials; name fewer"),
        ({"algorithm": "best"}, "unknown algorithm 'best'; allowed: tpe"),
        ({"scheduler": "sha"}, "unknown scheduler 'sha'; allowed: "),
        ({"precision": "fp16"}, "unknown precision 'fp16'; allowed: fp32, tf32, bf16, auto"),
        ({"gpus_per_trial": "auto"}, "--gpus-per-trial auto: this machine has no GPU"),
        ({"gpus_per_trial": 0.25}, "--gpus-per-trial 0.25: this machine has no GPU"),
        ({"gpus_per_trial": 1}, "--gpus-per-trial 1: this machine has no GPU"),
        ({"algorithm": "gp", "scheduler": "asha"}, "--scheduler asha: gp learns nothing from trials that were stopped"),
    ],
)
def test_what_cannot_be_is_refused(
    given: dict[str, Any], message: str, tmp_path: Path, gpus: Callable[[int], None]
) -> None:
    gpus(0)
    with pytest.raises(InputError, match=message):
        plan_search(SearchRequest("digits", "finetune", storage=tmp_path, **given))


@pytest.mark.parametrize(
    ("asked", "reevaluate"),
    [
        ({}, Reevaluate(best=3, runs=2, start=True)),
        ({"trials": 11}, None),
        ({"trials": 12, "reevaluate_runs": 3}, Reevaluate(best=3, runs=3, start=True)),
        ({"trials": 11, "reevaluate": 2}, Reevaluate(best=2, runs=2, start=True)),
        ({"reevaluate": 0}, None),
    ],
)
def test_a_search_reevaluates_by_itself_where_trials_take_seconds(
    asked: dict[str, Any], reevaluate: Reevaluate | None, tmp_path: Path
) -> None:
    assert plan_search(SearchRequest("digits", "ita-lora", storage=tmp_path, **asked)).spec.reevaluate == reevaluate


def test_another_number_of_trials_is_reevaluated_with_as_many_runs_as_before() -> None:
    assert requested_reevaluation(4, None, 12, Reevaluate(best=3, runs=5)) == Reevaluate(best=4, runs=5, start=True)
    assert requested_reevaluation(4, 3, 12, Reevaluate(best=3, runs=5)) == Reevaluate(best=4, runs=3, start=True)


def test_a_search_with_another_backbone_reevaluates_when_it_is_asked_to(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    save_file(timm.create_model("vit_tiny_patch16_224", num_classes=0).state_dict(), weights)
    request = SearchRequest(
        "digits", "ita-lora", backbone="vit_tiny_patch16_224", backbone_weights=weights, storage=tmp_path / "runs"
    )
    assert plan_search(request).spec.reevaluate is None
