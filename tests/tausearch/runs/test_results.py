"""The metrics of a final run in its results.json."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tausearch.runs import (
    Record,
    RunResult,
    Score,
    TrialSummary,
    open_storage,
    read_accuracies,
    read_scores,
    write_results,
)
from tausearch.runs.results import summarise
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial
from trainables.errors import InputError


def test_every_metric_of_a_final_run_reaches_record_and_results(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    spec = make_final_run(storage, "new", [80.0, None, 82.0], pooled=[70.0, None, 73.0])
    content = json.loads(storage.run("new").results_file.read_text())
    assert [seed["test/pooled_accuracy"] for seed in content["seeds"]] == [70.0, None, 73.0]
    scores = read_scores(spec, storage.run("new"))
    assert {name: (score.mean, score.seeds) for name, score in scores.items()} == {
        "test/final_accuracy": (81.0, 2),
        "test/pooled_accuracy": (71.5, 2),
        "test/average_incremental_accuracy": (77.5, 2),
        "test/forgetting": (3.0, 2),
    }
    assert scores["test/pooled_accuracy"].std == pytest.approx(4.5**0.5)
    trials = Record(storage.run("new").record).trials()
    assert [trial.final.get("test/pooled_accuracy") for trial in trials] == [70.0, None, 73.0]


def test_results_say_what_was_trained_where_it_was_tuned_and_how_each_seed_ended(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    spec = make_final_run(storage, "new", [80.0, None], tuned_on="digits", overrides={"lr": 0.5})
    content = json.loads(storage.run("new").results_file.read_text())
    assert content["hyperparameters"] == spec.fixed and content["overrides"] == {"lr": 0.5}
    assert (content["benchmark"], content["tuned_on"], content["source"]) == ("cifar100", "digits", "digits-ita-lora-1")
    assert content["protocol"] == spec.protocol.model_dump(mode="json") and "class_orders" not in content
    assert [(each["seed"], each["status"]) for each in content["seeds"]] == [(0, "complete"), (1, "failed")]
    untuned = spec.model_copy(update={"source": None, "tuned_on": None})
    write_results(untuned, storage.run("new"), [])
    assert json.loads(storage.run("new").results_file.read_text())["tuned_on"] is None


def test_results_of_another_run_are_refused_and_missing_ones_are_those_of_the_record(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    spec = make_final_run(storage, "new", [80.0])
    directory = storage.run("new")
    text = directory.results_file.read_text()
    others = [(text.replace('"new"', f'"{name}"'), f"belongs to run '{name}'") for name in ("old", "ne")]
    for wrong, fault in (*others, ("{}", "cannot be read")):
        directory.results_file.write_text(wrong)
        with pytest.raises(
            InputError, match=f"{fault}.*; `tausearch runs sync new --storage {storage.root}` writes it"
        ):
            read_scores(spec, directory)
    directory.results_file.unlink()
    assert read_scores(spec, directory)["test/final_accuracy"] == Score(80.0, None, 1)


def test_a_run_that_gets_more_seeds_has_those_that_have_ended(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "runs", write=True)
    spec = make_final_run(storage, "new", [80.0, 82.0, 90.0])
    directory = storage.run("new")
    write_results(spec, directory, Record(directory.record).trials()[:2])
    more = spec.model_copy(update={"trials": 4, "seeds": (0, 1, 2, 3), "name": "renamed"})
    assert read_scores(more, directory)["test/final_accuracy"] == Score(84.0, pytest.approx(28.0**0.5), 3)
    assert read_accuracies(more, directory) == {(None, 0): 80.0, (None, 1): 82.0, (None, 2): 90.0}


def test_a_result_has_a_row_for_each_trial_and_the_best_of_those_that_have_ended() -> None:
    trials = [make_trial(0, tasks=2), make_trial(1, value=60.0), make_trial(2, value=70.0)]
    result = RunResult("s", Path("s"), trials, None, False, True, Path("log.txt"), None, None)
    columns = list(result.dataframe().columns)
    assert columns[:8] == [*trials[0].facts, "alpha", "lr"] and "seconds/training" in columns[8:]
    own = replace(result, trials=[make_trial(0, value=60.0, hyperparameters={"value": 3, "lr": 0.1})]).dataframe()
    assert list(own["value"]) == [60.0] and list(own.columns)[:7] == [*trials[0].facts, "lr"]
    assert result.in_words == "s: 2 trials ended, best 70.00 %"
    stopped = {each: replace(result, signal=each).interrupted for each in (None, signal.SIGINT, signal.SIGTERM)}
    assert stopped == {None: False, signal.SIGINT: True, signal.SIGTERM: True}


def test_equal_seeds_deviate_by_nought_and_a_single_one_by_nothing() -> None:
    assert [Score.of(values).text() for values in ((80.0, 80.0), (80.0,))] == ["80.00 ± 0.00", "80.00"]


def test_a_metric_is_summarised_over_the_seeds_that_have_it() -> None:
    last = {"test/final_accuracy": 84.0, "test/pooled_accuracy": 60.0, "test/removability/rest": 2.0}
    rows = [{"test/final_accuracy": 80.0}, last]
    trials = [TrialSummary(number, number, "complete", {}, [row]) for number, row in enumerate(rows)]
    trials.append(TrialSummary(2, 2, "failed", {}, [{"test/final_accuracy": 1.0, "test/pooled_accuracy": 1.0}]))
    assert summarise(trials) == {
        "test/final_accuracy": {"mean": 82.0, "std": pytest.approx(8**0.5), "seeds": 2},
        "test/pooled_accuracy": {"mean": 60.0, "std": None, "seeds": 1},
        "test/removability/rest": {"mean": 2.0, "std": None, "seeds": 1},
    }
