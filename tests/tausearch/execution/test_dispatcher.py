"""Which trial comes next where several runs share one Ray."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tausearch.execution import Fleet, OpenRun
from tausearch.execution import dispatcher as fleet_module
from tausearch.runs import Resources
from tausearch.studies import FixedSource
from tests.support.runs.trials import job_of, search_spec


def run_of(name: str, trials: int, **changes: object) -> OpenRun:
    """A search of so many trials that may all run at once, unless it is said to be of an algorithm that learns."""
    spec = search_spec().model_copy(update={"name": name, "trials": trials, "algorithm": "random", **changes})
    return OpenRun(job_of(spec, FixedSource((number, {}) for number in range(trials))), [])


class Queue:
    """A line of runs, some of which are followed by another."""

    def __init__(self, runs: Sequence[OpenRun], followers: dict[str, OpenRun] | None = None) -> None:
        self.left = list(runs)
        self.followers = followers or {}
        self.opened: list[str] = []
        self.over: list[str] = []

    def open_next(self) -> OpenRun | None:
        if not self.left:
            return None
        self.opened.append(self.left[0].spec.name)
        return self.left.pop(0)

    def ended(self, run: OpenRun) -> OpenRun | None:
        self.over.append(run.spec.name)
        return self.followers.get(run.spec.name)


def take(fleet: Fleet) -> list[tuple[str, int]]:
    """All trials that it hands out just now."""
    found = []
    while (each := fleet.next()) is not None:
        found.append((each[0].spec.name, each[1]))
    return found


def end(fleet: Fleet, name: str, number: int) -> None:
    fleet[name].finish(number, "complete", 50.0)


def test_early_runs_come_first_and_no_slot_is_left_to_itself() -> None:
    queue = Queue([run_of("a", 3), run_of("b", 3), run_of("c", 3)])
    fleet = Fleet(queue, lambda: (4.0, 0.0))
    assert take(fleet) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert queue.opened == ["a", "b"]  # no further than there is room
    end(fleet, "a", 1)
    assert take(fleet) == [("b", 1)]


def test_what_follows_a_run_takes_its_place_in_the_line() -> None:
    queue = Queue([run_of("a", 2), run_of("b", 3)], {"a": run_of("a-final", 2)})
    fleet = Fleet(queue, lambda: (3.0, 0.0))
    assert take(fleet) == [("a", 0), ("a", 1), ("b", 0)]
    end(fleet, "a", 0)
    assert take(fleet) == [("b", 1)] and queue.over == []  # its last trial still runs
    end(fleet, "a", 1)
    assert take(fleet) == [("a-final", 0)] and queue.over == ["a"]
    end(fleet, "b", 0)
    assert take(fleet) == [("a-final", 1)]  # before b's last
    assert not fleet.finished


def test_it_is_finished_when_every_run_is_over() -> None:
    queue = Queue([run_of("a", 1), run_of("b", 1)])
    fleet = Fleet(queue, lambda: (9.0, 0.0))
    assert take(fleet) == [("a", 0), ("b", 0)] and not fleet.finished
    end(fleet, "a", 0)
    assert take(fleet) == [] and not fleet.finished and queue.over == ["a"]
    end(fleet, "b", 0)
    assert take(fleet) == [] and fleet.finished and queue.over == ["a", "b"]


def test_a_run_that_has_nothing_left_is_over_at_once() -> None:
    queue = Queue([run_of("a", 1), run_of("b", 1)])
    queue.left[0].job.source.next()  # its last driver died before it was concluded
    assert take(Fleet(queue, lambda: (1.0, 0.0))) == [("b", 0)] and queue.over == ["a"]


def test_an_algorithm_that_learns_leaves_room_to_others() -> None:
    queue = Queue([run_of("a", 12, algorithm="tpe"), run_of("b", 12, algorithm="tpe")])
    taken = take(Fleet(queue, lambda: (8.0, 0.0)))
    assert [sum(name == each for name, _ in taken) for each in "ab"] == [3, 3]  # a quarter, though two slots are free


def test_no_more_at_a_time_than_asked_for() -> None:
    assert len(take(Fleet(Queue([run_of("a", 9), run_of("b", 9)]), lambda: (16.0, 0.0), concurrent=5))) == 5


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Resources(cpus_per_trial=2), Resources(cpus_per_trial=2), 2),  # of five CPUs
        (Resources(cpus_per_trial=4), Resources(cpus_per_trial=1), 2),
        (Resources(gpus_per_trial=1 / 3), Resources(gpus_per_trial=1 / 3), 3),
        (Resources(gpus_per_trial=0.5), Resources(gpus_per_trial=1), 2),
    ],
)
def test_runs_may_differ_in_what_a_trial_gets(first: Resources, second: Resources, expected: int) -> None:
    trials = 1 if first != second else 9
    runs = [
        run_of("a", 2 if first.gpus_per_trial == 0.5 else trials, resources=first),
        run_of("b", 9, resources=second),
    ]
    assert len(take(Fleet(Queue(runs), lambda: (5.0, 1.0)))) == expected


def test_one_trial_runs_whatever_there_is() -> None:
    """A cluster that has lost its nodes has no CPUs for a moment."""
    assert take(Fleet(Queue([run_of("a", 2)]), lambda: (0.0, 0.0))) == [("a", 0)]


def test_what_there_is_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    room = [1.0]
    fleet = Fleet(Queue([run_of("a", 9)]), lambda: (room[0], 0.0))
    assert len(take(fleet)) == 1
    room[0] = 3.0
    assert take(fleet) == []  # the answer holds for a second
    monkeypatch.setattr(fleet_module, "HOLDS_SECONDS", 0.0)
    assert len(take(fleet)) == 2
