"""A driver that Ray blocks ends its own process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import psutil
import pytest

from tausearch.execution import Dispatcher, DriveOptions, Run, driver as driver_module
from tausearch.execution.driver import drive
from tausearch.execution.interrupt import Interrupt
from tests.tausearch.execution.driver.world import World


class Left(BaseException):
    """The process has ended."""


@pytest.fixture
def left(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], tuple[list[object], str]]:
    """Drives the run until its process ends; returns the killed children, then the exit code, and the last lines."""
    ended: list[object] = []

    def gone() -> None:
        raise psutil.NoSuchProcess(1)

    def leave(code: int) -> None:
        ended.append(code)
        raise Left

    children = [SimpleNamespace(kill=gone), SimpleNamespace(kill=partial(ended.append, "raylet"))]
    process = SimpleNamespace(children=lambda recursive: children if recursive else [])
    monkeypatch.setattr(driver_module.psutil, "Process", lambda: process)
    monkeypatch.setattr(driver_module.os, "_exit", leave)

    def drive_until_it_leaves() -> tuple[list[object], str]:
        with pytest.raises(Left):
            drive(run, DriveOptions(resume_options=" --callback m:C"))
        return ended, capfd.readouterr().out

    return drive_until_it_leaves


@pytest.mark.parametrize(
    ("number", "alone", "said"),
    [
        (signal.SIGINT, True, "interrupted while Ray started"),
        (signal.SIGTERM, False, "stopped by SIGTERM while"),
        (signal.SIGUSR1, True, "stopped by SIGUSR1 while"),
    ],
)
def test_while_ray_starts_a_signal_ends_it_at_once(
    number: int,
    alone: bool,
    said: str,
    world: World,
    interrupt: Interrupt,
    left: Callable[[], tuple[list[object], str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Interrupt, "alone", alone)
    world.starting = lambda: interrupt.note_in_thread(number)
    ended, out = left()
    assert ended == ["raylet", 128 + number]
    assert said in out and "nothing that was finished is lost; continue with: " in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_what_kills_nobody_leaves_a_python_callers_process_and_ray_in_order_while_ray_starts(
    number: int, run: Run, world: World, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module.Driver, "_exit_now", lambda *_: pytest.fail("the process ends"))
    world.starting = lambda: interrupt.note_in_thread(number)
    assert drive(run).signal == number
    assert [each for each in world.did if isinstance(each, str)] == ["raylet watched", "ray is left"]


@pytest.mark.parametrize(
    ("event", "code", "said"),
    [
        ("raylet died", 1, "stopped: Ray's own process on this machine (raylet) was killed or has died; nothing"),
        ("raylet died after SIGTERM", 143, "stopped by SIGTERM; Ray did not answer; nothing"),
        ("raylet died after SIGUSR1", 138, "stopped by SIGUSR1; Ray did not answer; nothing"),
        ("stuck after SIGTERM", 143, "stopped by SIGTERM; Ray did not answer; nothing"),
    ],
)
def test_a_driver_that_ray_blocks_leaves_at_once(
    event: str, code: int, said: str, world: World, interrupt: Interrupt, left: Callable[[], tuple[list[object], str]]
) -> None:
    def blocked(dispatcher: Dispatcher) -> None:
        if event.startswith("raylet died after "):
            interrupt.note(signal.Signals[event.rpartition(" ")[2]])
        assert world.leave is not None and interrupt._leave is not None
        (interrupt._leave.function if event.startswith("stuck") else world.leave)()

    world.tune = blocked
    ended, out = left()
    assert ended == ["raylet", code] and said in out and out.endswith(" --callback m:C\n")
