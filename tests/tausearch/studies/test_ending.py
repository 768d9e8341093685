"""When a search ends before its last trial, and what is said about its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import (
    Constraint,
    DataFacts,
    Record,
    Reevaluate,
    SearchSpec,
    StopRule,
    Storage,
    TrialSummary,
    TrialTable,
    all_ended,
    cut_short,
    driver_lock,
    ending_of,
    extended_rule,
    note_stopped,
    planned_trials,
    read_spec,
    read_status,
)
from tausearch.runs.creation import Plan, make_run_directory
from tausearch.studies import OptunaSearcher, load_best, write_best
from tests.support.runs.trials import make_trial
from trainables.metrics import VALIDATION

FACTS = DataFacts(digest="0", train=1000, evaluation=200)  # one image is 0.5 points


def ending(spec: SearchSpec, **rule: Any) -> SearchSpec:
    return spec.model_copy(update={"stop": StopRule(**rule), "data": FACTS, "trials": 12})


def trials_of(values: Sequence[float | str]) -> list[TrialSummary]:
    """A number is a final accuracy, a text the status of a trial without one."""
    return [
        make_trial(n, value=each) if isinstance(each, float) else make_trial(n, tasks=1, status=each)
        for n, each in enumerate(values)
    ]


ROWS: list[tuple[list[float | str], int | None]] = [
    ([70.0, 70.4, 69.0], 2),
    ([70.0, 70.5, 70.5], 2),  # one image is no gain
    ([70.0, 70.4, 70.6], None),  # two small steps are one: the gain is counted from the last one that counted
    ([70.0, 71.0, 69.0, 69.0], 3),
    ([70.0, "pruned", "diverged"], 2),
    ([70.0, "failed", "failed", 60.0], None),  # a failure says nothing about the configuration
    (["diverged", "pruned", "pruned", 70.0], None),  # nothing counts before the first value
    ([70.0, "running", 60.0, 60.0, 60.0], None),  # trials in a row are counted by number
    ([70.0, 60.0], None),
]


@pytest.mark.parametrize(("values", "last"), ROWS)
def test_patience_counts_trials_in_a_row_without_a_gain(
    spec: SearchSpec, values: list[float | str], last: int | None
) -> None:
    found = cut_short(ending(spec, patience=2), trials_of(values))
    assert (None if found is None else f"up to trial {last}," in found.why) is (None if last is None else True)
    assert cut_short(ending(spec), trials_of(values)) is None


def test_a_target_is_reached_by_the_first_trial_that_keeps_the_bounds(spec: SearchSpec) -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, value=90.0), make_trial(2, value=91.0)]
    trials[1].rows[-1][VALIDATION.forgetting] = 9.0
    found = cut_short(ending(spec, target=90), trials)
    assert found is not None and found.why == "trial 1 came to 90.00 %, at least 90 %"
    bound = Constraint.parse("forgetting <= 5", [VALIDATION.forgetting])
    kept = ending(spec, target=90).model_copy(update={"constraints": (bound,)})
    found = cut_short(kept, trials)
    assert found is not None and "trial 2" in found.why and cut_short(kept, trials[:2]) is None
    found = cut_short(ending(spec, target=90, patience=1), trials_of([95.0, 70.0]))  # patience is lost, too
    assert found is not None and found.reason == "target"
    assert cut_short(ending(spec, target=90), trials[1:]) is None  # the lost trial is run again


def test_a_better_trial_that_breaks_a_bound_is_no_gain(spec: SearchSpec) -> None:
    trials = trials_of([70.0, 80.0, 69.0])
    trials[1].rows[-1][VALIDATION.forgetting] = 9.0
    bound = Constraint.parse("forgetting <= 5", [VALIDATION.forgetting])
    assert cut_short(ending(spec, patience=2), trials) is None
    assert cut_short(ending(spec, patience=2).model_copy(update={"constraints": (bound,)}), trials) is not None


def test_trials_that_run_at_the_end_are_waited_for(spec: SearchSpec) -> None:
    spec, trials = ending(spec, patience=1), trials_of([70.0, 60.0, "running"])
    assert cut_short(spec, trials) is not None and not all_ended(spec, trials)
    assert cut_short(spec, [trials[0], make_trial(2, value=60.0)]) is None  # trial 1 has not started
    trials[2] = make_trial(2, value=99.0)
    assert all_ended(spec, trials) and planned_trials(spec, trials) == 3


@pytest.mark.parametrize("killed_after", range(1, 7))
def test_a_killed_search_ends_where_it_would_have_ended(spec: SearchSpec, killed_after: int) -> None:
    spec, values = ending(spec, patience=3), [70.0, 69.0, 71.0, 70.0, 71.4, 71.5, 99.0, 99.0]

    def play(history: list[TrialSummary], most: int) -> list[TrialSummary]:
        table = TrialTable(history)
        searcher = OptunaSearcher(spec, history, table)
        while len(list(table)) < most and (found := searcher.next()) is not None:
            number, point = found
            trial = make_trial(number, value=values[number], hyperparameters=dict(point))
            table.put(trial)
            searcher.report(number, 1, values[number])
            searcher.finish(number, "complete", values[number])
        return list(table)

    straight = play([], 12)
    assert [trial.number for trial in straight] == [0, 1, 2, 3, 4, 5]
    assert play(play([], killed_after), 12) == straight


def recorded(spec: SearchSpec, tmp_path: Path, trials: Sequence[TrialSummary]) -> Any:
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    for trial in trials:
        Record(directory.record).write(trial)
    return directory


def test_a_search_that_ended_early_is_finished_and_says_why(spec: SearchSpec, tmp_path: Path) -> None:
    spec, trials = ending(spec, patience=2), trials_of([70.0, 70.4, 69.0])
    directory = recorded(spec, tmp_path, trials)
    found = read_status(directory)
    assert (found.state, found.n_ended, found.planned, found.counts["pending"]) == ("finished", 3, 3, 0)
    why = "2 trials in a row, up to trial 2, did not move the best by more than 0.50 points"
    assert found.as_dict()["ended"] == {"reason": "patience", "why": why}
    last = ending_of(spec.model_copy(update={"trials": 3}), directory, trials)
    assert last is not None and last.reason == "patience", "also at the last trial that there is"
    first = ending_of(ending(spec, patience=1), directory, trials[:2])
    assert first is not None and first.why.startswith("1 trial in a row, up to trial 1, did not move")
    write_best(spec, directory, trials)
    selection = load_best(directory.best_file).selection
    assert selection is not None and selection.ended is not None and selection.ended.why == why


def test_what_stopped_a_driver_is_said_until_another_runs(spec: SearchSpec, tmp_path: Path) -> None:
    directory = recorded(ending(spec, patience=3), tmp_path, [*trials_of([70.0, 69.0]), make_trial(2)])
    assert read_status(directory).ending is None
    note_stopped(directory, "time budget")
    found = read_status(directory)
    assert found.state == "stopped" and str(found.ending) == (
        "time budget: the time budget is used up after 2 of 12 trials"
    )
    note_stopped(directory, "closed output")
    assert str(read_status(directory).ending) == "interrupted: its output was closed after 2 of 12 trials"
    with driver_lock(directory):
        assert read_status(directory).ending is None
    note_stopped(directory, None)
    assert read_status(directory).ending is None


def test_more_trials_begin_the_count_anew(spec: SearchSpec, tmp_path: Path) -> None:
    spec = ending(spec, patience=2, target=71)
    directory = recorded(spec, tmp_path, trials_of([70.0, 71.0, 69.0]))
    known = Record(directory.record).trials()
    assert planned_trials(spec, known) == 3  # fewer than the 12 that it could have had
    assert extended_rule(spec, directory, known[::2]).since == 3  # by their numbers: the record has lost one
    longer = spec.model_copy(update={"stop": extended_rule(spec, directory, known)})
    assert cut_short(spec, trials_of([70.0, 71.0, 69.0])) is not None
    assert cut_short(longer, trials_of([70.0, 71.0, 69.0, 69.0])) is None
    assert cut_short(longer, trials_of([70.0, 71.0, 69.0, 69.0, 71.5])) is not None  # reaches the target again
    longer = longer.model_copy(update={"stop": longer.stop.model_copy(update={"target": None})})
    found = cut_short(longer, trials_of([70.0, 71.0, 69.0, 69.0, 71.5]))
    assert found is not None and found.reason == "patience"  # the best so far still counts


@pytest.mark.parametrize(("fresh", "noise"), [((66.0, 70.0), 2.0), ((68.0, 68.2), 0.5)])  # one image at least
def test_after_a_re_evaluation_a_gain_exceeds_its_error(
    spec: SearchSpec, tmp_path: Path, fresh: tuple[float, float], noise: float
) -> None:
    spec = ending(spec, patience=1).model_copy(update={"reevaluate": Reevaluate(best=1, runs=2)})
    directory = recorded(spec, tmp_path, trials_of([70.0, 69.0]))
    for round_, value in enumerate(fresh):
        again = make_trial(round_, value=value, hyperparameters=make_trial(0).hyperparameters)
        again.seed = round_ + 1
        Record(directory.reevaluation.record).write(again)
    known = Record(directory.record).trials()
    longer = spec.model_copy(update={"stop": extended_rule(spec, directory, known)})
    assert longer.noise == pytest.approx(noise)
    assert cut_short(longer, trials_of([70.0, 69.0, 69.9 + noise])) is not None
    assert cut_short(longer, trials_of([70.0, 69.0, 70.1 + noise])) is None


def test_an_extended_search_is_the_one_that_was_asked_for(spec: SearchSpec, tmp_path: Path) -> None:
    """A campaign's file that asks for more trials, and is driven again after that."""
    spec = ending(spec, patience=2)
    directory = recorded(spec, tmp_path, trials_of([70.0, 69.0, 69.0]))
    plan = Plan(spec, Storage(tmp_path), named=True, resume_if_exists=True, may_extend=True)
    assert plan.continued() == read_spec(directory)
    asked = spec.model_copy(update={"trials": 20})
    plan = Plan(asked, Storage(tmp_path), named=True, resume_if_exists=True, may_extend=True)
    longer = plan.continued()
    assert longer.trials == 20 and longer.stop == StopRule(patience=2, since=3)
    longer.save(directory)
    assert plan.continued() == longer
