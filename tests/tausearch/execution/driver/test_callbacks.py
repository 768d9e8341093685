"""What a driver tells callbacks."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch.execution import DriveOptions, Run
from tausearch.execution.driver import drive
from tausearch.runs import Conclusion, Record, SearchSpec, StorageError
from tausearch.tracking import Event, RunBegan, RunEnded
from tests.support.runs.trials import make_trial
from tests.tausearch.execution.driver.world import World, finish_one, opened, then


class Keeper:
    """A callback that keeps what it is told, slowly."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.told: list[Event] = []
        self.seconds = seconds

    def on_event(self, event: Event) -> None:
        time.sleep(self.seconds)
        self.told.append(event)


def test_callbacks_are_told_all_before_the_driver_returns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    best = make_trial(3, value=63.0)
    written = Conclusion(best, {"x": 1.0}, (run.directory.spec_file,), notes={"ended": "no gain"})
    monkeypatch.setattr(run, "conclude", lambda trials: written)
    slow, broken = Keeper(0.02), SimpleNamespace(on_event=lambda event: 1 / 0)
    result = drive(run, DriveOptions(callbacks=[broken, slow]))
    names = [type(event).__name__ for event in slow.told]
    each = ["TrialBegan", "TaskDone", "TaskDone", "TaskDone", "TrialEnded"]
    assert names == ["RunBegan", *each * 4, "RunEnded"] and len(result.trials) == 4
    end = slow.told[-1]
    assert isinstance(end, RunEnded) and (end.stopped, end.chosen, end.metrics) == (False, best, {"x": 1.0})
    assert end.notes == written.notes
    assert end.files == written.files and list(end.trials) == Record(run.directory.record).trials()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space left")])
def test_callbacks_are_told_that_a_run_was_stopped(error: BaseException, run: Run, world: World) -> None:
    world.tune, keeper = then(finish_one, error), Keeper()
    with suppress(StorageError):
        drive(run, DriveOptions(callbacks=[keeper]))
    assert isinstance(keeper.told[-1], RunEnded) and keeper.told[-1].stopped


def test_a_run_that_has_ended_is_told_once_more(spec: SearchSpec, tmp_path: Path) -> None:
    known, keeper = [make_trial(number, value=60.0) for number in range(4)], Keeper()
    drive(opened(spec, tmp_path, known), DriveOptions(callbacks=[keeper]))
    begun, *between, end = keeper.told
    assert isinstance(begun, RunBegan) and begun.trials == tuple(known) and isinstance(end, RunEnded)
    assert len(between) == 4 * 5 and all(event.repeated for event in between)  # type: ignore[union-attr]
