"""Runs that follow another on the same Ray: re-evaluations, bounds, the cells of a campaign."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tausearch.execution import Dispatcher, Run, driver as driver_module
from tausearch.execution.driver import drive
from tausearch.execution.interrupt import Interrupt
from tausearch.runs import (
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunResult,
    SearchSpec,
    StorageError,
    TrialSummary,
    TrialTable,
)
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import make_trial
from tests.tausearch.execution.driver.world import MlflowWriter, World, finish_one, opened, tell, then
from trainables.errors import InputError


@pytest.mark.parametrize("search", [None, "of the search"])
def test_the_error_of_a_search_comes_before_that_of_its_reevaluation(
    search: str | None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run.spec.model_copy(update={"name": "again"})
    again = Run(spec, run.storage, run.storage.run("again"), FixedSearcher([]), TrialTable())
    monkeypatch.setattr(run, "follow_up", lambda: again)
    errors = {"again": "of the re-evaluation", **({} if search is None else {run.spec.name: search})}
    monkeypatch.setattr(MlflowWriter, "errors", errors)
    epochs: list[Any] = []
    monkeypatch.setattr(driver_module, "Epochs", epochs.append)
    result = drive(run)
    assert (result.name, result.tracking_error) == (run.spec.name, search or "of the re-evaluation")
    assert epochs[-1] == again.directory and epochs[0] == run.directory  # the display reads each run's own files


def test_a_reevaluation_is_no_run_of_its_own_to_a_person(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = ReevaluationSpec.of(run.spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)}))
    again = Run(spec, run.storage, run.directory.reevaluation, FixedSearcher([]), TrialTable())
    monkeypatch.setattr(run, "follow_up", lambda: again)
    drive(run)
    assert capfd.readouterr().out.count(": ita-lora on digits") == 1


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResult]:
    """Drives a run that others follow: a `Run`, or an error in its place."""

    def drive_followed(first: Run, *following: Run | Exception) -> RunResult:
        left, first.spec = list(following), first.spec.model_copy(update={"with_bounds": True})

        def next_run(locks: ExitStack, say: Callable[[str], None]) -> Run | None:
            found = left.pop(0) if left else None
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(first, "next_run", next_run)
        return drive(first)

    return drive_followed


def follower(spec: SearchSpec, root: Path, name: str, known: Sequence[TrialSummary] = ()) -> Run:
    return opened(spec.model_copy(update={"name": name, "trials": 1}), root, known)


def test_runs_that_follow_use_the_same_ray(
    followed: Callable[..., RunResult],
    run: Run,
    spec: SearchSpec,
    world: World,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MlflowWriter, "errors", {"lower": "of the first", "upper": "of the second"})
    lower, upper = follower(spec, tmp_path, "lower"), follower(spec, tmp_path, "upper")
    result = followed(run, lower, upper)
    assert (result.name, len(result.trials), result.tracking_error) == (run.spec.name, 4, "of the first")
    assert [each[0] for each in world.did if isinstance(each, tuple)] == ["ray", "tune"]
    assert len(Record(lower.directory.record).trials()) == len(Record(upper.directory.record).trials()) == 1
    said = [line.split(":")[0] for line in capfd.readouterr().out.splitlines() if line.startswith("search ")]
    assert said == [f"search {run.spec.name}", "search lower", "search upper"] and len(MlflowWriter.closed) == 3


def test_of_a_run_that_has_ended_those_that_follow_are_run(
    followed: Callable[..., RunResult], spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    first = opened(spec, tmp_path, [make_trial(number, value=60.0) for number in range(4)])
    over, left = follower(spec, tmp_path, "lower", [make_trial(0, value=1.0)]), follower(spec, tmp_path, "upper")
    result = followed(first, over, left)
    assert result.name == spec.name and [trial.value for trial in result.trials] == [60.0] * 4
    assert [each[0] for each in world.did if isinstance(each, tuple)] == ["ray", "tune"]
    assert [trial.value for trial in Record(over.directory.record).trials()] == [1.0]
    assert [trial.value for trial in Record(left.directory.record).trials()] == [60.0]


def test_where_all_that_follow_have_ended_no_ray_is_needed(
    followed: Callable[..., RunResult], spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    first = opened(spec, tmp_path, [make_trial(number, value=60.0) for number in range(4)])
    followed(first, follower(spec, tmp_path, "lower", [make_trial(0, value=1.0)]))
    assert world.did == [] and len(MlflowWriter.closed) == 2


@pytest.mark.parametrize("trials", [4, 5], ids=["before a follower begins", "in a follower"])
def test_a_stop_of_a_follower_is_noted_as_a_stop_of_the_run(
    trials: int,
    followed: Callable[..., RunResult],
    run: Run,
    spec: SearchSpec,
    world: World,
    interrupt: Interrupt,
    tmp_path: Path,
) -> None:
    def tune(dispatcher: Dispatcher) -> None:
        for number in range(trials):
            found = dispatcher.next()
            assert found is not None
            status = "complete" if number < 4 else "running"
            tell(found[0], make_trial(found[1], value=70.0 if number < 4 else None, status=status))
            if number < 4:
                found[0].finish(found[1], "complete", 70.0)
        interrupt.note(signal.SIGINT)

    world.tune = tune
    result = followed(run, follower(spec, tmp_path, "lower"))
    assert (result.signal, len(result.trials), result.name) == (signal.SIGINT, 4, spec.name)


def test_a_stop_after_the_last_follower_has_ended_stops_nothing(
    followed: Callable[..., RunResult], run: Run, spec: SearchSpec, world: World, interrupt: Interrupt, tmp_path: Path
) -> None:
    def tune(dispatcher: Dispatcher) -> None:
        while (found := dispatcher.next()) is not None:
            tell(found[0], make_trial(found[1], value=70.0))
            found[0].finish(found[1], "complete", 70.0)
        interrupt.note(signal.SIGINT)

    world.tune = tune
    assert followed(run, follower(spec, tmp_path, "lower")).signal is None


def test_a_storage_that_is_full_is_an_error_though_a_run_has_ended(
    followed: Callable[..., RunResult], spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    first = opened(spec, tmp_path, [make_trial(number, value=60.0) for number in range(4)])
    world.tune = then(finish_one, OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(StorageError, match="no space left"):
        followed(first, follower(spec, tmp_path, "lower"))


def test_an_error_in_the_thread_that_concludes_a_run_is_raised_at_the_end(
    followed: Callable[..., RunResult], run: Run, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "conclude", lambda *_: (_ for _ in ()).throw(RuntimeError("no figure")))
    lower = follower(spec, tmp_path, "lower")
    with pytest.raises(RuntimeError, match="no figure"):
        followed(run, lower)


def test_a_follower_that_cannot_be_opened_is_an_error_at_the_end(followed: Callable[..., RunResult], run: Run) -> None:
    with pytest.raises(InputError, match="was started otherwise"):
        followed(run, InputError("run 'lower' was started otherwise"))
    assert len(Record(run.directory.record).trials()) == 4 and len(MlflowWriter.closed) == 1
