"""The comparisons with the authors' code, as far as they go without it: what they run is what our methods accept."""

from __future__ import annotations

import pytest

from benchmarks.authors.parity.ours import build
from benchmarks.authors.parity.shared import Found, Program, Run, summary
from benchmarks.authors.parity.trials import PROGRAMS
from tests.support.methods.small_digits import small_digits
from trainables.methods import get_method

RUNS = [run for program in PROGRAMS for run in program.runs]


def test_all_methods_with_public_code_are_compared() -> None:
    assert {run.method for run in RUNS} == {
        *("finetune", "ewc", "lwf-mc", "derpp", "l2p", "coda", "inflora", "seed", "tmc", "tak"),
    }


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.method}-{run.hyperparameters}")
def test_hyperparameters_of_a_comparison_are_the_methods(run: Run) -> None:
    parsed = get_method(run.method).parse(run.hyperparameters)
    assert {name: getattr(parsed, name) for name in run.hyperparameters} == run.hyperparameters


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.module)
def test_without_a_checkout_nothing_runs(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(program.checkout, raising=False)
    ((what, text),) = program.compare()[0].items()
    assert text == f"none: {program.checkout} names no checkout of it" and what == "against the authors' code"


def test_a_summary_is_over_seeds_of_the_last_row_and_of_what_was_lost() -> None:
    found = [
        Found(accuracies=[[90.0], [70.0, 80.0]], seconds=1.0),
        Found(accuracies=[[80.0], [80.0, 90.0]], seconds=1.0),
    ]
    assert summary(found) == "80.00 +- 7.07 / 10.00"


@pytest.mark.parametrize(("method", "given"), [("joint", {}), ("finetune", {"optimizer": "sgd"})])
def test_ours_answers_task_by_task_whatever_it_learns_at_once(method: str, given: dict[str, str]) -> None:
    benchmark = small_digits()
    learn = build(Run(method=method, hyperparameters={"lr": 0.01, **given}), benchmark)
    lengths = [len(learn(task)) for task in benchmark.tasks]
    assert lengths == ([3, 3, 3] if method == "joint" else [1, 2, 3])
