"""What the result of a run says when runs that follow it were stopped, or could not be tracked."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.api import SearchRun
from tausearch.execution import Interrupt
from tausearch.execution.driver import _result
from tausearch.execution.recorder import Recorder
from tausearch.runs import RunResult, SearchSpec, Storage
from tausearch.runs.creation import make_run_directory

RUN: Any = SimpleNamespace(directory=SimpleNamespace(path=Path("first")))


def result(name: str, number: int | None = None, *, late: bool = False, error: str | None = None) -> RunResult:
    """The result of a run that a signal, or the time budget, may have stopped."""
    return RunResult(name, Path(name), [], number, late, True, Path("log.txt"), None, error)


def test_a_run_that_mlflow_does_not_get_does_not_wait_for_it(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    spec, directory = make_run_directory(spec.model_copy(update={"tracking": ("tensorboard",)}), storage)
    deliveries: Any = SimpleNamespace(of=lambda _: [], tracker=lambda name: pytest.fail(f"waits for {name}"))
    assert Recorder(SearchRun(spec, storage, directory), deliveries).conclude(Interrupt()).tracking_error is None


def test_what_stopped_the_first_of_several_followers_counts() -> None:
    ended = [result("first"), result("second", signal.SIGINT), result("third", signal.SIGTERM), result("4", late=True)]
    found = _result(RUN, ended, None)
    assert (found.name, found.signal, found.out_of_time) == ("first", signal.SIGINT, False)
    found = _result(RUN, [ended[0], *reversed(ended[1:])], None)
    assert (found.signal, found.out_of_time) == (None, True)


def test_a_stopped_run_comes_before_a_signal_that_kept_a_follower_from_opening() -> None:
    interrupt = Interrupt()
    interrupt.note(signal.SIGTERM)
    assert _result(RUN, [result("first")], interrupt).signal == signal.SIGTERM
    assert _result(RUN, [result("first"), result("second", signal.SIGINT)], interrupt).signal == signal.SIGINT
    assert _result(RUN, [result("first")], None).signal is None


def test_the_runs_own_error_of_tracking_comes_first() -> None:
    others = [result("zeroth", error="theirs"), result("first", error="own")]
    assert _result(RUN, others, None).tracking_error == "own"
    assert _result(RUN, [result("first"), *others[:1]], None).tracking_error == "theirs"
    assert _result(RUN, [result("first")], None).tracking_error is None
