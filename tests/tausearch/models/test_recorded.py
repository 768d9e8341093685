"""What MLflow gets of a composition and of the paper's protocol, by the names that it shows; and which rule merges."""

from __future__ import annotations

from typing import Any

import pytest

from tausearch.models import CompositionResult, EvaluatedSeed, EvaluationResult, RuleSearch, RuleTrial, mlflow_records
from tausearch.models.evaluation import merging_rule
from tausearch.models.exports import _unnamed
from tausearch.models.merge_configs import rule_words, uniform
from tausearch.runs import Storage
from tests.support.runs.trials import final_spec, search_spec


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is written: the label, the metrics, the tags."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(mlflow_records, "track_composition", lambda _, __, *rest: found.append(rest))
    return found


def test_a_composition_has_means_deviations_and_six_digits_of_each_weight(told: list[tuple[Any, ...]]) -> None:
    about = {
        "label": "l",
        "runs": ("a:1", "b:2"),
        "benchmark": "digits",
        "seeds": (0, 1),
        "rule": "ties",
        "rule_parameters": {"density": 0.2},
    }
    result = CompositionResult(**about, weights=(1 / 3, -0.5), accuracies=((60.0, 40.0), (64.0, 40.0)))  # type: ignore[arg-type]
    mlflow_records._record(final_spec(search_spec()), Storage("x"), result)  # type: ignore[arg-type]
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
    about = {"label": "l", "runs": ("a",), "benchmark": "digits", "seeds": (0,), "weights": (1.0,), "search": search}
    result = CompositionResult(**about, accuracies=((60.0,),))  # type: ignore[arg-type]
    mlflow_records._record(final_spec(search_spec()), Storage("x"), result)  # type: ignore[arg-type]
    ((_, metrics, tags),) = told
    assert tags["search"] == "2 trials, seed 3" and metrics["test/final_accuracy/mean"] == 60.0
    means = [metrics[f"val/final_accuracy/{name}/mean"] for name in ("chosen", "defaults", "plain_sum")]
    assert means == [90.0, 80.0, 85.0]


def test_the_protocol_has_its_tables_and_one_seed_has_no_deviation(told: list[tuple[Any, ...]]) -> None:
    unlearned = dict.fromkeys(("drop", "negate", "subtract"), ((10.0, 80.0), (70.0, 20.0)))
    seed = EvaluatedSeed(seed=0, whole=(60.0, 40.0), specialised=(62.0, 42.0), unlearned=unlearned)
    result = EvaluationResult(run="r", benchmark="digits", methods=("ita-lora",), kept=(1, 2), seeds=(seed,))
    mlflow_records._record(final_spec(search_spec()), Storage("x"), result)  # type: ignore[arg-type]
    ((label, metrics, tags),) = told
    assert (label, tags) == ("evaluation", {"kept": "1,2"})
    assert metrics["unlearning/subtract/target_gain/mean"] == -35.0 and metrics["specialisation/target/mean"] == 52.0
    assert "specialisation/control/mean" not in metrics and not [name for name in metrics if name.endswith("/std")]


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
        ("folder:/x/animals?task=owl,cat&task=ape,elk", "folder:/x/animals"),
    ],
)
def test_a_benchmark_without_names_keeps_the_seed_of_its_order(named: str, unnamed: str) -> None:
    assert _unnamed(named) == unnamed
