"""How accuracies on several benchmarks become one value, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tausearch.runs import (
    Constraint,
    MultiTrial,
    Record,
    Reevaluate,
    ReevaluationSpec,
    Scale,
    StopRule,
    TrialTable,
    combine_parts,
    gain_of,
    leave_one_out,
    parts_of,
    recorded_trials,
    reevaluation_of,
)
from tausearch.runs.parts.scores import Across
from tausearch.studies.best_file import make_best_file
from tausearch.studies.parts.searchers import MultiSearcher
from tests.tausearch.several.made import part, parts, several_search, several_spec
from trainables.metrics import CACHE_HIT, PEAK_GPU_BYTES, TRAIN_LOSS, WAITING

KNOWN = (80.0, 84.0, 82.0, 82.0)


@pytest.mark.parametrize(
    ("across", "accuracy", "score"),
    [
        ("mean", 83.0, 83.0),
        ("normalised", 80.0, 0.0),  # the start
        ("normalised", 84.0, 100.0),  # the best
        ("normalised", 83.0, 75.0),
        ("normalised", 10.0, -100.0),  # one benchmark does not decide alone
        ("rank", 84.0, 100 * 3.5 / 4),  # the first of four
        ("rank", 82.0, 100 * 2 / 4),  # two share the ranks 2 and 3
        ("rank", 80.0, 100 * 0.5 / 4),
    ],
)
def test_a_score_says_where_an_accuracy_stands(across: Across, accuracy: float, score: float) -> None:
    scale = Scale.of(across, 80.0, KNOWN)
    assert scale is not None and scale.score(accuracy) == pytest.approx(score)


def test_a_gain_below_a_point_is_noise_and_a_missing_start_the_worst() -> None:
    scale, without = Scale.of("normalised", 84.0, (83.9, 84.1)), Scale.of("normalised", None, (82.0, *KNOWN))
    assert scale is not None and scale.score(84.1) == pytest.approx(10) and scale.score(83.9) == pytest.approx(-10)
    assert without is not None and (without.start, without.score(82.0)) == (80.0, 50.0)
    assert Scale.of("mean", None, ()) is None


def test_values_move_with_the_best_and_rows_do_not() -> None:
    spec = several_spec()
    first = [part(spec, 0, 0, 90.0), part(spec, 0, 1, 50.0), part(spec, 1, 0, 92.0), part(spec, 1, 1, 45.0)]
    before = combine_parts(parts(spec), first)
    # Trial 1: 100 on digits; on glyphs, where the start is the best, 5 points below it are -100.
    assert [trial.value for trial in before] == [0.0, 0.0] and before[1].scores == (100.0, 0.0)
    later = [*first, part(spec, 2, 0, 94.0), part(spec, 2, 1, 60.0)]
    known = {trial.number: trial for trial in before}
    after = combine_parts(parts(spec), later, known=known)
    assert [trial.value for trial in after] == [0.0, 0.0, 100.0] and after[1].scores == (50.0, 0.0)
    assert all(new is old for a, b in zip(before, after, strict=False) for new, old in zip(b.rows, a.rows, strict=True))
    assert [row["val/average_accuracy"] for row in after[2].rows] == [94.0, 77.0]
    assert after[2].final["val/accuracy/task_2"] == 60.0 and after[2].final["val/final_accuracy"] == 77.0


@pytest.mark.parametrize(
    ("second", "status", "error"),
    [
        (None, "running", None),
        ({"status": "running"}, "running", None),
        ({"status": "diverged", "error": "nan"}, "diverged", "glyphs: nan"),
        ({"status": "failed", "error": "killed"}, "failed", "glyphs: killed"),
        ({"status": "pruned"}, "pruned", None),
    ],
)
def test_a_trial_is_what_its_parts_are(second: dict[str, str] | None, status: str, error: str | None) -> None:
    spec = several_spec()
    found = [part(spec, 0, 0, 90.0)] + ([] if second is None else [part(spec, 0, 1, None, **second)])
    (trial,) = combine_parts(parts(spec), found)
    assert (trial.status, trial.error, trial.value, trial.tasks_done) == (status, error, None, 1)
    assert trial.accuracies == (90.0, None)


@pytest.mark.parametrize("place", [0, 1])
def test_a_part_that_was_stopped_because_another_failed_hides_no_error(place: int) -> None:
    spec = several_spec()
    failed = part(spec, 0, place, None, status="failed", error="killed")
    stopped = part(spec, 0, 1 - place, None, status="pruned")
    (trial,) = combine_parts(parts(spec), [failed, stopped])
    assert (trial.status, trial.error) == ("failed", f"{('digits', 'glyphs')[place]}: killed")


def test_recorded_trials_are_scored_by_the_scales_that_are_given(tmp_path: Path) -> None:
    spec, _, directory = several_search(tmp_path)
    for place in (0, 1):
        Record(directory.record).write(part(spec, 0, place, 83.0))
    scale = Scale.of("normalised", 80.0, KNOWN)
    found = [recorded_trials(spec, Record(directory.record), scales)[0].value for scales in (None, (scale, scale))]
    assert found == [0.0, 75.0]


def test_each_benchmark_is_left_out_of_the_choice_and_judges_it() -> None:
    spec = several_spec()
    accuracies = [(90.0, 50.0), (94.0, 58.0), (91.0, 60.0), (94.0, 58.0)]  # of the equal ones the first is chosen
    found: list[MultiTrial] = combine_parts(
        parts(spec), [part(spec, t, b, value) for t, row in enumerate(accuracies) for b, value in enumerate(row)]
    )
    digits, glyphs = leave_one_out(spec, found)
    assert (digits.start, digits.trial, digits.accuracy, digits.best_trial, digits.best) == (90.0, 2, 91.0, 1, 94.0)
    assert (glyphs.title, glyphs.trial, glyphs.accuracy, glyphs.lost) == ("glyphs", 1, 58.0, 2.0)
    assert leave_one_out(spec, found[:1]) == []
    bound = Constraint(metric="val/final_accuracy", relation="<=", bound=93.0)  # trials 1 and 3 break it
    assert leave_one_out(several_spec(constraints=(bound,)), found)[0].best_trial == 2


def test_accuracies_in_the_best_file_have_their_benchmarks_in_the_order_that_was_asked_for() -> None:
    spec = several_spec(benchmark="glyphs,digits", parts=dict(reversed(several_spec().parts.items())))
    point = {**spec.fixed, **spec.start}
    found = [part(spec, 0, place, value, hyperparameters=point) for place, value in enumerate((50.0, 90.0))]
    (trial,) = combine_parts(parts(spec), found)
    best = make_best_file(spec, trial, competitors=1)
    assert best.selection is not None and best.selection.accuracies == {"glyphs": 50.0, "digits": 90.0}


def test_of_equal_accuracies_on_a_benchmark_the_earlier_trial_is_its_best() -> None:
    spec = several_spec()
    accuracies = [(90.0, 50.0), (94.0, 49.0), (94.0, 60.0)]
    found = combine_parts(
        parts(spec), [part(spec, t, b, value) for t, row in enumerate(accuracies) for b, value in enumerate(row)]
    )
    assert leave_one_out(spec, found)[0].best_trial == 1


@pytest.mark.parametrize(("target", "ended"), [(80.0, True), (95.0, False)])
def test_a_search_on_several_benchmarks_ends_at_its_target(target: float, ended: bool) -> None:
    spec = several_spec(across="mean", stop=StopRule(target=target))
    trials = TrialTable(combine_parts(parts(spec), [part(spec, 0, place, 90.0) for place in (0, 1)]))
    assert (MultiSearcher(spec, trials).next() is None) is ended
    later = TrialTable(combine_parts(parts(spec), [part(spec, 1, place, 90.0) for place in (0, 1)]))
    lost = MultiSearcher(spec, later)  # is run again; its processes have not started
    assert [found[0] for found in (lost.next(), lost.next()) if found is not None] == ([0] if ended else [0, 2])


def test_a_gain_has_the_unit_of_the_score() -> None:
    for across, unit in (("normalised", "normalised"), ("rank", "rank %"), ("mean", "points")):
        spec = several_spec(across=across)
        start, better = combine_parts(parts(spec), [part(spec, t, b, 80.0 + 9 * t) for t in (0, 1) for b in (0, 1)])
        at_start = replace(start, hyperparameters=dict(spec.start))
        gain = gain_of(spec, [at_start, better], better, None)
        assert gain is not None and gain.better and gain.unit == unit == spec.value_labels.difference


def test_of_equal_accuracies_the_trial_that_forgets_less_is_chosen_on_the_others_and_here() -> None:
    spec = several_spec()
    forgetting = [(2.0, 1.0), (1.0, 2.0), (1.0, 1.5)]
    found = [part(spec, t, b, 90.0) for t in range(3) for b in range(2)]
    for each, forgets in zip(found, [each for row in forgetting for each in row], strict=True):
        each.rows[-1]["val/forgetting"] = forgets
    digits, glyphs = leave_one_out(spec, combine_parts(parts(spec), found))
    assert (digits.trial, digits.best_trial) == (0, 1), "by glyphs alone, and by digits alone the earlier of two"
    assert (glyphs.trial, glyphs.best_trial) == (1, 0)


def test_the_memory_of_a_trial_is_the_peak_of_its_part() -> None:
    spec = several_spec()
    found = part(spec, 0, 0, 90.0)
    rows = [{**found.rows[0], PEAK_GPU_BYTES: peak} for peak in (9.0, 7.0)]
    (trial,) = combine_parts(parts(spec), [replace(found, rows=rows)])
    assert trial.rows[0][PEAK_GPU_BYTES] == 9.0


def test_a_row_has_the_seconds_of_its_part_and_the_waiting_in_them() -> None:
    spec = several_spec()
    found = part(spec, 0, 0, 90.0)
    for row in found.rows:
        row |= {"seconds/training": 3.0, WAITING: 1.0}
    (trial,) = combine_parts(parts(spec), [found])
    assert trial.rows[0][WAITING] == len(found.rows) and trial.seconds == 3.0 * len(found.rows)


def test_a_row_has_the_last_loss_of_its_part_and_a_cache_that_lacked_something_once() -> None:
    spec = several_spec()
    found = part(spec, 0, 0, 90.0)
    rows = [{**found.rows[0], TRAIN_LOSS: loss, CACHE_HIT: hit} for loss, hit in ((2.0, 0.0), (1.0, 1.0))]
    (trial,) = combine_parts(parts(spec), [replace(found, rows=rows)])
    assert (trial.rows[0][TRAIN_LOSS], trial.rows[0][CACHE_HIT]) == (1.0, 0.0)


def test_forgetting_is_the_mean_over_the_benchmarks() -> None:
    spec = several_spec()
    found = [part(spec, 0, place, 90.0) for place in (0, 1)]
    for each, forgetting in zip(found, (4.0, 2.0), strict=True):
        each.rows[-1]["val/forgetting"] = forgetting
    (trial,) = combine_parts(parts(spec), found)
    assert [row["val/forgetting"] for row in trial.rows] == [4.0, 3.0]


def test_a_bound_holds_after_every_task_of_every_benchmark() -> None:
    spec, bound = several_spec(), Constraint(metric="val/average_accuracy", relation=">=", bound=60.0)
    found = [part(spec, 0, place, 90.0) for place in (0, 1)]
    (trial,) = combine_parts(parts(spec), found)
    assert bound.kept_by(trial)
    early = replace(found[0], rows=[{"task": 1.0, "val/average_accuracy": 50.0}, {**found[0].rows[0], "task": 2.0}])
    (trial,) = combine_parts(parts(spec), [early, found[1]])
    assert not bound.kept_by(trial)


def test_a_benchmark_counts_once_those_before_it_are_finished() -> None:
    spec = several_spec()
    (trial,) = combine_parts(parts(spec), [part(spec, 0, 0, None), part(spec, 0, 1, 50.0)])
    assert (trial.tasks_done, trial.accuracies) == (0, (None, 50.0))


@pytest.mark.parametrize(
    ("across", "worst", "own"), [("normalised", -100.0, True), ("rank", 0.0, True), ("mean", 0.0, False)]
)
def test_a_diverged_trial_has_the_lowest_score_that_there_is(across: Across, worst: float, own: bool) -> None:
    spec = several_spec(across=across)
    assert (spec.worst, spec.has_own_scale) == (worst, own)


def test_benchmarks_of_one_name_have_their_options_as_titles_and_all_may_be_own_code() -> None:
    own = several_spec().parts["digits"]
    spec = several_spec(parts=dict.fromkeys(("digits?tasks=5", "digits?tasks=2", "mine:Source?size=2"), own))
    assert spec.titles == ("digits?tasks=5", "digits?tasks=2", "mine:Source")
    folders = several_spec(parts=dict.fromkeys(("folder:/a/birds?tasks=5", "folder:/a/birds?tasks=2"), own))
    assert folders.titles == ("folder:birds?tasks=5", "folder:birds?tasks=2")
    assert {"digits", "mine:Source"} <= set(spec.user_code_names) and "mine:Source" in parts(spec).user_code_names


def test_parts_have_room_for_the_tasks_of_the_longest_benchmark() -> None:
    found = parts(several_spec())
    assert (found.protocol.tasks, found.steps, found.tasks) == (3, 3, ())


def test_a_part_of_a_fresh_run_has_its_seed_and_split_and_says_what_it_is_of() -> None:
    again = ReevaluationSpec.of(several_spec(reevaluate=Reevaluate(best=1, runs=2)))
    found, trial = parts_of(again), again.number(3, 1)
    assert reevaluation_of(again, (), ()).unit == again.value_labels.unit == "normalised"
    assert again.label(trial) == "re-evaluation of trial 3, seed 2"
    assert found is not None
    number = found.number(trial, 1)
    assert (found.seed_of(number), found.split_of(number)) == (again.seed_of(trial), again.split_of(trial)) == (2, 2)
    columns = {"role": "reevaluation", "reevaluates": 3, "split_seed": 2, "of_trial": trial, "benchmark": "glyphs"}
    assert found.extra_columns(number) == columns and found.file_name(number) == f"{again.file_name(trial)}-2"
