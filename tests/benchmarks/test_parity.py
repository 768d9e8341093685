"""The comparisons with the authors' code, as far as they go without it: what they run is what our methods accept."""

from __future__ import annotations

from pathlib import Path

import pytest
from timm.models.vision_transformer import Block
from torch.optim.optimizer import _global_optimizer_post_hooks

from benchmarks.__main__ import BENCHMARKS, measured
from benchmarks.authors import page
from benchmarks.authors.parity import parts
from benchmarks.authors.parity.ours import build
from benchmarks.authors.parity.shared import Found, Program, Run, listed, summary
from benchmarks.performance.kept import Measured
from benchmarks.results.page import places
from benchmarks.stopwatch import Stopwatch
from tests.support.methods.small_digits import small_digits
from tests.support.written_pages import kept_and_written
from trainables.methods import get_method

PROGRAMS = page.PROGRAMS
RUNS = list({str(run): run for program in PROGRAMS.values() for run in program.runs}.values())
SECOND_ORDER = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")


def test_all_methods_with_public_code_are_compared() -> None:
    assert {run.method for run in RUNS} == {
        *("finetune", "ewc", "lwf-mc", "derpp", "l2p", "coda", "inflora", "seed", "tmc", "tak"),
        *SECOND_ORDER,
    }


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.method}-{run.hyperparameters}")
def test_hyperparameters_of_a_comparison_are_the_methods(run: Run) -> None:
    parsed = get_method(run.method).parse(run.hyperparameters)
    assert {name: getattr(parsed, name) for name in run.hyperparameters} == run.hyperparameters


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
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


def test_the_pages_are_what_the_kept_files_say(tmp_path: Path) -> None:
    texts, written = kept_and_written(page.PAGES, page.DOCS, page.write_pages, tmp_path)
    assert written == texts
    assert sorted(place for text in texts.values() for place in places(text)) == sorted(page.tables())
    assert {file.stem for file in page.MEASURED.iterdir()} == set(page.CHECKOUTS)
    assert set(page.CHECKOUTS) <= set(BENCHMARKS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kept_figures_are_of_what_the_command_runs(name: str) -> None:
    kept = [(row["method"], row["hyperparameters"]) for row in Measured.of(name, page.MEASURED).rows]
    assert kept == [(run.method, listed(run.hyperparameters)) for run in PROGRAMS[name].runs]


def test_without_a_checkout_kept_figures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in set().union(*page.CHECKOUTS.values()):
        monkeypatch.delenv(variable, raising=False)
    kept = {file: file.read_bytes() for file in page.MEASURED.iterdir()}
    assert set(page.BENCHMARKS) - set(page.unmeasurable()) == {"trial-parts"}  # which reads no code of theirs
    measured("authors-seed")
    assert {file: file.read_bytes() for file in page.MEASURED.iterdir()} == kept


def test_a_part_that_begins_within_another_one_interrupts_it() -> None:
    times = iter((0.0, 1.0, 3.0, 6.0, 10.0, 15.0))
    watch = Stopwatch(lambda: next(times))
    for part in ("a", "b"):
        watch.begin(part)
    watch.end()
    watch.end()
    watch.begin("b")
    watch.end()
    assert watch.seconds == {"a": 1.0 + 3.0, "b": 2.0 + 5.0}


def test_the_parts_of_a_trial_are_those_of_training_and_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Block.forward
    monkeypatch.setattr(parts, "build_benchmark", lambda source, purpose: small_digits())
    row = parts.measure(Run(method="lwf-mc", hyperparameters={"lr": 0.01}))
    percent = {name: value for name, value in row.items() if name != "method"}
    assert sum(percent.values()) == pytest.approx(100) and all(value > 0 for value in percent.values())
    assert row["backward"] > row["optimiser"]
    assert not _global_optimizer_post_hooks and Block.forward is forward  # nothing is watched any more


def test_without_the_rest_a_trial_is_as_much_shorter_beside_theirs() -> None:
    profile = {"method": "a", **dict.fromkeys(parts.PARTS, 20.0), "rest": 20.0}
    timed = [{"method": "a", "ours over theirs": 0.5}, {"method": "b", "ours over theirs": ""}]
    rows = page._in_parts([profile, profile | {"method": "b"}], timed).splitlines()[2:]
    assert rows == ["| a | 20 | 20 | 20 | 20 | 20 | 0.40 |"]
