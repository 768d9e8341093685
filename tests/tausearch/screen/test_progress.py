"""The progress display: what is said while nothing has begun, and the time left of a run that is continued."""

from __future__ import annotations

import io
import time

import pytest

from tausearch.runs import RunSpec, TrialTable
from tausearch.screen import ProgressDisplay
from tests.support.trials import make_trial, tell


@pytest.fixture
def display(spec: RunSpec) -> ProgressDisplay:
    return ProgressDisplay(spec, TrialTable(), io.StringIO())


def test_nothing_is_known_of_the_time_left_before_the_first_task(display: ProgressDisplay) -> None:
    assert "starting Ray" in display.standing_line() and "? left" in display.standing_line()
    tell(display, make_trial(0, tasks=0))
    assert display.seconds_left() is None and "starting Ray" not in display.standing_line()


def test_trials_that_were_known_say_nothing_of_the_time_left(spec: RunSpec) -> None:
    known = TrialTable([make_trial(0, value=70.0), make_trial(1, tasks=1)])
    display = ProgressDisplay(spec, known, io.StringIO())
    display.start = time.monotonic() - 60
    assert display.seconds_left() is None and "starting Ray" in display.standing_line()
    assert f"[1/{spec.trials}] |" in display.standing_line()  # trial 1 does not run yet
    tell(display, make_trial(1, tasks=2))
    left = spec.trials * spec.steps - spec.steps - 2
    assert display.seconds_left() == pytest.approx(60 * left, rel=0.01)  # one task in a minute
    assert "trial 1: 2/" in display.standing_line()
    display.console.file.flush()
    assert "trial 0 complete" not in display.console.file.getvalue()  # type: ignore[attr-defined]
