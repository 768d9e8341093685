"""A search on several benchmarks driven by hand: its parts, early stopping, kills, re-evaluation, the best file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tausearch.api import SearchRun, continuation
from tausearch.execution.durations import pace_of_trials
from tausearch.execution.recorder import Recorder
from tausearch.runs import (
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunSpec,
    SearchBenchmark,
    Status,
    TrialSummary,
    TrialTable,
    combine_parts,
    parts_of,
    read_status,
    read_trials,
    set_aside_orphans,
)
from tausearch.runs.reevaluations import scales_within
from tausearch.studies import MultiSearcher, PartTuneTrials, ReevaluationSearcher, load_best
from tausearch.studies.parts.searchers import PartSearcher, stopped_parts
from tausearch.tracking import Deliveries, Event, TrialEnded
from tests.support.runs.trials import search_spec
from tests.tausearch.execution.reevaluated import drive
from tests.tausearch.several.made import accuracy, part, parts, several_search, several_spec
from trainables.errors import InputError
from trainables.task_names import NamedTask

pytestmark = pytest.mark.usefixtures("no_insight")


class Killed(Exception):
    """The driver is killed."""


def test_every_part_is_a_unit_of_work_and_the_best_file_serves_each(tmp_path: Path) -> None:
    search = several_search(tmp_path, algorithm="grid", trials=6)
    ran = drive(*search, accuracy)
    assert len(ran) == 6 * (3 + 2) and {number for _, number, _ in ran[:2]} == {0, 1}  # parts of a trial side by side
    spec, _, directory = search
    assert [path.name for path in sorted(directory.record.iterdir())] == [f"trial-{n:05}.parquet" for n in range(12)]
    assert set(Record(directory.record).table()["benchmark"].to_pylist()) == {"digits", "glyphs"}
    found = read_status(directory)
    assert (found.state, found.counts["complete"]) == ("finished", 6) and found.best is not None
    best = load_best(directory.best_file)
    assert best.selection is not None and best.selection.metric == "val/normalised"
    assert list(best.selection.accuracies) == ["digits", "glyphs"] == list(best.benchmarks)
    assert best.on("glyphs").protocol.tasks == 2 and best.on("digits").protocol.tasks == 3
    assert best.on("letters").benchmark == "letters"
    with pytest.raises(InputError, match="chosen on digits, glyphs: give the one to train on with --benchmark"):
        best.on(None)
    assert best.hyperparameters["alpha"] == 2  # on digits 2 is best, on glyphs 4 would be
    assert spec.start["alpha"] == 1


def test_a_kill_costs_nothing(tmp_path: Path) -> None:
    how: dict[str, Any] = {"algorithm": "grid", "trials": 6, "reevaluate": Reevaluate(best=2, runs=2)}
    unbroken = several_search(tmp_path / "unbroken", **how)
    ran = drive(*unbroken, accuracy)
    reevaluated = unbroken[2].reevaluation
    again = parts_of(ReevaluationSpec.of(unbroken[0]))
    fresh = Record(reevaluated.record).trials()
    assert again is not None and len(fresh) == 2 * 2 * 2  # candidates, rounds, benchmarks
    assert {(run.seed, again.split_of(run.number)) for run in fresh} == {(1, 1), (2, 2)}
    for after in range(2, len(ran), 19):
        spec, storage, directory = several_search(tmp_path / str(after), **how)

        def kill(done: int, after: int = after) -> None:
            if done == after:
                raise Killed

        with pytest.raises(Killed):
            drive(spec, storage, directory, accuracy, kill)
        again = drive(spec, storage, directory, accuracy)
        assert len(again) <= len(ran) - after + 2  # at most the task of each slot is run again
        for one, other in ((directory, unbroken[2]), (directory.reevaluation, reevaluated)):
            assert Record(one.record).trials() == Record(other.record).trials()
        assert load_best(directory.best_file) == load_best(unbroken[2].best_file)


def test_the_fresh_runs_of_a_trial_that_was_lost_are_put_aside_and_no_others(tmp_path: Path) -> None:
    how: dict[str, Any] = {"algorithm": "grid", "trials": 6, "reevaluate": Reevaluate(best=2, runs=2)}
    spec, storage, directory = several_search(tmp_path, **how)
    drive(spec, storage, directory, accuracy)
    again, whole = ReevaluationSpec.of(spec), read_status(directory).reevaluation
    assert whole is not None and set_aside_orphans(directory, 2) == {}
    lost, kept = whole.race.candidates
    part_file = directory.record / f"trial-{parts(spec).number(lost, 0):05}.parquet"
    content = part_file.read_bytes()
    part_file.write_bytes(b"damaged")
    with continuation._damaged_set_aside(spec, directory):
        assert not part_file.exists()
        assert len(Record(directory.reevaluation.record).trials()) == 8  # the other part is there
    part_file.write_bytes(content)
    for place in range(2):
        (directory.record / f"trial-{parts(spec).number(lost, place):05}.parquet").unlink()
    assert len(set_aside_orphans(directory, 2)) == 4  # two runs on two benchmarks
    assert {again.candidate(run.number // 2) for run in Record(directory.reevaluation.record).trials()} == {kept}


@pytest.mark.parametrize("algorithm", ["tpe", "random"])
def test_a_search_that_was_killed_tries_what_it_would_have_tried(algorithm: str) -> None:
    spec = several_spec(algorithm=algorithm, trials=10)
    straight = _play(spec, TrialTable())
    assert len(straight) == 10
    for known in (1, 7):
        assert _play(spec, TrialTable(straight[:known])) == straight
    points, others = (
        [trial.hyperparameters for trial in found] for found in (straight, _play(spec, TrialTable(), sign=-1))
    )
    assert points[:6] == others[:6] and (points == others) == (algorithm == "random"), "tpe learns"


def test_a_trial_that_was_put_aside_is_the_next_one() -> None:
    spec = several_spec()
    found = [part(spec, number, place, 80.0) for number in (0, 2) for place in range(2)]
    suggestion = MultiSearcher(spec, TrialTable(combine_parts(parts(spec), found))).next()
    assert suggestion is not None and suggestion[0] == 1


def _play(spec: Any, trials: TrialTable, sign: int = 1) -> list[Any]:
    """Run a search one trial at a time on the trials that are known."""
    found = [each for trial in trials for each in trial.parts]  # type: ignore[attr-defined]
    searcher = MultiSearcher(spec, trials)
    while (suggestion := searcher.next()) is not None:
        number, point = suggestion
        for place in range(2):
            value = sign * accuracy(parts(spec), parts(spec).number(number, place), dict(point))
            found.append(part(spec, number, place, value, hyperparameters=dict(point)))
        for trial in combine_parts(parts(spec), found):
            trials.put(trial)
    return list(trials)


def test_a_trial_is_stopped_between_benchmarks_for_good(tmp_path: Path) -> None:
    spec, storage, directory = several_search(tmp_path, algorithm="grid", trials=6, scheduler="asha")
    drive(spec, storage, directory, accuracy)
    trials = {trial.number: trial for trial in read_trials(spec, directory)}
    stopped = [number for number, trial in trials.items() if trial.status == "pruned"]
    assert stopped and all(trials[number].tasks_done == 1 for number in stopped)
    best = read_status(directory).best
    assert best is not None and best.number not in stopped
    assert drive(spec, storage, directory, accuracy) == []
    # A driver that died before it noted that it stopped the trial judges it again, and trains nothing.
    lost = directory.record / f"trial-{parts(spec).number(stopped[-1], 1):05}.parquet"
    lost.unlink()
    told: list[Event] = []
    deliveries = SimpleNamespace(of=lambda spec: [SimpleNamespace(send=told.append)])
    Recorder(SearchRun(spec, storage, directory), cast(Deliveries, deliveries)).announcer.begin()
    assert read_trials(spec, directory)[stopped[-1]].status == "pruned" and lost.exists()
    assert sum(isinstance(event, TrialEnded) and event.trial.number == stopped[-1] for event in told) == 1


def test_while_a_search_is_extended_its_fresh_runs_are_on_the_new_scale(tmp_path: Path) -> None:
    """In the fresh runs trial 0 is ahead by three points of digits, until trial 2 shows that these are few."""
    spec, storage, directory = several_search(tmp_path, reevaluate=Reevaluate(best=1, runs=1, start=True))
    again = ReevaluationSpec.of(spec)
    both = parts_of(again)
    assert both is not None
    searched, fresh = ((80.0, 50.0), (82.0, 51.0)), ((83.0, 50.0), (80.0, 51.0))
    for trial, place in ((0, 0), (0, 1), (1, 0), (1, 1)):
        point = {**spec.fixed, "alpha": 1.0 + trial, "lr": 0.01}
        Record(directory.record).write(part(spec, trial, place, searched[trial][place], hyperparameters=point))
        number = both.number(again.number(trial, 0), place)
        run = part(spec, trial, place, fresh[trial][place], hyperparameters=point)
        Record(directory.reevaluation.record).write(replace(run, number=number, seed=again.seed_of(0)))
    before = read_status(directory).reevaluation
    assert before is not None and before.verdict is not None
    assert (before.verdict.chosen, before.verdict.mean) == (0, 75.0)
    search = SearchRun(spec, storage, directory)
    search.listeners = search.tune_trials.listeners(Noting(directory.record), search.own_listeners)
    for place, value in enumerate((90.0, 40.0)):
        search.tune_trials.trials.put(part(spec, 2, place, value))
        for each in search.listeners:
            each.trial_changed(part(spec, 2, place, value))
    selection = load_best(directory.best_file).selection
    assert selection is not None and selection.reevaluation is not None
    assert (selection.trial, selection.reevaluation.value) == (1, 50.0)


def test_fresh_runs_are_on_the_scale_of_the_search_and_not_on_one_of_their_own() -> None:
    spec = several_spec(reevaluate=Reevaluate(best=1, runs=1, start=True))
    both = parts_of(ReevaluationSpec.of(spec))
    assert both is not None
    searched = combine_parts(parts(spec), [part(spec, trial, 0, 80.0 + 4 * trial) for trial in range(2)])
    fresh = [replace(part(spec, 0, place, 81.0), number=both.number(0, place)) for place in range(2)]
    scales = scales_within(spec, searched)
    again = PartTuneTrials(both, TrialTable(fresh), TrialTable(), MultiSearcher(spec, TrialTable()), scales)
    assert [trial.value for trial in again.as_trials(fresh)] == [25.0]  # a point of four; glyphs has no scale yet
    again.update()
    assert [trial.value for trial in again.trial_table] == [25.0]


class Noting:
    """The record of parts as a listener."""

    def __init__(self, folder: Path) -> None:
        self.trial_changed = Record(folder).write


def test_a_trial_that_diverges_on_one_benchmark_costs_no_other(tmp_path: Path) -> None:
    def outcome(spec: RunSpec, number: int, hyperparameters: dict[str, Any]) -> float:
        bad = hyperparameters["alpha"] == 2 and spec.benchmark_of(number) == "digits"
        return math.nan if bad else accuracy(spec, number, hyperparameters)

    spec, storage, directory = several_search(tmp_path, algorithm="grid", trials=6, scheduler="asha")
    drive(spec, storage, directory, outcome)
    diverged = [trial for trial in read_trials(spec, directory) if trial.status == "diverged"]
    assert len(diverged) == 2 and all(trial.error == "digits: not finite" for trial in diverged)
    assert all(trial.hyperparameters["alpha"] == 2 and trial.accuracies == (None, None) for trial in diverged)


@pytest.mark.parametrize("status", ["diverged", "failed", "pruned"])
def test_the_other_parts_of_an_ended_trial_are_stopped(status: Status) -> None:
    spec = several_spec()
    whole, known, trials = MultiSearcher(spec, TrialTable()), TrialTable(), TrialTable()
    searcher = PartSearcher(parts(spec), whole, known, trials)
    assert [searcher.next(), searcher.next()] == [(0, spec.start), (1, spec.start)]
    assert not searcher.report(1, 1, 50.0)
    for each in (part(spec, 0, 0, None, status=status), part(spec, 0, 1, None)):
        known.put(each)
    for trial in combine_parts(parts(spec), known):
        trials.put(trial)
    assert searcher.report(1, 1, 50.0)
    found = searcher.next()
    assert found is not None and found[0] == 2


def test_after_a_restart_the_oldest_trial_goes_on_and_the_searcher_of_trials_learns_how_they_end() -> None:
    """Trial 0 runs on its second benchmark, trial 1 on its first, and trial 3 has ended."""
    spec = several_spec()
    found = [part(spec, trial, place, 80.0 + trial + 9 * place) for trial, place in ((0, 0), (3, 0), (3, 1))]
    known = TrialTable([part(spec, 1, 0, None), part(spec, 0, 1, None), *found])
    trials = TrialTable(combine_parts(parts(spec), known))
    told: list[Any] = []
    proposed = iter([(0, spec.start), (1, spec.start), (2, spec.start), None])
    whole: Any = SimpleNamespace(next=proposed.__next__, finish=lambda *ended: told.append(ended))
    searcher = PartSearcher(parts(spec), whole, known, trials)
    handed_out = [searcher.next() for _ in range(6)]
    assert [each and each[0] for each in handed_out] == [1, 2, 3, 4, 5, None]
    assert not searcher.report(6, 1, 50.0), "trial 3 is complete"
    searcher.finish(1, "complete", 89.0)
    searcher.finish(2, "failed", None)
    searcher.finish(7, "complete", 92.0)
    ended = trials.get(3)
    assert ended is not None and told == [(1, "failed", None), (3, "complete", ended.value)] and ended.value != 92.0
    lost = [[each.number for each in stopped_parts(parts(spec), trial)] for trial in trials]  # type: ignore[arg-type]
    assert sorted(lost) == [[], [], [3]]


@pytest.mark.parametrize(("rounds", "left"), [(2, 1), (1, 0)])
def test_an_unfinished_fresh_run_goes_on_only_while_the_race_wants_it(rounds: int, left: int) -> None:
    spec = several_spec(reevaluate=Reevaluate(best=1, runs=rounds))
    trials = combine_parts(parts(spec), TrialTable([part(spec, 0, place, 80.0) for place in (0, 1)]))
    again: Any = ReevaluationSpec.of(spec)
    done = [(0, 0), (0, 1), (1, 0)]  # rounds and places: the second benchmark of the second round is left
    numbers = [parts(again).number(again.number(0, round_), place) for round_, place in done]
    known = TrialTable([replace(part(spec, 0, 0, 80.0), number=number) for number in numbers])
    fresh = TrialTable(combine_parts(parts(again), known))
    searcher = PartSearcher(parts(again), ReevaluationSearcher(again, trials, fresh), known, fresh)
    wanted = [number for _ in range(2) if (found := searcher.next()) is not None for number in found[:1]]
    assert wanted == [parts(again).number(again.number(0, 1), 1)] * left


def test_others_are_told_of_a_trial_when_it_finishes_a_benchmark_and_not_before_or_again() -> None:
    spec = several_spec()
    tune_trials = PartTuneTrials(
        parts(spec), TrialTable([part(spec, 0, 0, 80.0)]), TrialTable(), MultiSearcher(spec, TrialTable())
    )
    tune_trials.update()
    told: list[Any] = []
    other = SimpleNamespace(trial_changed=lambda trial: told.append((trial.number, trial.status, trial.tasks_done)))
    _, listener = tune_trials.listeners(SimpleNamespace(trial_changed=lambda part: None), [other])
    rows = part(spec, 0, 1, 50.0).rows
    for each in (part(spec, 0, 0, 80.0), part(spec, 0, 1, None, rows=rows), *[part(spec, 0, 1, 50.0)] * 2):
        tune_trials.trials.put(each)
        listener.trial_changed(each)
    assert told == [(0, "complete", 2)]
    for each in (part(spec, 1, 0, None, rows=[]), part(spec, 1, 0, 80.0), part(spec, 1, 1, None, rows=rows)):
        tune_trials.trials.put(each)
        listener.trial_changed(each)
    assert told[1:] == [(1, "running", 0), (1, "running", 1)]


@pytest.mark.parametrize("scheduler", ["median", "asha"])
def test_a_trial_that_went_on_after_a_benchmark_is_not_stopped_by_those_that_came_there_later(scheduler: str) -> None:
    """On a single benchmark it is not, either."""
    names = ("digits", "glyphs", "letters")
    one = SearchBenchmark(protocol=search_spec().protocol.model_copy(update={"tasks": 2}), steps=2)
    changes = {"steps": 3, "across": "mean", "scheduler": scheduler, "algorithm": "random", "trials": 12}
    whole = {"tasks": tuple(NamedTask((name,)) for name in names), "parts": dict.fromkeys(names, one)}
    spec = several_spec(benchmark=",".join(names), **changes, **whole)

    def stops(found: list[TrialSummary]) -> bool:
        return MultiSearcher(spec, TrialTable(combine_parts(parts(spec), found))).should_stop(0)

    others = [
        part(spec, number, place, value)
        for number in range(1, 6)
        for place, value in enumerate((90.0 + number, 50.0, 50.0))
    ]
    first, second = part(spec, 0, 0, 80.0), part(spec, 0, 1, 95.0)
    assert not stops([first]), "it is alone"
    assert stops([first, *others]), "it would be the last there"
    assert stops([first, *others[::3]]), "the others still run"
    for second_runs, lost in ((True, []), (False, [1, 2])):
        known = [first, *others, *[part(spec, 0, 1, None)] * second_runs]
        trials = TrialTable(combine_parts(parts(spec), known))
        tune_trials = PartTuneTrials(parts(spec), TrialTable(known), trials, MultiSearcher(spec, trials))
        assert [each.number for each in tune_trials.stopped_early(trials.get(0))] == lost
    assert not stops([first, *others, second]), "it leads after the second"
    assert stops([first, *others, part(spec, 0, 1, 20.0)])


def test_fresh_runs_of_a_search_whose_trials_are_gone_are_named(tmp_path: Path) -> None:
    """There is no scale for their accuracies then."""
    spec, _, directory = several_search(tmp_path, reevaluate=Reevaluate(best=1, runs=1))
    again = ReevaluationSpec.of(spec)
    for place in range(2):
        run = part(spec, 0, place, 50.0)
        Record(directory.reevaluation.record).write(replace(run, seed=again.seed_of(0)))
    with pytest.raises(InputError, match="the search has no trial 0"):
        read_status(directory)


def test_a_trial_that_found_all_in_the_cache_says_so_and_counts_as_such() -> None:
    spec = several_spec()

    def timed(trial: int, place: int) -> TrialSummary:
        seconds = {"cache/hit": float(trial > 0), "seconds/preconsolidation": 0.1 if trial else 10.0}
        found = part(spec, trial, place, 50.0)
        return replace(found, rows=[seconds, {**found.rows[0], **seconds}])

    whole = combine_parts(parts(spec), [timed(trial, place) for trial in range(4) for place in range(2)])
    pace = pace_of_trials([trial.rows for trial in whole])
    assert pace is not None and pace.shared == pytest.approx(40)
    assert [[row["cache/hit"] for row in trial.rows] for trial in whole[:2]] == [[0.0, 0.0], [1.0, 1.0]]
