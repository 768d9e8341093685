"""`compose --search`: the parameters of a merging rule, chosen by validation images, and tested once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tausearch import compose
from tausearch.models import CompositionResult, read_compositions
from tausearch.models.merge_configs import MergeConfig, uniform
from tausearch.models.rule_search import search as searching
from tausearch.models.rule_search.trial_cache import open_trial_cache
from tausearch.presentation import LongWork
from tausearch.runs import RunDirectory, Storage
from tausearch.testing.reachable_objects import images_of, reachable
from tests.support.command_line import Command
from tests.support.runs.composable_runs import SMALL, pool_of, small_benchmark
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, choose_rule
from trainables.data import build_benchmark, get_source
from trainables.errors import InputError
from trainables.evaluation import accuracies

RULE = """
import torch

from trainables.composition import Parameter


class Scaled:
    parameters = {"scale": Parameter(1, low=0.25, high=4, log=True), "shift": Parameter(0, low=-1, high=1)}

    def merge(self, merging):
        scale, shift = merging.parameters["scale"], merging.parameters["shift"]
        factor = float("nan") if scale > 3.9 else scale + shift
        return {n: factor * sum(w * t[n] for t, w in zip(merging.taus, merging.weights)) for n in merging.names}
"""


def searched(storage: Storage, **options: Any) -> CompositionResult:
    given = {"rule": "ties", "search": 6, "seeds": [0], **options}
    return compose(["ita"], storage=storage.root, **given).result


def validation(storage: Storage, density: float | None, tasks: tuple[int, ...] = (0, 1, 2)) -> float:
    """Return the mean validation accuracy over some tasks of TIES, or of the plain sum."""
    network, pool = ComposedNetwork(Backbone(), torch.device("cpu")), pool_of(storage, "ita", 0)
    rule = None if density is None else choose_rule("ties", {"density": density})
    network.compose(pool, [1 / 3] * 3, pool.head(), rule)
    images = build_benchmark(get_source(SMALL), "search", 0).evaluation
    found = accuracies(network.predict, images, "cpu")
    return sum(found[task] for task in tasks) / len(tasks)


def test_the_best_values_on_validation_images_are_composed_and_tested(made: Storage) -> None:
    result = searched(made)
    search = result.search
    assert search is not None and len(search.trials) == 6 and search.searched == ("density",)
    assert search.trials[0].parameters == {"density": 0.2}
    tried = [each.parameters["density"] for each in search.trials]
    assert len(set(tried)) == 6 and all(0 < each <= 1 for each in tried)
    found = [each.score.mean for each in search.trials]
    assert found == pytest.approx([validation(made, each) for each in tried])
    assert search.chosen == found.index(max(found)) and len(set(found)) > 1
    assert search.plain_sum == pytest.approx([validation(made, None)])
    assert result.rule_parameters == search.trials[search.chosen].parameters
    same = compose(["ita"], rule="ties", set=result.rule_parameters, seeds=[0], storage=made.root).result
    assert result.accuracies == same.accuracies and result.label == same.label.replace("-seeds", "-searched-seeds")


def test_a_seed_repeats_its_search_and_json_and_the_file_have_it(made: Storage, shown: Command) -> None:
    words = ("compose", "ita", "--rule", "ties", "--search", "6", "--seeds", "0")
    printed = json.loads(shown(*words, "--format", "json")[0])
    again = searched(made)
    assert printed["search"] == again.as_dict()["search"]
    assert again in read_compositions(made.run("ita"))
    other = searched(made, search_seed=1)
    assert other.search is not None and again.search is not None
    assert other.search.trials[0] == again.search.trials[0] and other.search.trials[1] != again.search.trials[1]


def test_the_search_reaches_no_test_image_and_counts_the_tasks_that_are_kept(
    made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    original = searching.search_rule
    monkeypatch.setattr("tausearch.models.search_rule", lambda *args: given.extend(args) or original(*args))
    result = searched(made, drop=[3], search=2)
    test = set(images_of(each.images for each in small_benchmark().evaluation))
    held = set(images_of(reachable(given)))
    assert test and not test & held
    assert set(images_of(each.images for each in build_benchmark(get_source(SMALL), "search", 0).evaluation)) <= held
    assert result.search is not None and result.search.images == 8


def test_as_many_evaluations_are_counted_as_are_announced(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    announced, counted = dict[str, int](), Counter[str]()

    def start(work: LongWork, name: str, total: int) -> Callable[[int], None]:
        announced[name] = total
        return lambda count: counted.update({name: count})

    monkeypatch.setattr(LongWork, "start", start)
    searched(made, search=2)
    assert "search of ties" in announced and counted == announced


def test_a_search_that_was_killed_goes_on(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    unbroken, folder = searched(made, weights=[0.5, 0.25, 0.25]), made.run("ita").compositions / "searches"
    original, calls = searching.accuracies_of, list[Any]()

    def counted(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(searching, "accuracies_of", counted)
    with pytest.raises(KeyboardInterrupt):
        searched(made, weights=[0.5, 0.25, 0.25])
    assert [len(json.loads(path.read_text(encoding="utf-8"))) for path in folder.iterdir()] == [3]
    calls[:] = [None] * 4  # it is not killed again
    assert searched(made, weights=[0.5, 0.25, 0.25]) == unbroken
    assert len(calls) - 4 == 3 + 1  # the trials that were left, and the plain sum
    assert not folder.exists()


def test_a_search_that_was_killed_as_it_was_tested_has_its_trials(
    made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> Any:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"search": 2, "search_seed": 4, "weights": [0.25, 0.5, 0.25]}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("tausearch.models.evaluate", killed)
        searched(made, **options)
    calls, original = list[Any](), searching.accuracies_of
    monkeypatch.setattr(searching, "accuracies_of", lambda *args: calls.append(args) or original(*args))
    searched(made, **options)
    assert len(calls) == 1  # the plain sum
    assert not (made.run("ita").compositions / "searches").exists()


def pools_of_a_run(root: Path, run: str = "a", seeds: tuple[int, ...] = (0, 1)) -> Any:
    """What a search asks of three task vectors and their images, without them."""
    source = SimpleNamespace(directory=RunDirectory(root), spec=SimpleNamespace(id=run), text="ita")
    images = SimpleNamespace(evaluation=[range(4)] * 3)
    return SimpleNamespace(sources=[source], by_seed=dict.fromkeys(seeds), tasks=3, threads=1, benchmark=images)


def test_evaluations_are_found_again_by_what_they_depend_on_alone(tmp_path: Path) -> None:
    def file(merge: MergeConfig, **changes: Any) -> Path | None:
        return open_trial_cache(pools_of_a_run(tmp_path, **changes), merge).file

    ties = uniform(3).merged_by("ties", {})
    others = [file(ties, run="b"), file(ties, seeds=(0,)), file(uniform(3).merged_by("dare", {}))]
    others.append(file(replace(ties, weights=(0.5, 0.25, 0.25))))
    assert len({file(ties), *others}) == 5 and file(replace(ties, label="other")) == file(ties)


def test_what_was_evaluated_before_a_kill_guides_what_is_tried_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ten values are drawn at random; later ones depend on the accuracies before them."""
    killed_at, calls = 12, list[float]()

    def judged(_: object, __: object, rule: str, parameters: Mapping[str, float], ___: object) -> tuple[float, ...]:
        calls.append(parameters.get("density", 0.0))
        if len(calls) == killed_at:
            raise KeyboardInterrupt
        return (90.0 - 50.0 * abs(calls[-1] - 0.7),)

    def search() -> Any:
        space = searching.rule_space("ties", {}, 14, 0)
        return searching.search_rule(pools_of_a_run(tmp_path), uniform(3), space, lambda count: None)

    monkeypatch.setattr(searching, "_accuracies", judged)
    with pytest.raises(KeyboardInterrupt):
        search()
    continued = search()
    open_trial_cache(pools_of_a_run(tmp_path), uniform(3).merged_by("ties", {})).close()
    assert search() == continued


