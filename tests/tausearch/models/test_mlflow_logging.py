"""What MLflow gets of a composition and of the paper's protocol, what it registers, and which rule merges."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tausearch import compose
from tausearch.api import composition
from tausearch.models import CompositionResult, EvaluationResult, RuleSearch, describe_run, evaluation, mlflow_logging
from tausearch.models.evaluation import evaluate, evaluate_pools, merging_rule, n_evaluations
from tausearch.models.evaluation_results import EvaluatedSeed
from tausearch.models.exports import _unnamed
from tausearch.models.merge_configs import MergeConfig, rule_words, uniform
from tausearch.models.rule_search.results import RuleTrial
from tausearch.presentation import LongWork
from tausearch.runs import RunDirectory, Storage, read_spec
from tests.support.runs.trials import final_spec, search_spec
from tests.tausearch.models.test_removal_report import forgotten, report
from trainables.data import Removal
from trainables.errors import InputError
from trainables.task_names import NamedTask


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is written: the label, the metrics, the tags."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(mlflow_logging, "track_composition", lambda _, __, *rest: found.append(rest))
    return found


def result_of(label: str, **more: Any) -> CompositionResult:
    about = {"label": label, "runs": ("a",), "benchmark": "digits", "seeds": (0,), "weights": (1.0,)}
    return CompositionResult(**{**about, "accuracies": ((60.0,),), **more})


def log(result: CompositionResult | EvaluationResult) -> None:
    mlflow_logging._log_result(final_spec(search_spec()), Storage("x"), result)


def test_a_composition_has_means_deviations_and_six_digits_of_each_weight(told: list[tuple[Any, ...]]) -> None:
    measured = {"seeds": (0, 1), "weights": (1 / 3, -0.5), "accuracies": ((60.0, 40.0), (64.0, 40.0))}
    log(result_of("l", runs=("a:1", "b:2"), rule="ties", rule_parameters={"density": 0.2}, **measured))
    ((label, metrics, tags),) = told
    assert label == "l" and tags == {"rule": "ties", "weights": "0.333333,-0.5", "composition.sources": "a:1,b:2"}
    assert metrics == {
        **{"test/accuracy/task_1/mean": 62.0, "test/accuracy/task_1/std": pytest.approx(8**0.5)},
        **{"test/accuracy/task_2/mean": 40.0, "test/accuracy/task_2/std": 0.0},
        **{"test/final_accuracy/mean": 51.0, "test/final_accuracy/std": pytest.approx(2**0.5)},
    }


def test_a_search_for_a_rule_has_its_validation_accuracies(told: list[tuple[Any, ...]]) -> None:
    trials = (
        RuleTrial(parameters={"density": 0.2}, accuracies=(80.0,)),
        RuleTrial(parameters={"density": 0.5}, accuracies=(90.0,)),
    )
    search = RuleSearch(seed=3, searched=("density",), images=20, trials=trials, chosen=1, plain_sum=(85.0,))
    log(result_of("l", search=search))
    ((_, metrics, tags),) = told
    assert tags["search"] == "2 trials, seed 3" and metrics["test/final_accuracy/mean"] == 60.0
    means = [metrics[f"val/final_accuracy/{name}/mean"] for name in ("chosen", "defaults", "plain_sum")]
    assert means == [90.0, 80.0, 85.0]


def test_the_protocol_has_its_tables_and_one_seed_has_no_deviation(told: list[tuple[Any, ...]]) -> None:
    unlearned = dict.fromkeys(("drop", "negate", "subtract"), ((10.0, 80.0), (70.0, 20.0)))
    seed = EvaluatedSeed(seed=0, whole=(60.0, 40.0), specialised=(62.0, 42.0), unlearned=unlearned)
    result = EvaluationResult(run="r", benchmark="digits", methods=("ita-lora",), kept=(1, 2), seeds=(seed,))
    log(result)
    ((label, metrics, tags),) = told
    assert (label, tags) == ("evaluation", {"kept": "1,2"})
    assert metrics["unlearning/subtract/target_gain/mean"] == -35.0 and metrics["specialisation/target/mean"] == 52.0
    assert "specialisation/control/mean" not in metrics and not [name for name in metrics if name.endswith("/std")]
    some = result.model_copy(update={"label": "evaluation-seeds-0"})
    for each in (some, result):  # the run has had one seed when all of them were evaluated
        mlflow_logging._log_result(final_spec(search_spec(), trials=2, seeds=(0, 1)), Storage("x"), each)
    assert [label for label, *_ in told[1:]] == ["evaluation-seeds-0", "evaluation"]


def test_all_compositions_and_the_protocol_are_brought_up_to_date(told: list[tuple[Any, ...]], tmp_path: Path) -> None:
    directory, spec = RunDirectory(tmp_path), final_spec(search_spec())
    for label in ("keep-1", "uniform"):
        result_of(label).save(directory)
    mlflow_logging.log_compositions(spec, directory, Storage("x"))
    assert [label for label, *_ in told] == ["keep-1", "uniform"]
    unlearned = dict.fromkeys(("drop", "negate", "subtract"), ((10.0,),))
    seed = EvaluatedSeed(seed=0, whole=(60.0,), specialised=(60.0,), unlearned=unlearned)  # of one task: no others
    EvaluationResult(run="r", benchmark="digits", methods=("ita-lora",), kept=(1,), seeds=(seed,)).save(directory)
    mlflow_logging.log_compositions(spec, directory, Storage("x"))
    assert [label for label, *_ in told[2:]] == ["keep-1", "uniform", "evaluation"]
    assert told[-1][1].keys() == {
        "specialisation/target/mean",  # no gain, as all tasks are kept
        *(f"unlearning/{mode}/{name}/mean" for mode in unlearned for name in ("target", "target_gain")),
    }


@pytest.mark.parametrize(
    ("tracking", "written"),
    [(None, True), (("tensorboard", "mlflow"), True), (("tensorboard",), False), ((), False)],
)
def test_only_a_run_that_mlflow_tracks_is_written_there(
    tracking: Any, written: bool, told: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = final_spec(search_spec(), tracking=tracking)
    arguments = (spec, RunDirectory(tmp_path), Storage("x"), result_of("l"))
    assert mlflow_logging.try_to_log(*arguments) is None and (told != []) == written

    def away(*_: object) -> None:
        raise OSError("no server")

    monkeypatch.setattr(mlflow_logging, "track_composition", away)
    assert mlflow_logging.try_to_log(*arguments) == ("no server" if written else None)


def test_a_composition_without_classes_has_their_places_and_no_names(told: list[tuple[Any, ...]]) -> None:
    log(result_of("forget", removal=report(forgotten(3), forgotten(5)).model_copy(update={"tasks": (2,)})))
    ((_, metrics, tags),) = told
    assert tags["removed"] == "class 3, class 5" and "test/accuracy/task_2/mean" in metrics


def test_a_rule_draws_by_the_seed_and_the_weighted_sum_has_none() -> None:
    rule = merging_rule(uniform(2).merged_by("dare", {"density": 0.25}), 7)
    assert rule is not None and (rule.name, rule.parameters, rule.seed) == ("dare", {"density": 0.25}, 7)
    assert merging_rule(uniform(2), 7) is None
    several = {"b": 2.0, "a": 0.25}  # in the order of the rule
    assert uniform(2).merged_by("m:Mine", several).label == "uniform-m.Mine-2-0.25"
    assert rule_words("m:Mine", several) == "m:Mine, b 2, a 0.25"


@pytest.mark.parametrize(
    ("named", "unnamed"),
    [
        ("folder:/x/animals?tasks=3&class_order=5", "folder:/x/animals?tasks=3&class_order=5"),
        ("digits?class_order=3,1,0,2,4,5,6,7,8,9", "digits"),
        ("digits", "digits"),
        ("digits?task=even=0,2,4&task=7,9&epochs=2", "digits?epochs=2"),
        ("digits?class_order=1,0&tasks=2", "digits?tasks=2"),
        ("folder:/x/animals?task=owl,cat&task=ape,elk", "folder:/x/animals"),
    ],
)
def test_a_benchmark_without_names_keeps_the_seed_of_its_order(named: str, unnamed: str) -> None:
    assert _unnamed(named) == unnamed


TASKS = (NamedTask(("x", "y")), NamedTask(("z",), "named"), NamedTask(("w",)))


def pools_of(*texts: str, seeds: Sequence[int] = (0, 1), every: Sequence[int] = (0, 1), threads: int = 1) -> Any:
    """What an evaluation asks of pools of three tasks, whose vectors are 1, 2 and 3."""

    class Pool(list[int]):
        """Vectors without a classifier."""

        def head(self) -> None:
            return None

    sources = [
        SimpleNamespace(text=text, every_seed=every, benchmark="digits", methods=("m",)) for text in texts or "r"
    ]
    images = [SimpleNamespace(labels=range(4))] * 3
    network = SimpleNamespace(compose=lambda *_: None, require_allowed=lambda _: None, adds_up=False)
    about = {"threads": threads, "tasks": 3, "device": "cpu", "sources": sources, "network": network}
    about["backbone"] = SimpleNamespace(name="glyph_vit")
    benchmark = SimpleNamespace(spec=SimpleNamespace(named_tasks=TASKS), evaluation=images)
    return SimpleNamespace(by_seed={seed: Pool([1, 2, 3]) for seed in seeds}, benchmark=benchmark, **about)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Evaluate nothing; what is counted of it, and the threads that each evaluation has."""
    monkeypatch.setattr(evaluation, "accuracy", lambda *_: float(torch.get_num_threads()))
    return []


