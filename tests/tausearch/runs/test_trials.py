"""Trials as the driver counts them: which have ended, which wait, which is best."""

from __future__ import annotations

from typing import get_args

import pytest

from tausearch.runs import Status, TrialSummary, TrialTable, all_ended, at_rest, best_trial, trials as trials_module
from tausearch.runs.trials import final_value, metrics_of, ranked
from tests.support.runs.trials import make_trial, search_spec

STATUSES = get_args(Status)


def test_a_trial_that_does_not_run_has_ended() -> None:
    table = TrialTable([make_trial(n, status=status) for n, status in enumerate(STATUSES)])
    assert table.n_ended == len(STATUSES) - 1
    table.put(make_trial(STATUSES.index("running"), value=70.0))
    assert table.n_ended == len(STATUSES)


def test_a_table_keeps_what_is_known_of_all_trials() -> None:
    table = TrialTable([make_trial(0, value=70.0), make_trial(1, tasks=1)])
    for trial in (make_trial(1, tasks=2), make_trial(2, tasks=3), make_trial(2, tasks=3, status="pruned")):
        table.put(trial)
    assert (len(table), table.tasks_done, [trial.tasks_done for trial in table.running]) == (3, 3 + 2 + 3, [2])
    assert {status: count for status, count in table.counts.items() if count} == dict.fromkeys(
        ("complete", "running", "pruned"), 1
    )


def test_a_table_keeps_its_trials_in_order_without_a_look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [70.0, 80.0, 75.0, 80.0, 60.0]
    trials = [make_trial(number, value=values[number % 5] + number % 3) for number in range(1000)]
    table, one = TrialTable(trials), "tausearch.runs.trials._rank"
    assert ranked(table) == ranked(trials)
    looked: list[int] = []
    monkeypatch.setattr(one, lambda trial, rank=trials_module._rank: (looked.append(trial.number), rank(trial))[1])
    for changed in (make_trial(7, value=99.0), make_trial(7, tasks=1), make_trial(8, tasks=1, status="pruned")):
        table.put(changed)
        trials[changed.number] = changed
    assert len(looked) < 100
    assert ranked(table) == ranked(trials) and best_trial(table) == best_trial(trials)


def test_at_rest_a_trial_that_ran_waits_and_the_others_are_as_they_were() -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, tasks=1), make_trial(2, tasks=1, status="pruned")]
    rest = at_rest(trials)
    assert [trial.status for trial in rest] == ["complete", "pending", "pruned"]
    assert rest[::2] == trials[::2] and trials[1].status == "running"


@pytest.mark.parametrize(
    ("statuses", "over"), [(("complete", "failed"), True), (("complete",), False), (("complete", "running"), False)]
)
def test_a_run_is_over_when_as_many_trials_as_it_has_are(statuses: tuple[str, ...], over: bool) -> None:
    trials = [make_trial(n, status=status) for n, status in enumerate(statuses)]
    assert all_ended(search_spec().model_copy(update={"trials": 2}), trials) is over


def test_only_a_complete_trial_with_a_value_competes() -> None:
    failed_at_the_end, lost = make_trial(0, value=99.0, status="failed"), make_trial(1, status="complete")
    assert best_trial([failed_at_the_end, lost]) is None
    best = best_trial([failed_at_the_end, lost, make_trial(2, value=50.0)])
    assert best is not None and best.number == 2


def test_of_equal_ones_that_is_best_which_forgets_less_then_the_earlier() -> None:
    trials = [make_trial(number, value=70.0) for number in range(4)]
    for trial, forgotten in zip(trials, (3.0, 2.0, 2.0, 9.0), strict=True):
        trial.rows[-1]["val/forgetting"] = forgotten
    assert [trial.number for trial in ranked(trials)] == [1, 2, 0, 3]
    trials[3].value = 70.5
    assert [trial.number for trial in ranked(trials)] == [3, 1, 2, 0]
    assert make_trial(0, tasks=2).forgetting == 0  # nothing is known of it yet


def test_own_seconds_leave_out_what_trials_share() -> None:
    trial = make_trial(0, tasks=2)
    trial.rows[0]["seconds/preconsolidation"] = 40.0
    assert (trial.seconds, trial.own_seconds) == (43.0, 3.0)
    assert trial.facts["seconds"] == 43.0 and "task" not in trial.metrics and "seconds/training" in trial.metrics


def test_a_reader_of_the_order_keeps_the_one_that_it_has() -> None:
    table = TrialTable([make_trial(0, value=70.0)])
    before = table.ranked
    table.put(make_trial(1, value=80.0))
    assert [[trial.number for trial in each] for each in (before, table.ranked)] == [[0], [1, 0]]


def test_a_seed_of_a_final_run_forgets_on_the_test_images() -> None:
    seed = TrialSummary(
        0, 0, "complete", {}, [{"task": 1.0, "test/final_accuracy": 70.0, "test/forgetting": 3.0}], 70.0
    )
    assert seed.forgetting == 3.0


def test_a_result_of_tune_has_a_row_with_its_metrics_and_seconds_alone() -> None:
    assert final_value({"val/final_accuracy": 0.0}) == 0.0  # it has come to its end
    row = {"task": 2.0, "val/average_accuracy": 90.0, "seconds/training": 1.5}
    assert metrics_of({**row, "pid": 7, "time_total_s": 9.0, "done": False}) == row
