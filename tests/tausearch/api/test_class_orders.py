"""A chosen configuration judged over class orders as well as seeds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.api import (
    FinalResult,
    SearchRequest,
    TrainRequest,
    continuation,
    final_runs,
    plan_search,
    plan_training,
    resume,
    train,
)
from tausearch.api.final_runs import FinalRun
from tausearch.api.finishing import conclude
from tausearch.cli.output import show_final
from tausearch.execution import DriveOptions
from tausearch.reports import compare, paper_results, read_final_runs
from tausearch.runs import FinalSpec, Record, Storage, TrialSummary, chance, changed_fields, read_spec
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import BestFile, make_best_file
from tests.support.runs.final_runs import make_final_run
from trainables.config import TrialConfig
from trainables.errors import InputError


@pytest.fixture
def best(tmp_path: Path) -> BestFile:
    spec = plan_search(SearchRequest("digits", "ita-lora", storage=tmp_path)).spec
    trial = TrialSummary(0, 0, "complete", {**spec.fixed, **spec.start}, value=50.0)
    return make_best_file(spec, trial, competitors=1)


def planned(best: BestFile, storage: Storage, **more: Any) -> FinalSpec:
    return plan_training(TrainRequest(best, storage=storage.root, name="f", **more)).spec


def configs_of(spec: FinalSpec, storage: Storage) -> list[TrialConfig]:
    _, directory = make_run_directory(spec, storage)
    return [spec.trial_config(number, {}, cache=None, directory=directory) for number in range(spec.trials)]


def ended(number: int, seed: int, accuracy: float) -> TrialSummary:
    row = {"task": 5.0, "test/average_accuracy": accuracy, "test/final_accuracy": accuracy, "test/forgetting": 1.0}
    return TrialSummary(number, seed, "complete", {}, [row], accuracy)


def test_every_seed_runs_with_every_order(best: BestFile, storage: Storage) -> None:
    spec = planned(best, storage, seeds=[3, 5], class_orders=[7, 1, 2])
    configs = configs_of(spec, storage)
    assert [(c.benchmark, c.seed) for c in configs] == [
        (f"digits?class_order={order}", seed) for order in (7, 1, 2) for seed in (3, 5)
    ]
    assert {c.artifacts for c in configs} == {None} and spec.tasks == ()  # vectors of other tasks
    assert len({c.checkpoints for c in configs}) == 6
    assert chance(read_spec(storage.run(spec.name))) == 10.0
    assert changed_fields(spec.model_copy(update={"classes": None}), spec) == []  # of an earlier version


def test_without_orders_all_is_as_it_was(best: BestFile, storage: Storage) -> None:
    spec = planned(best, storage, seeds=[3, 5])
    configs = configs_of(spec, storage)
    assert [(c.benchmark, c.seed) for c in configs] == [("digits", 3), ("digits", 5)]
    assert [Path(c.artifacts or "").name for c in configs] == ["seed_3", "seed_5"]
    assert spec.protocol.class_orders is None and spec.class_order(1) is None


@pytest.mark.parametrize(
    ("asked", "moved", "found"), [(None, True, ()), ("mlflow", True, ("mlflow",)), (None, False, None)]
)
def test_a_final_run_is_tracked_as_its_search(
    asked: str | None, moved: bool, found: tuple[str, ...] | None, best: BestFile, storage: Storage
) -> None:
    assert planned(best, storage).tracking is None  # the search lies elsewhere
    assert best.selection is not None
    request = SearchRequest("digits", "ita-lora", storage=storage.root, name=best.selection.search, tracking="none")
    search = plan_search(request).spec  # another one of the same name
    make_run_directory(search.model_copy(update={"id": best.selection.search_id}) if moved else search, storage)
    final = planned(best, storage, tracking=asked)
    assert (final.tracking, final.source_id) == (found, best.selection.search_id)
    assert changed_fields(final.model_copy(update={"source_id": ""}), final) == []  # of an earlier version


def test_it_goes_on_with_what_has_not_ended(best: BestFile, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, directory = make_run_directory(planned(best, storage, seeds=[0, 1], class_orders=[4, 5]), storage)
    Record(directory.record, metric_names=spec.metrics).write(ended(2, 0, 70.0))
    run = FinalRun(read_spec(directory), storage, directory)
    assert [run.searcher.next() for _ in range(4)] == [(0, {}), (1, {}), (3, {}), None]
    went_on: list[FinalSpec] = []
    monkeypatch.setattr(continuation, "run_training", lambda run, *_: went_on.append(run.spec))
    resume("f", storage=storage.root)
    assert went_on == [spec]


def test_a_final_run_stops_at_its_time_budget(
    best: BestFile, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(final_runs, "run_training", lambda run, options: started.append((run.spec.name, options)))
    train(best, storage=storage.root, name="t", time_budget=60.0, progress_to="stderr", tracking="none")
    options = DriveOptions(time_budget=60.0, progress_to="stderr", callbacks=[], resume_options=" --tracking none")
    assert started == [("t", options)]


def test_results_are_told_over_all_and_order_by_order(
    best: BestFile, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, directory = make_run_directory(planned(best, storage, seeds=[0, 1], class_orders=[4, 5]), storage)
    trials = [ended(n, n % 2, accuracy) for n, accuracy in enumerate((60.0, 62.0, 70.0, 76.0))]
    conclude(spec, directory, trials)
    results = json.loads(directory.results_file.read_text())
    score = results["summary"]["test/final_accuracy"]
    assert score == {"mean": 67.0, "std": pytest.approx(7.394, abs=1e-3), "seeds": 4}
    assert [(each["class_order"], each["seed"]) for each in results["seeds"]] == [(4, 0), (4, 1), (5, 0), (5, 1)]
    means = {order: part["test/final_accuracy"]["mean"] for order, part in results["class_orders"].items()}
    assert means == {"4": 61.0, "5": 73.0}
    about = ("f", directory.path, trials, None, False, True, directory.log_file, "sqlite://", None)
    result = FinalResult(*about, summary=results["summary"], results_file=directory.results_file)
    show_final(result, spec, "")
    page = result._repr_html_()
    assert ">final accuracy</td>" in page and ">class order</th>" in page and "<p>f: 4 trials ended" in page
    assert "test 67.00 ± 7.39 %" in page
    fewer = replace(result, trials=trials[:3])  # the results say how many seeds they are of
    assert re.search(r"final accuracy</td>.*?67\.00 ± 7\.39</td><td[^>]*>4</td>", fewer._repr_html_())
    out = capsys.readouterr().out
    assert (
        "class order 4                       61.00 ± 1.41 % over 2 seeds" in out
        and "│           5 │    1 │ complete │" in out
        and "67.00 ± 7.39 % over 4 trials" in out
    )


def test_it_stands_beside_its_bounds_before_its_results_are_written(storage: Storage) -> None:
    make_final_run(storage, "own", [89.0, 90.0])
    directory = storage.run("own")
    about = ("own", directory.path, [], None, False, True, directory.log_file, "sqlite://", None)
    beside = [
        FinalResult(*about, summary={}, results_file=file).bounds
        for file in (None, directory.results_file)  # type: ignore[arg-type]
    ]
    assert beside[0] == beside[1] is not None


def test_the_papers_order_is_another_experiment(storage: Storage) -> None:
    make_final_run(storage, "own", [89.0, 90.0])
    make_final_run(storage, "orders", [80.0, 70.0, 75.0, 71.0], protocol={"class_orders": (0, 1)})
    (comparison,) = compare(read_final_runs(storage)[0], paper_results(), ["cifar100"])
    assert [row.ours.spec.name for row in comparison.rows if row.ours] == ["own"]
    assert [row.not_comparable for row in comparison.not_compared] == [("class orders (0, 1)",)]


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([1, 1], "--class-orders must be 1 to 1000 different numbers, got \\[1, 1\\]"),
        ([], "--class-orders must be 1 to 1000 different numbers"),
        ([-1], "--class-orders must be a whole number from 0 to 4294967295, got -1"),
        ([2**32], "--class-orders must be a whole number from 0 to 4294967295, got 4294967296"),
    ],
)
def test_orders_that_there_are_not(orders: list[int], message: str, best: BestFile, storage: Storage) -> None:
    with pytest.raises(InputError, match=message):
        planned(best, storage, class_orders=orders)
    assert not storage.root.exists()


def test_orders_beside_an_order_in_the_name_of_the_benchmark_are_refused(best: BestFile, storage: Storage) -> None:
    named = "digits?class_order=3&epochs=1"
    with pytest.raises(InputError) as caught:
        planned(best, storage, benchmark=named, class_orders=[0, 1])
    assert str(caught.value) == (
        f"--class-orders 0,1: benchmark {named!r} has a class_order; to judge over these orders, name it without:"
        " --benchmark 'digits?epochs=1'"
    )
    assert planned(best, storage, benchmark=named, class_orders=[3]).protocol.class_orders == (3,)
    assert planned(best, storage, benchmark="digits?epochs=1", class_orders=[0, 1]).protocol.class_orders == (0, 1)
