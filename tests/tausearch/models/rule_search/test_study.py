"""What a search for the parameters of a rule tries, what it is told of, and what counts for its choice."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.models.merge_configs import MergeConfig, uniform
from tausearch.models.rule_search import search as searching, trial_cache
from tausearch.models.rule_search.results import RuleTrial
from tausearch.models.rule_search.study import ParameterStudy
from tausearch.models.rule_search.trial_cache import RuleTrialCache, open_trial_cache
from tests.tausearch.models.rule_search.test_search import pools_of_a_run
from trainables.composition import Parameter


def tried(space: Mapping[str, Parameter], count: int, peak: float = 0.7) -> list[dict[str, float]]:
    """The values that a study tries whose accuracy is highest where the first parameter has a value."""
    study, found = ParameterStudy(space, 0), []
    for number in range(count):
        trial, values = study.ask(number)
        found.append(values)
        study.tell(trial, 90 - 50 * abs(next(iter(values.values())) - peak))
    return found


def test_the_defaults_come_first_as_they_are_and_others_have_four_digits() -> None:
    first, *others = tried({"a": Parameter(1 / 3, low=0, high=1), "b": Parameter(1, low=1e-6, high=1, log=True)}, 30)
    assert first == {"a": 1 / 3, "b": 1}
    assert all(float(f"{value:.4g}") == value for values in others for value in values.values())
    assert sum(values["b"] < 0.01 for values in others) > 10  # as many in each order of magnitude
    assert len({values["b"] for values in others if values["b"] < 1e-4}) >= 3


def test_rounded_values_keep_their_bounds_and_a_default_may_lie_below_what_is_drawn() -> None:
    narrow = {"a": Parameter(0.123456, low=0.123456, high=0.123457)}
    assert all(0.123456 <= values["a"] <= 0.123457 for values in tried(narrow, 5))
    low = {"a": Parameter(0.0002, low=0, high=1, low_excluded=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tried(low, 3)[0] == {"a": 0.0002}


def test_later_values_are_near_the_best_ones() -> None:
    values = [each["a"] for each in tried({"a": Parameter(0.1, low=0, high=1)}, 40)]
    assert sum(abs(each - 0.7) < 0.15 for each in values[20:]) > 12


def test_every_seed_draws_by_itself_and_tasks_of_positive_weight_alone_count(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def accuracies(_: object, __: object, ___: object, weights: object, rule: Any, ____: object) -> tuple[float, ...]:
        drawn.append(rule.seed)
        return (50.0 + rule.seed, 60.0, 80.0)

    monkeypatch.setattr(searching, "accuracies_of", accuracies)
    pools: Any = pools_of_a_run(Path(), seeds=(3, 5))
    pools.by_seed = dict.fromkeys((3, 5), SimpleNamespace(head=lambda: None))
    weights = MergeConfig("w", (0.5, 0.0, -1.0))
    found = searching._accuracies(pools, weights, "dare", {"density": 0.5}, lambda count: None)
    assert found == (53.0, 55.0) and drawn == [3, 5]


def test_it_is_chosen_by_the_mean_over_seeds_and_images_are_of_tasks_of_positive_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    monkeypatch.setattr(ParameterStudy, "tell", lambda _, __, accuracy: told.append(accuracy))
    rows = iter([(10.0, 90.0), (60.0, 60.0), (20.0, 40.0), (30.0, 50.0)])
    monkeypatch.setattr(searching, "_accuracies", lambda *_: next(rows))
    space = searching.rule_space("ties", {}, 3, 0)
    weights = MergeConfig("w", (0.5, 0.0, -0.5))
    merge, search = searching.search_rule(pools_of_a_run(tmp_path), weights, space, lambda count: None)
    assert told == [50.0, 60.0, 30.0] and search.chosen == 1 and search.plain_sum == (30.0, 50.0)
    assert search.images == 4 and merge.rule_parameters == search.trials[1].parameters


def test_what_was_evaluated_before_counts_as_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools, counts = pools_of_a_run(tmp_path), list[int]()
    space = searching.rule_space("ties", {}, 1, 0)
    known = RuleTrial(parameters={"density": 0.2}, accuracies=(70.0, 80.0))
    open_trial_cache(pools, uniform(3).merged_by("ties", {})).add(known)
    monkeypatch.setattr(searching, "_accuracies", lambda *_: (60.0, 60.0))
    _, search = searching.search_rule(pools, uniform(3), space, counts.append)
    assert search.trials == (known,) and counts == [3 * 2]  # of all tasks and seeds


def test_evaluations_are_of_the_vectors_of_runs_and_of_the_code_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ties = uniform(3).merged_by("ties", {})

    def file(*texts: str, run: str = "a") -> Path | None:
        pools = pools_of_a_run(tmp_path, run=run)
        (source,) = pools.sources
        pools.sources = [type(source)(**{**vars(source), "text": text, "name": "ita"}) for text in texts or ("ita",)]
        return open_trial_cache(pools, ties).file

    others = {file(), file("ita:1,2", "iel:3"), file("ita:1", "iel:2,3"), file(run="again")}
    for name, value in (("code_of", lambda kind: "other"), ("version", lambda name: "other")):
        with monkeypatch.context() as patch:
            patch.setattr(trial_cache, name, value)
            others.add(file())
    assert len(others) == 6 and None not in others
    exported = pools_of_a_run(tmp_path)
    exported.sources = [*exported.sources, type(exported.sources[0])(spec=None, directory=None, text="folder")]
    assert open_trial_cache(exported, ties).file is None


def test_a_file_of_evaluations_may_be_damaged_and_leaves_those_of_others(tmp_path: Path) -> None:
    trials = [RuleTrial(parameters={"density": each}, accuracies=(70.0,)) for each in (0.2, 0.4)]
    mine, other = RuleTrialCache(tmp_path / "searches" / "a.json"), RuleTrialCache(tmp_path / "searches" / "b.json")
    for each in trials:
        mine.add(each)
    other.add(trials[0])
    again = RuleTrialCache(tmp_path / "searches" / "a.json")
    assert [again.find(each.parameters) for each in trials] == trials and again.find({"density": 0.3}) is None
    mine.close()
    assert [path.name for path in (tmp_path / "searches").iterdir()] == ["b.json"]
    (tmp_path / "searches" / "b.json").write_text('[{"parameters": 1}]')
    assert RuleTrialCache(tmp_path / "searches" / "b.json").known == []
    other.close()
    assert list(tmp_path.iterdir()) == []
    without = RuleTrialCache(None)
    (tmp_path / "file").touch()
    for cache in (without, RuleTrialCache(tmp_path / "file" / "c.json")):  # the latter cannot be written
        cache.add(trials[0])
        assert cache.find(trials[0].parameters) == trials[0]
