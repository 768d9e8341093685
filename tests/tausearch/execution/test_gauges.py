"""Ray's gauges say what the table of trials says."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from tausearch.execution import gauges
from tausearch.execution.gauges import Gauges
from tausearch.presentation import ProgressDisplay
from tausearch.runs import Constraint, StopRule, TrialTable
from tests.support.runs.trials import make_trial, search_spec, tell
from tests.tausearch.several.made import several_spec
from trainables.metrics import CACHE_HIT


class Kept:
    """Stands for a gauge of Ray's; keeps what it was last set to, by the tags beyond those of the run."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, tags: dict[str, str]) -> None:
        run = {"run": "digits-ita-lora-1", "benchmark": "digits", "method": "ita-lora"}
        assert all(text.isascii() for text in tags.values())
        assert tags.keys() >= run.keys()
        self.values[tuple(tags[name] for name in tags if name not in run)] = value


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Kept]:
    """The gauges by name."""
    found: dict[str, Kept] = {}

    def gauge(name: str, description: str, *more: str) -> Any:
        return found.setdefault(name, Kept())

    monkeypatch.setattr(gauges, "_gauge", gauge)
    return found


def test_they_say_what_the_table_says(made: dict[str, Kept]) -> None:
    kept = Constraint(metric="val/final_accuracy", relation="<=", bound=85)  # trial 3 breaks it
    told = Gauges(search_spec().model_copy(update={"trials": 5, "constraints": (kept,)}), TrialTable())
    assert told.tags == {"run": "digits-ita-lora-1", "benchmark": "digits", "method": "ita-lora"}
    tell(told, make_trial(0, value=70.0))
    tell(told, make_trial(1, value=80.0))
    tell(told, make_trial(2, tasks=1))
    tell(told, make_trial(3, value=90.0))
    states = {state: value for (state,), value in made["trials"].values.items() if value}
    assert states == {"complete": 3, "running": 1, "pending": 1}
    assert made["tasks_done"].values == {(): 10}
    assert made["best_accuracy"].values == {(): 80.0}


def test_the_best_accuracy_is_one_where_trials_compare_by_scores(made: dict[str, Kept]) -> None:
    names = {"name": "digits-ita-lora-1", "benchmark": "digits"}
    told = Gauges(several_spec(**names), TrialTable())
    for number, score in enumerate((100.0, 40.0)):
        tell(told, replace(make_trial(number, value=70.0 + number), value=score))
    assert made["best_accuracy"].values == {(): 70.0}


def test_cache_hits_of_earlier_drivers_count(made: dict[str, Kept]) -> None:
    known = make_trial(0, value=70.0)
    for row in known.rows:
        row[CACHE_HIT] = float(row["task"] > 1)
    tell(Gauges(search_spec(), TrialTable([known])), make_trial(1, tasks=0))
    assert made["preconsolidations"].values == {("cache",): 2, ("computed",): 1}


def test_a_search_that_has_ended_early_has_no_pending_trials(made: dict[str, Kept]) -> None:
    told = Gauges(search_spec().model_copy(update={"trials": 9, "stop": StopRule(patience=2)}), TrialTable())
    for number, value in enumerate((80.0, 70.0)):
        tell(told, make_trial(number, value=value))
    assert made["trials"].values[("pending",)] == 7
    tell(told, make_trial(2, tasks=1, status="pruned"))  # the second in a row without a gain
    assert made["trials"].values[("pending",)] == 0 and made["trials"].values[("complete",)] == 2


def test_a_task_and_the_end_of_a_trial_cost_the_same_whatever_the_number_of_trials(
    made: dict[str, Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TrialTable([make_trial(0, value=70.0), make_trial(1, tasks=1)])
    told, display = Gauges(search_spec(), table), ProgressDisplay(search_spec(), table, io.StringIO())
    display.trial_changed(make_trial(1, tasks=1))
    with monkeypatch.context() as patch:
        patch.setattr(TrialTable, "__iter__", lambda self: pytest.fail("all trials were looked at"))
        tell(told, make_trial(1, tasks=2))
        assert display._tasks_done() == 3 + 2 and made["best_accuracy"].values == {(): 70.0}
        tell(told, make_trial(1, value=75.0))
        assert "(trial 1)" in display._progress_text() and display._planned == search_spec().trials
    assert made["tasks_done"].values == {(): 3 + 3} and made["best_accuracy"].values == {(): 75.0}


def test_a_task_counts_by_where_its_preconsolidation_came_from(made: dict[str, Kept]) -> None:
    trial = make_trial(0, tasks=3)
    for row, found in zip(trial.rows, (1.0, 0.0, 1.0), strict=True):
        row[CACHE_HIT] = found
    told = Gauges(search_spec(), TrialTable([make_trial(0, tasks=2), trial]))  # as of a search that goes on
    tell(told, trial)
    tell(told, make_trial(1, tasks=2))  # of a method that needs none
    assert made["preconsolidations"].values == {("cache",): 2, ("computed",): 1}


def test_labels_are_ascii_whatever_the_folder_is_called(made: dict[str, Kept]) -> None:
    told = Gauges(search_spec().model_copy(update={"benchmark": "folder:/home/Jürgen/Bilder ä"}), TrialTable())
    tell(told, make_trial(0, value=70.0))
    assert told.tags["benchmark"] == "folder:/home/J\\xfcrgen/Bilder \\xe4" and "best_accuracy" in made


def test_a_gauge_that_fails_ends_no_search(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("no metrics today")

    monkeypatch.setattr(gauges, "_gauge", fail)
    tell(Gauges(search_spec(), TrialTable()), make_trial(0, value=70.0))
    assert "gauges of digits-ita-lora-1 cannot be set" in caplog.text