@pytest.mark.parametrize(
    ("pools", "label"),
    [
        (pools_of(), "uniform"),
        (pools_of("r:1,2,3"), "uniform"),
        (pools_of("runs/a:1", "b:2,3"), "uniform-of-runs_a:1+b:2,3"),
        (pools_of(seeds=(1, 0)), "uniform"),
        (pools_of(seeds=(0, 1), every=(0, 1, 2)), "uniform-seeds-0,1"),
        (pools_of("a:1", "b:2,3", seeds=(1,)), "uniform-of-a:1+b:2,3-seeds-1"),
    ],
)
def test_a_label_says_of_which_runs_and_seeds_unless_they_are_one_and_all(
    pools: Any, label: str, counts: list[int]
) -> None:
    result = evaluate(pools, uniform(3), counts.append)
    assert result.label == label and result.task_names == ("x, y", "named", "w")
    seeds = label.partition("-seeds-")[1:]  # an evaluation of some would stand beside the deviations of all
    assert evaluate_pools(pools, lambda count: None).label == "".join(("evaluation", *seeds))
    assert sum(counts) == 3 * len(pools.by_seed)


def test_evaluations_compute_with_the_threads_of_the_run_and_are_counted(counts: list[int]) -> None:
    wanted = torch.get_num_threads() + 1
    pools = pools_of(threads=wanted)
    assert evaluate(pools, uniform(3), lambda count: None).accuracies == ((float(wanted),) * 3,) * 2
    result = evaluate_pools(pools, counts.append)
    assert result.seeds[1].whole == (float(wanted),) * 3 and sum(counts) == n_evaluations(3, 2)
    assert torch.get_num_threads() == wanted - 1


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_the_bar_of_the_protocol_is_full_at_its_end(
    seeds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[list[int]] = []
    monkeypatch.setattr(LongWork, "start", lambda _, name, total: bars.append([total]) or bars[-1].append)
    pools = pools_of(seeds=seeds)
    pools.sources[0].directory = None  # it is kept nowhere
    composition._evaluate(Storage(tmp_path), pools)
    ((total, *done),) = bars
    assert total == sum(done) > 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_logit_that_is_not_finite_is_an_error(value: float) -> None:
    pools = pools_of("a", "b")
    pools.network.predict = lambda images: images
    assert evaluation.finite_logits(pools, torch.ones(2, 2)).sum() == 4
    with pytest.raises(InputError, match="a, b: the composition is not finite"):
        evaluation.finite_logits(pools, torch.tensor([[1.0, 2.0], [3.0, value]]))


def test_a_rule_looks_for_the_curvatures_of_all_that_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[list[int]] = []
    rule = SimpleNamespace(reads_curvatures=True, require_curvatures=lambda vectors: looked.append(list(vectors)))
    monkeypatch.setattr(evaluation, "merging_rule", lambda merge, seed: rule)
    pools, merge = pools_of(), MergeConfig("w", (0.5, 0.0, -0.5), "fisher")
    evaluation.require_mergeable(pools, merge, None, False)
    assert looked == [[1, 3]] * 2  # of every seed
    removal = Removal((range(2), range(2, 3), range(3, 4)), frozenset({2}))
    evaluation.require_mergeable(pools, merge, removal, True)
    assert looked[2:] == [[1, 2, 3]] * 2
    with pytest.raises(InputError, match="--forget: rule 'fisher' reads curvatures"):
        evaluation.require_mergeable(pools, merge, removal, False)
    rule.reads_curvatures = False
    evaluation.require_mergeable(pools, merge, removal, False)
    assert len(looked) == 4


@pytest.mark.parametrize("tracking", [(), ("tensorboard",)])
def test_a_version_is_refused_before_the_work_where_mlflow_has_no_run(
    tracking: tuple[str, ...], made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition.models, "evaluate", lambda *_: pytest.fail("it was evaluated"))
    spec = read_spec(made.run("ita")).model_copy(update={"tracking": tracking})
    monkeypatch.setattr(composition, "_run_of", lambda pools: (spec, made.run("ita")))
    first = f"runs sync ita --storage {made.root} --tracking mlflow"
    with pytest.raises(InputError, match=f"--register: MLflow does not have ita; first: .*{first}"):
        compose(["ita"], register=True, storage=made.root)


def test_a_version_is_refused_before_the_work_where_the_run_cannot_be_written(
    made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition.models, "evaluate", lambda *_: pytest.fail("it was evaluated"))
    spec, closed = read_spec(made.run("ita")).model_copy(update={"tracking": ("mlflow",)}), RunDirectory(tmp_path)
    closed.compositions.touch()  # in the place of the folder
    monkeypatch.setattr(composition, "_run_of", lambda pools: (spec, closed))
    with pytest.raises(InputError, match="--register .*compositions: cannot be written"):
        compose(["ita"], register=True, storage=made.root)


@pytest.mark.parametrize(
    ("file", "error", "said"),
    [
        (Path("f"), "no server", r"MLflow cannot be written \(no server\)"),
        (None, None, "needs a run that can be written"),
    ],
)
def test_a_version_is_registered_only_where_mlflow_has_what_is_evaluated(
    file: Path | None, error: str | None, said: str, made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "register_model", lambda *_: pytest.fail("it was registered"))
    spec = read_spec(made.run("ita"))
    pools: Any = SimpleNamespace(sources=[SimpleNamespace(spec=spec, directory=made.run("ita"))])
    result: Any = SimpleNamespace(registered=(), removal=None)
    with pytest.raises(InputError, match=f"--register: {said}"):
        composition._register(made, pools, result, file, error)


def test_a_composition_is_registered_by_its_label_and_an_error_of_mlflow_is_said(
    made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: Any = SimpleNamespace(sources=[SimpleNamespace(spec=read_spec(made.run("ita")), directory=made.run("ita"))])
    result: Any = SimpleNamespace(label="forget")
    registered: list[tuple[object, ...]] = []
    monkeypatch.setattr(composition, "_exported", lambda *_: nullcontext("folder"))
    monkeypatch.setattr(composition, "register_model", lambda *about: registered.append(about[2:]))
    composition._register(made, pools, result, Path("f"), None)
    assert registered == [("forget", "folder")]
    monkeypatch.setattr(composition, "register_model", Mock(side_effect=OSError("no server")))
    with pytest.raises(InputError, match=r"MLflow cannot be written \(no server\); .*tausearch runs sync ita"):
        composition._register(made, pools, result, Path("f"), None)


def test_what_mlflow_lacks_of_the_registered_compositions_is_composed_of_the_same_runs_and_seeds(
    made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {"there": ("timm",), "lost": ("timm",), "never": None}
    runs = ("ita:1", "iel:2")
    results = [result_of(label, runs=runs, seeds=(1,), registered=forms) for label, forms in labels.items()]
    done: list[object] = []
    monkeypatch.setattr(composition.models, "read_compositions", lambda directory: results)
    monkeypatch.setattr(composition, "is_registered", lambda spec, storage, label: label == "there")
    monkeypatch.setattr(composition, "open_pools", lambda sources, request: ([s.text for s in sources], request.seeds))
    monkeypatch.setattr(composition, "_require_measured", lambda pools, result: None)
    monkeypatch.setattr(composition, "_exported", lambda pools, result: nullcontext((pools, result)))
    monkeypatch.setattr(composition, "register_model", lambda *about: done.append(about[2:]))
    composition.register_again(read_spec(made.run("ita")), made.run("ita"), made)  # type: ignore[arg-type]
    assert done == [("lost", ((["ita:1", "iel:2"], (1,)), results[1]))]


@pytest.mark.parametrize("options", [{"rule": "dare", "density": 0.5}, {"forget": ["class:3"]}])
def test_what_mlflow_lacks_is_registered_only_if_its_sources_give_the_same(
    options: dict[str, Any], made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_run(made.run("ita"))
    shutil.copytree(made.run("ita").artifacts, tmp_path / "v")
    monkeypatch.chdir(tmp_path)
    result = compose(["./v:1,2", "ita:3"], **options, seeds=[0], storage=made.root).result
    done: list[str] = []
    (first, *others), images = result.accuracies[0], result.test_images[0]
    moved = (first + 100 / images, *others)  # an image that other hardware answers otherwise
    lost = result.model_copy(update={"registered": ("vectors",), "accuracies": (moved,)})
    monkeypatch.setattr(composition.models, "read_compositions", lambda directory: [lost])
    monkeypatch.setattr(composition, "is_registered", lambda *_: False)
    monkeypatch.setattr(composition, "register_model", lambda *about: done.append(about[2]))
    register = partial(composition.register_again, read_spec(made.run("ita")), made.run("ita"), made)  # type: ignore[arg-type]
    register()
    assert done == [result.label]
    other = made.run("full")
    for task in (1, 2):  # as another folder of the same relative path
        shutil.rmtree(tmp_path / "v" / "seed_0" / f"task_{task}")
        shutil.copytree(other.artifacts / "seed_0" / f"task_{task}", tmp_path / "v" / "seed_0" / f"task_{task}")
    with pytest.raises(
        InputError, match=r"v:1,2, ita:3 gave .* on task 1 .* and now give .*; compose it again with --register$"
    ):
        register()
    assert done == [result.label]


def test_a_composition_that_is_refused_holds_up_no_other(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [result_of(label, runs=("ita",), seeds=(1,), registered=("timm",)) for label in "abc"]
    done: list[str] = []

    def require(pools: object, result: CompositionResult) -> None:
        if result.label != "b":
            raise InputError("ita gave 60.00 %")

    monkeypatch.setattr(composition.models, "read_compositions", lambda directory: results)
    monkeypatch.setattr(composition, "is_registered", lambda *_: False)
    monkeypatch.setattr(composition, "_require_measured", require)
    monkeypatch.setattr(composition, "_exported", lambda *_: nullcontext("folder"))
    monkeypatch.setattr(composition, "register_model", lambda *about: done.append(about[2]))
    with pytest.raises(InputError) as caught:
        composition.register_again(read_spec(made.run("ita")), made.run("ita"), made)  # type: ignore[arg-type]
    assert done == ["b"] and caught.value.args == ("a: ita gave 60.00 %", "c: ita gave 60.00 %")
