"""Which trial comes next where several runs share one Ray."""

from __future__ import annotations

import pytest

from search_spaces import Scalar
from tausearch.execution import Dispatcher, Run, dispatcher as dispatcher_module
from tausearch.runs import Reevaluate, ReevaluationSpec, Resources, TrialTable
from tausearch.studies import FixedSearcher, TuneTrials
from tests.support.runs.trials import Runs, final_spec, run_of, search_spec
from tests.tausearch.several.made import parts, several_spec
from trainables.errors import InputError


def search_of(name: str, trials: int, **changes: object) -> Run:
    """A search of so many trials that may all run at once, unless it is said to be of an algorithm that learns."""
    spec = search_spec().model_copy(update={"name": name, "trials": trials, "algorithm": "random", **changes})
    return run_of(spec, FixedSearcher((number, {}) for number in range(trials)))


def seeds_of(name: str, seeds: int) -> Run:
    """A final run."""
    spec = final_spec(search_spec(), name=name, trials=seeds, seeds=tuple(range(seeds)))
    return run_of(spec, FixedSearcher((number, {}) for number in range(seeds)))


def take(dispatcher: Dispatcher) -> list[tuple[str, int]]:
    """All trials that it hands out just now."""
    found = []
    while (each := dispatcher.next()) is not None:
        found.append((each[0].spec.name, each[1]))
    return found


def end(dispatcher: Dispatcher, name: str, number: int) -> None:
    dispatcher[name].finish(number, "complete", 50.0)