def test_a_rule_of_ones_own_is_searched_but_for_what_is_given(
    made: Storage, shown: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "their_scaled.py").write_text(RULE, encoding="utf-8")
    words = ("compose", "ita", "--seeds", "0", "--format", "json", "--rule", "their_scaled:Scaled", "--search", "4")
    found = json.loads(shown(*words, "--set", "shift=0.5")[0])["search"]
    assert found["searched"] == ["scale"] and {each["parameters"]["shift"] for each in found["trials"]} == {0.5}
    assert all(0.25 <= each["parameters"]["scale"] <= 4 for each in found["trials"])
    assert list(searching.rule_space("their_scaled:Scaled", {"shift": 0.0}, 4, 0).searched) == ["scale"]
    out, err = shown(*words, "--set", "scale=4", code=2)
    wrong = "returned numbers for 'blocks.0.attn.qkv.weight' that are not finite (with scale 4, shift 0)"
    assert out == "" and err.count("\n") == 1 and wrong in err, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--search", "4"],
            "--search: nothing to search of the rule 'linear': it has no parameters; --weights sets its weights. Rules"
            " that have some (--rule): ties, magnitude, dare, dare-ties, fisher, regmean\n",
        ),
        (
            ["--rule", "ties", "--search", "4", "--density", "0.5"],
            "--search: nothing to search of the rule 'ties': --set or --density gives density; leave"
            " out one, or --search\n",
        ),
        (["--rule", "ties", "--search", "0"], "--search must be a whole number from 1 to 100000, got 0"),
        (["--rule", "ties", "--search-seed", "1"], "--search-seed: goes with --search N alone"),
        (["--rule", "ties", "--search", "2", "--forget", "0"], "--search and --forget: choose one of them"),
        (["--rule", "ties", "--search", "2", "--weights", "0,0,-1"], "--search: needs a task of positive weight"),
        (["--rule", "ties", "--search", "2", "--set", "share=1"], "rule 'ties': unknown parameter 'share'"),
    ],
)
def test_what_cannot_be_searched_is_one_line(arguments: list[str], words: str, made: Storage, shown: Command) -> None:
    before = sorted(made.root.rglob("*"))
    out, err = shown("compose", "ita", *arguments, code=2)
    assert out == "" and err.count("\n") == 1 and words in err, err
    assert sorted(made.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("rule", "parameters", "said"),
    [("linear", {}, "--search: not finite"), ("ties", {"density": 0.5}, "--search: not finite (with density 0.5)")],
)
def test_a_rule_that_fails_is_said_with_its_values(
    rule: str, parameters: dict[str, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise InputError("not finite")

    monkeypatch.setattr(searching, "accuracies_of", fail)
    pools: Any = SimpleNamespace(by_seed={0: SimpleNamespace(head=lambda: None)})
    with pytest.raises(InputError) as found:
        searching._accuracies(pools, uniform(2), rule, parameters, lambda count: None)
    assert str(found.value) == said
