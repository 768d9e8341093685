"""What callbacks are told: every change of a trial, a run and a choice, in order, and after a kill once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tausearch.api import SearchRun
from tausearch.execution.announcer import Announcer
from tausearch.runs import Record, SearchSpec, TrialSummary, Verdict
from tausearch.studies import FixedSearcher, load_best
from tausearch.tracking import (
    BestFileWritten,
    ChoiceChanged,
    Delivery,
    Event,
    RunBegan,
    RunEnded,
    TaskDone,
    TrialBegan,
    TrialEnded,
)
from tests.support.runs.trials import make_trial, run_of
from tests.tausearch.execution.reevaluated import drive, reevaluated_search


class Killed(Exception):
    """The driver is killed."""


def short(event: Event) -> tuple[object, ...]:
    """An event in a few words."""
    name = type(event).__name__
    if isinstance(event, TrialBegan | TaskDone | TrialEnded):
        task = (event.row["task"],) if isinstance(event, TaskDone) else ()
        return (name, event.trial.number, *task, *(("again",) if event.repeated else ()))
    if isinstance(event, ChoiceChanged):
        return (name, event.trial.number)
    return (name, len(event.trials)) if isinstance(event, RunBegan) else (name,)


def announcer_of(spec: SearchSpec, told: list[Event], *known: TrialSummary) -> Announcer:
    run = run_of(spec, FixedSearcher([]))
    for trial in known:
        run.trials.put(trial)
    return Announcer(run, [cast(Delivery, SimpleNamespace(send=told.append))])


def test_a_run_that_ends_without_a_trial_has_begun(spec: SearchSpec) -> None:
    told, others = list[Event](), list[Event]()
    announcer = announcer_of(spec, told)
    announcer.deliveries = [*announcer.deliveries, cast(Delivery, SimpleNamespace(send=others.append))]
    announcer.end(RunEnded(announcer.run.info, stopped=True))
    assert told == others  # all of them are told
    assert [short(event) for event in told] == [("RunBegan", 0), ("RunEnded",)]


def test_a_trial_from_its_beginning_to_its_end(spec: SearchSpec) -> None:
    told: list[Event] = []
    announcer = announcer_of(spec, told)
    assert told == []  # before a trial starts, the run may still be refused
    whole = make_trial(0, value=70.0)
    for tasks in range(3):
        announcer.trial_changed(replace(whole, rows=whole.rows[:tasks], status="running", value=None))
    announcer.trial_changed(whole)
    announcer.trial_changed(make_trial(1, tasks=0))
    announcer.trial_changed(make_trial(1, tasks=0, status="failed", error="its process died"))
    announcer.end(RunEnded(announcer.run.info, stopped=False))
    assert [short(event) for event in told] == [
        ("RunBegan", 0),
        ("TrialBegan", 0),
        ("TaskDone", 0, 1.0),
        ("TaskDone", 0, 2.0),
        ("TaskDone", 0, 3.0),
        ("TrialEnded", 0),
        ("TrialBegan", 1),
        ("TrialEnded", 1),
        ("RunEnded",),
    ]
    ended = told[5]
    assert isinstance(ended, TrialEnded) and ended.trial is whole
    assert (ended.run.name, ended.run.kind, ended.run.trials) == (spec.name, "search", 4)


def test_a_trial_whose_process_died_begins_again_and_its_task_is_told_anew(spec: SearchSpec) -> None:
    told: list[Event] = []
    announcer, first = announcer_of(spec, told), make_trial(0, tasks=2)
    announcer.trial_changed(first)
    announcer.trial_changed(replace(first))  # Tune starts it again
    redone = {**first.rows[1], "seconds/training": 9.0}
    announcer.trial_changed(replace(first, rows=[first.rows[0], redone]))
    assert [short(event) for event in told[4:]] == [("TrialBegan", 0), ("TaskDone", 0, 2.0)]
    assert isinstance(told[-1], TaskDone) and told[-1].row is redone


def test_a_run_that_goes_on_tells_what_the_record_has_once_more(spec: SearchSpec) -> None:
    told: list[Event] = []
    ended, begun = make_trial(0, tasks=1, status="pruned"), make_trial(1, tasks=1)
    announcer = announcer_of(spec, told, ended, begun)
    announcer.trial_changed(replace(begun))
    announcer.trial_changed(replace(begun, rows=[*begun.rows, {"task": 2.0}]))
    assert [short(event) for event in told] == [
        ("RunBegan", 2),
        ("TrialBegan", 0, "again"),
        ("TaskDone", 0, 1.0, "again"),
        ("TrialEnded", 0, "again"),
        ("TrialBegan", 1, "again"),
        ("TaskDone", 1, 1.0, "again"),
        ("TrialBegan", 1),
        ("TaskDone", 1, 2.0),
    ]
    assert isinstance(told[0], RunBegan) and told[0].continued and told[0].trials == (ended, begun)


def test_a_search_tells_its_choices_and_those_of_its_reevaluation(tmp_path: Path) -> None:
    told: list[Event] = []
    files: list[int] = []
    spec, storage, directory = reevaluated_search(tmp_path)

    def send(event: Event) -> None:
        told.append(event)
        if isinstance(event, TrialEnded):  # the record has it
            again = directory.reevaluation if event.run.kind == "reevaluation" else directory
            assert event.trial in Record(again.record).trials()
        if isinstance(event, BestFileWritten):
            files.append(load_best(event.path).selection.trial)  # type: ignore[union-attr]

    drive(spec, storage, directory, send=send)
    kinds = [event.run.kind for event in told if isinstance(event, RunBegan)]
    assert kinds == ["search", "reevaluation"] and {event.run.name for event in told} == {spec.name}
    choices = [event for event in told if isinstance(event, ChoiceChanged)]
    assert all(event.run.kind == "search" for event in choices) and len(choices) > 1
    assert [choice.verdict is None for choice in choices] == [*[True] * (len(choices) - 1), False]
    assert len({(choice.trial.number, choice.verdict) for choice in choices}) == len(choices)
    changed = [number for number, before in zip(files, [-1, *files], strict=False) if number != before]
    assert [choice.trial.number for choice in choices] == changed  # of files that were written again, the first
    for choice in choices:  # the trial has ended before it is chosen
        before = told[: told.index(choice)]
        assert any(isinstance(event, TrialEnded) and event.trial == choice.trial for event in before)


def test_a_verdict_for_the_trial_that_is_chosen_already_is_told(tmp_path: Path) -> None:
    run = SearchRun(*reevaluated_search(tmp_path))
    told: list[Event] = []
    run.announce = told.append
    chosen, verdict = make_trial(3, value=70.0), Verdict(chosen=3, mean=68.0, error=None)
    for known in (None, None, verdict):
        run.chose(chosen, known)
    assert [event.verdict for event in told if isinstance(event, ChoiceChanged)] == [None, verdict]


@pytest.mark.parametrize("kill", [1, 6, 14, 15, 16, 20])
def test_after_a_kill_the_next_driver_tells_all_that_the_record_has(kill: int, tmp_path: Path) -> None:
    spec, storage, directory = reevaluated_search(tmp_path)
    first: list[Event] = []
    second: list[Event] = []

    def killed(ran: int) -> None:
        if ran == kill:
            raise Killed

    with pytest.raises(Killed):
        drive(spec, storage, directory, before_task=killed, send=first.append)
    drive(spec, storage, directory, send=second.append)
    for kind, folder in (("search", directory), ("reevaluation", directory.reevaluation)):
        recorded = Record(folder.record).trials()
        rows = {(event.trial.number, event.row["task"]) for event in second if _is(event, kind, TaskDone)}
        assert rows == {(trial.number, row["task"]) for trial in recorded for row in trial.rows}
        ended = {event.trial.number for event in second if _is(event, kind, TrialEnded)}
        assert ended == {trial.number for trial in recorded if trial.status != "running"}
        known = {event.trial.number for event in first if _is(event, kind, TrialBegan)}
        again = {event.trial.number for event in second if _is(event, kind, TrialBegan) and event.repeated}
        assert again == known
    assert isinstance(second[0], RunBegan) and second[0].continued
    assert [event.run.kind for event in second if isinstance(event, RunBegan)] == ["search", "reevaluation"]


def _is(event: Event, kind: str, of: type) -> bool:
    return isinstance(event, of) and event.run.kind == kind