def test_early_runs_come_first_and_no_slot_is_left_to_itself() -> None:
    queue = Runs([search_of("a", 3), search_of("b", 3), search_of("c", 3)])
    dispatcher = Dispatcher(queue, lambda: (4.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert queue.opened == ["a", "b"]  # no further than there is room
    end(dispatcher, "a", 1)
    assert take(dispatcher) == [("b", 1)]


def test_what_follows_a_run_takes_its_place_in_the_line() -> None:
    queue = Runs([search_of("a", 2), search_of("b", 3)], {"a": search_of("a-final", 2)})
    dispatcher = Dispatcher(queue, lambda: (3.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("a", 1), ("b", 0)]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [("b", 1)] and queue.over == []  # its last trial still runs
    end(dispatcher, "a", 1)
    assert take(dispatcher) == [("a-final", 0)] and queue.over == ["a"]
    end(dispatcher, "b", 0)
    assert take(dispatcher) == [("a-final", 1)]  # before b's last
    assert not dispatcher.finished


def test_a_final_run_takes_what_the_next_search_leaves_free_and_comes_before_the_search_after_it() -> None:
    finals = {name: seeds_of(f"{name}-final", 2) for name in "ac"}
    queue = Runs([search_of("a", 1), seeds_of("b-final", 1), search_of("c", 3), search_of("d", 2)], finals)
    dispatcher = Dispatcher(queue, lambda: (2.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("b-final", 0)]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [("c", 0)] and queue.opened == ["a", "b-final", "c"]
    end(dispatcher, "b-final", 0)
    end(dispatcher, "c", 0)
    assert take(dispatcher) == [("c", 1), ("c", 2)]
    end(dispatcher, "c", 1)
    assert take(dispatcher) == [("a-final", 0)]  # while the last trial of c runs
    end(dispatcher, "c", 2)
    assert take(dispatcher) == [("a-final", 1)] and queue.over == ["a", "b-final", "c"]
    for number in (0, 1):
        end(dispatcher, "a-final", number)
    assert take(dispatcher) == [("d", 0), ("d", 1)]
    for number in (0, 1):
        end(dispatcher, "d", number)
    assert take(dispatcher) == [("c-final", 0), ("c-final", 1)] and not dispatcher.finished
    for number in (0, 1):
        end(dispatcher, "c-final", number)
    assert take(dispatcher) == [] and dispatcher.finished


def test_a_reevaluation_comes_before_the_rest_of_the_next_search() -> None:
    search = search_of("a", 1, reevaluate=Reevaluate(best=1, runs=2))
    again = run_of(ReevaluationSpec.of(search.spec), FixedSearcher((number, {}) for number in range(2)))
    dispatcher = Dispatcher(Runs([search, search_of("b", 3)], {"a": again}), lambda: (2.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("b", 0)]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [(again.spec.name, 0)]


def test_a_final_run_comes_before_one_that_is_only_opened_after_it() -> None:
    queue = Runs([search_of("a", 1), seeds_of("b-final", 1)], {"a": seeds_of("a-final", 1)})
    dispatcher = Dispatcher(queue, lambda: (1.0, 0.0))
    assert take(dispatcher) == [("a", 0)]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [("a-final", 0)]


def test_it_is_finished_when_every_run_is_over() -> None:
    queue = Runs([search_of("empty", 0), search_of("a", 1), search_of("b", 1)])  # its driver died at its end
    dispatcher = Dispatcher(queue, lambda: (9.0, 0.0))
    assert not dispatcher.finished
    assert take(dispatcher) == [("a", 0), ("b", 0)] and not dispatcher.finished and queue.over == ["empty"]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [] and not dispatcher.finished and queue.over[1:] == ["a"]
    end(dispatcher, "b", 0)
    assert take(dispatcher) == [] and dispatcher.finished and queue.over[1:] == ["a", "b"]


class Breaks(FixedSearcher):
    """Has no further trial than the first, but an error."""

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        if (found := super().next()) is None or found[0]:
            raise InputError("the sampler failed")
        return found


def test_a_sampler_that_fails_ends_its_run_and_no_other() -> None:
    broken = run_of(search_of("a", 9).spec, Breaks((number, {}) for number in range(9)))
    queue = Runs([broken, search_of("b", 3)])
    dispatcher = Dispatcher(queue, lambda: (3.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("b", 0), ("b", 1)] and queue.errors == ["a: the sampler failed"]
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [("b", 2)] and queue.over == ["a"], "its trial under way has come to its end"


def test_after_an_error_no_further_trial_starts_while_others_run() -> None:
    queue = Runs([search_of("a", 9)])
    dispatcher = Dispatcher(queue, lambda: (2.0, 0.0))
    assert take(dispatcher) == [("a", 0), ("a", 1)]
    with dispatcher.errors_noted(dispatcher["a"]):
        raise InputError("the pruner failed")
    end(dispatcher, "a", 0)
    assert take(dispatcher) == [] == take(dispatcher) and not dispatcher.finished
    end(dispatcher, "a", 1)
    assert take(dispatcher) == [] and dispatcher.finished


def test_an_algorithm_that_learns_leaves_room_to_others() -> None:
    queue = Runs([search_of("a", 12, algorithm="tpe"), search_of("b", 12, algorithm="tpe")])
    taken = take(Dispatcher(queue, lambda: (8.0, 0.0)))
    assert [sum(name == each for name, _ in taken) for each in "ab"] == [3, 3]  # a quarter, though two slots are free


def test_on_two_benchmarks_a_quarter_of_the_trials_runs_with_both_parts() -> None:
    whole = several_spec(trials=12, algorithm="tpe")
    run = run_of(whole, FixedSearcher([]))
    run.tune_trials = TuneTrials(parts(whole), TrialTable(), FixedSearcher((number, {}) for number in range(24)))
    assert len(take(Dispatcher(Runs([run]), lambda: (9.0, 0.0)))) == 6


def test_no_more_at_a_time_than_asked_for() -> None:
    queue = Runs([search_of("a", 9), search_of("b", 9)])
    assert len(take(Dispatcher(queue, lambda: (16.0, 0.0), max_concurrent_trials=5))) == 5


def test_max_concurrent_trials_may_exceed_the_cpus() -> None:
    queue = Runs([search_of("a", 9), search_of("b", 9)])
    taken = take(Dispatcher(queue, lambda: (2.0, 0.0), max_concurrent_trials=4))
    assert taken == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]  # two trials of each run fit


@pytest.mark.parametrize(
    ("own_ray", "expected"), [(False, [("g", 0), ("h", 0), ("c", 0)]), (True, [("g", 0), ("c", 0), ("c", 1)])]
)
def test_no_slot_is_left_to_a_trial_that_waits_where_no_node_can_join(
    own_ray: bool, expected: list[tuple[str, int]]
) -> None:
    on_gpu = Resources(gpus_per_trial=1)
    queue = Runs([search_of("g", 2, resources=on_gpu), search_of("h", 2, resources=on_gpu), search_of("c", 9)])
    assert take(Dispatcher(queue, lambda: (9.0, 1.0), max_concurrent_trials=3, own_ray=own_ray)) == expected


def test_no_run_is_opened_without_a_free_cpu() -> None:
    queue = Runs([search_of("a", 9), search_of("b", 9)])
    dispatcher = Dispatcher(queue, lambda: (2.0, 0.0), max_concurrent_trials=4, own_ray=True)
    assert take(dispatcher) == [("a", 0), ("a", 1)] and queue.opened == ["a"]


@pytest.mark.parametrize(
    ("first", "second", "trials", "expected"),
    [
        (Resources(cpus_per_trial=2), Resources(cpus_per_trial=2), 9, 2),  # of five CPUs
        (Resources(cpus_per_trial=4), Resources(cpus_per_trial=1), 1, 2),
        (Resources(gpus_per_trial=1 / 3), Resources(gpus_per_trial=1 / 3), 9, 3),
        (Resources(gpus_per_trial=1 / 5), Resources(gpus_per_trial=1 / 5), 9, 5),  # 1 - 4/5 is less than 1/5
        (Resources(gpus_per_trial=0.5), Resources(gpus_per_trial=1), 2, 2),
    ],
)
def test_runs_may_differ_in_what_a_trial_gets(first: Resources, second: Resources, trials: int, expected: int) -> None:
    runs = [search_of("a", trials, resources=first), search_of("b", 9, resources=second)]
    assert len(take(Dispatcher(Runs(runs), lambda: (5.0, 1.0)))) == expected


def test_one_trial_runs_whatever_there_is() -> None:
    """A cluster that has lost its nodes has no CPUs for a moment."""
    assert take(Dispatcher(Runs([search_of("a", 2)]), lambda: (0.0, 0.0))) == [("a", 0)]


def test_what_there_is_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    room, now = [1.0], [100.0]
    monkeypatch.setattr(dispatcher_module.time, "monotonic", lambda: now[0])
    dispatcher = Dispatcher(Runs([search_of("a", 9)]), lambda: (room[0], 0.0))
    assert len(take(dispatcher)) == 1
    room[0], now[0] = 3.0, 100.9
    assert take(dispatcher) == []  # the answer holds for a second
    now[0] = 101.1
    assert len(take(dispatcher)) == 2
