"""The simulation of a campaign against schedules that can be drawn by hand."""

from __future__ import annotations

import pytest

from benchmarks.planning.simulator import Machine, Work, lower_bound, simulate


def seconds(cells: list[Work], machine: Machine) -> float:
    return simulate(cells, machine, jitter=0.0).seconds


def test_trials_wait_for_slots_and_a_final_run_for_its_search() -> None:
    cells = [Work((10.0,), trials=3, seeds=2, at_once=3)]
    assert seconds(cells, Machine(2)) == 30.0  # 3 trials in two rounds, then both seeds
    assert seconds(cells, Machine(8)) == 20.0 and lower_bound(cells, 8) == 20.0
    assert seconds(cells, Machine(2, start=1.0)) == 33.0


def test_an_algorithm_that_learns_runs_few_at_a_time_and_the_next_cell_fills_the_slots() -> None:
    first, second = Work((10.0, 10.0), trials=4, seeds=0, at_once=1), Work((10.0,), trials=8, seeds=0, at_once=8)
    assert seconds([first], Machine(2)) == 80.0 == lower_bound([first], 2)
    assert seconds([first, second], Machine(2)) == 80.0
    assert seconds([second, first], Machine(2)) == 40.0 + 80.0  # the long chain begins too late


def test_a_final_run_fills_what_the_next_search_leaves_free() -> None:
    cell, chain = (Work(tasks, trials=1, seeds=2, at_once=1) for tasks in ((10.0,), (10.0, 10.0, 10.0)))
    # Both searches end at once. The seeds of the first come next, those of the second run beside the third search.
    assert seconds([cell, cell, chain], Machine(2)) == 10.0 + 10.0 + 30.0 + 30.0
    assert seconds([chain, cell], Machine(2)) == 30.0 + 30.0  # the last final run need not wait for an earlier search


def test_one_driver_takes_the_reports_one_after_the_other() -> None:
    cells = [Work((10.0, 10.0), trials=3, seeds=0, at_once=3)]
    found = simulate(cells, Machine(3, driver=1.0), jitter=0.0)
    assert found.seconds == pytest.approx(10 + 3 + 10, abs=1.0)  # the third to be told begins its last task at 13
    assert found.driver == pytest.approx(6 / found.seconds) and found.computed == 60.0


def test_stopped_trials_leave_their_slots() -> None:
    whole = Work((10.0,) * 4, trials=400, seeds=0, at_once=400)
    stopped = Work((10.0,) * 4, trials=400, seeds=0, at_once=400, stops=((2, 0.5),))
    assert simulate([stopped], Machine(4), jitter=0.0).computed == pytest.approx(
        0.75 * simulate([whole], Machine(4), jitter=0.0).computed, rel=0.05
    )


def test_a_failure_costs_the_task_that_it_interrupts() -> None:
    cells = [Work((60.0,) * 10, trials=20, seeds=0, at_once=20)]
    found = simulate(cells, Machine(4, failures=6.0, repair=30.0), jitter=0.0)
    assert found.computed == 20 * 600.0  # nothing that was finished runs again
    assert 0 < found.lost < 0.2 * found.computed and found.seconds > lower_bound(cells, 4)


def test_a_repair_that_ends_after_all_trials_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    until = iter([30.0])  # the first task fails then, no other does
    monkeypatch.setattr("random.Random.expovariate", lambda *_: next(until, float("inf")))
    found = simulate([Work((60.0,), 1, 0, 1)], Machine(2, failures=1.0, repair=1000.0), jitter=0.0)
    assert (found.seconds, found.lost) == (90.0, 30.0)  # tried again on the second slot
