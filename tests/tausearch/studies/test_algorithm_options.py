"""The options of a search: which are refused, and which value counts where there are two."""

from __future__ import annotations

import pytest

from tausearch.runs import Reevaluate
from tausearch.studies import requested_reevaluation, usual_reevaluation
from tausearch.studies.algorithm_options import (
    constraints_named,
    objectives_named,
    one_of,
    require_scheduler,
    scheduler_fault,
)
from trainables.errors import InputError
from trainables.methods import get_method

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
        ("optuna:MedianPruner", "tpe", 1, None),  # which may stop after any task
        ("optuna:MedianPruner", "gp", 9, "gp learns nothing from trials that were stopped"),
        ("asha", "optuna:CmaEsSampler", 9, "optuna:CmaEsSampler learns nothing from trials that were stopped"),
    ],
)
def test_a_scheduler_needs_tasks_after_the_third_and_an_algorithm_that_hears_of_it(
    scheduler: str, algorithm: str, steps: int, fault: str | None
) -> None:
    found = scheduler_fault(scheduler, algorithm, steps)
    assert found is None if fault is None else (found or "").startswith(fault)


def test_a_scheduler_is_checked_with_its_options_and_the_first_step_at_which_it_may_stop() -> None:
    require_scheduler("median", "tpe", 2, {}, first_stop=1)  # two benchmarks
    with pytest.raises(InputError, match="--scheduler median: stops no trial before task 3"):
        require_scheduler("median", "tpe", 2, {})
    with pytest.raises(InputError, match="pruner 'median': unknown option 'first'"):
        require_scheduler("median", "tpe", 9, {"first": 3})
    require_scheduler("asha", "tpe", 2, {"min_resource": 1})
    require_scheduler("asha", "tpe", 9, {"min_resource": "auto"})
    with pytest.raises(InputError, match="--scheduler median: stops no trial before task 9, and a trial has 5"):
        require_scheduler("median", "tpe", 5, {"first_stop": 9})
    for wrong in (0, 1.5, "x"):
        with pytest.raises(InputError, match="pruner 'median': first_stop must be a whole number from 1"):
            require_scheduler("median", "tpe", 9, {"first_stop": wrong})


def test_the_beginning_of_a_name_is_not_the_name() -> None:
    assert one_of("scheduler", "asha", ("ashas", "asha")) == "asha"
    with pytest.raises(InputError, match="unknown scheduler 'ash'"):
        one_of("scheduler", "ash", ("asha", "none"))


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("forgetting <= 5", "forgetting >= 5", "final_accuracy >= 10"), None),  # one on each side
        (("forgetting <= 5", "seconds <= 9", "forgetting <= 4"), "forgetting <= 4: val/forgetting has a bound on this"),
        (
            ("forgetting <= 5", "val/forgetting <= 6"),
            "val/forgetting <= 6: val/forgetting has a bound on",
        ),
        (
            ("forgetting <= 5", "forgetting >= 10"),
            "forgetting >= 10: .* together with val/forgetting <= 5$",
        ),
        (("seconds <= 9", "forgetting >= 5", "forgetting <= 4"), "forgetting <= 4: no trial can keep it together with"),
        (("accuracy/task_2 >= 5", "train/euler_factor <= 3"), None),
        (("memory/peak_gpu_bytes <= 5",), "memory/peak_gpu_bytes <= 5: unknown metric"),
    ],
)
def test_bounds_go_together_or_the_later_one_is_named(texts: tuple[str, ...], fault: str | None) -> None:
    entry = get_method("ita-lora")
    if fault is None:
        assert len(constraints_named(texts, entry, 3, False)) == len(texts)
        return
    with pytest.raises(InputError, match=f"^--constraint {fault}"):
        constraints_named(texts, entry, 3, False)


def test_a_method_that_can_take_nothing_out_neither_aims_at_removability_nor_keeps_it() -> None:
    without = get_method("finetune")
    with pytest.raises(InputError, match="^--objective removability: finetune has no task vectors"):
        objectives_named(["final_accuracy", "removability"], None, without, 3, False)
    fault = "^--constraint removability/target >= 1: finetune has no task vectors .* allowed with it: ita-fft"
    with pytest.raises(InputError, match=fault):
        constraints_named(["removability/target >= 1"], without, 3, False)
    with pytest.raises(InputError, match="^--constraint removability >= 1: leaves out one task of several"):
        constraints_named(["removability >= 1"], get_method("ita-lora"), 1, False)


def test_objectives_are_those_that_the_trials_measure_and_the_rule_is_kept() -> None:
    entry = get_method("ita-lora")
    found, rule = objectives_named(["final_accuracy", "forgetting"], "forgetting", entry, 3, False)
    assert ([each.name for each in found], rule) == (["final_accuracy", "forgetting"], "val/forgetting")
    with pytest.raises(InputError, match="trials on a CPU report no memory of a GPU"):
        objectives_named(["bytes"], None, entry, 3, False)
