"""The options of a search: which are refused, and which value counts where there are two."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tausearch.runs import Reevaluate
from tausearch.studies import different_numbers, requested_reevaluation, usual_reevaluation
from tausearch.studies.options import scheduler_fault
from trainables.errors import InputError

KNOWN = Reevaluate(best=3, runs=5, start=True)


@pytest.mark.parametrize(
    ("best", "runs", "trials", "known", "found"),
    [
        (None, None, 12, None, None),
        (None, None, 12, KNOWN, KNOWN),
        (None, 4, 12, KNOWN, Reevaluate(best=3, runs=4, start=True)),
        (2, None, 12, KNOWN, Reevaluate(best=2, runs=5, start=True)),
        (0, None, 12, KNOWN, None),  # it is turned off, which is not the same as not said
        (4, None, 4, None, Reevaluate(best=4, runs=2, start=True)),
        (5, None, 4, None, "--reevaluate 5: the search has 4 trials"),
        (None, None, 2, KNOWN, "--reevaluate 3: the search has 2 trials"),
        (None, 4, 12, None, "--reevaluate-runs 4: goes with --reevaluate"),
        (0, 4, 12, KNOWN, "--reevaluate-runs 4: goes with --reevaluate"),
    ],
)
def test_what_is_asked_for_goes_over_what_was_known(
    best: int | None, runs: int | None, trials: int, known: Reevaluate | None, found: Reevaluate | str | None
) -> None:
    if not isinstance(found, str):
        assert requested_reevaluation(best, runs, trials, known) == found
        return
    with pytest.raises(InputError, match=f"^{found}"):
        requested_reevaluation(best, runs, trials, known)


@pytest.mark.parametrize(
    ("embedded", "few", "trials", "usual"),
    [(True, False, 12, True), (False, True, 12, True), (True, True, 11, False), (False, False, 99, False)],
)
def test_a_search_re_evaluates_by_default_where_that_is_at_most_half_of_it(
    embedded: bool, few: bool, trials: int, usual: bool
) -> None:
    assert usual_reevaluation(embedded, few, trials) == (Reevaluate(best=3, runs=2, start=True) if usual else None)


@pytest.mark.parametrize(
    ("scheduler", "algorithm", "steps", "fault"),
    [
        ("asha", "tpe", 3, "stops no trial before task 3, and a trial has 3"),
        ("median", "random", 3, "stops no trial before task 3, and a trial has 3"),
        ("asha", "tpe", 4, None),
        ("asha", "grid", 4, None),
        ("asha", "gp", 9, "gp learns nothing from trials that were stopped"),
        ("none", "gp", 9, None),
        ("none", "tpe", 1, None),
    ],
)
def test_a_scheduler_needs_tasks_after_the_third_and_an_algorithm_that_hears_of_it(
    scheduler: str, algorithm: str, steps: int, fault: str | None
) -> None:
    found = scheduler_fault(scheduler, algorithm, steps)
    assert found is None if fault is None else (found or "").startswith(fault)


@pytest.mark.parametrize(
    ("numbers", "allowed"), [(range(1000), True), ((5,), True), (range(1001), False), ((), False), ((2, 1, 2), False)]
)
def test_there_are_1_to_1000_different_seeds(numbers: Sequence[int], allowed: bool) -> None:
    if allowed:
        assert different_numbers("--seeds", numbers) == tuple(numbers)  # in their order
        return
    with pytest.raises(InputError, match="--seeds must be 1 to 1000 different numbers"):
        different_numbers("--seeds", numbers)
