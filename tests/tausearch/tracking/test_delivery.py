"""Callbacks are told everything in order; a slow, broken or hanging one harms nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import pytest

from tausearch.runs import SearchSpec, Storage
from tausearch.tracking import BestFileWritten, Deliveries, Delivery, Event, RunBegan, RunInfo, TaskDone, delivery
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial


class Keeper:
    """Keeps what it is told, once it may."""

    def __init__(self, patience: float = 60.0) -> None:
        self.told: list[Event] = []
        self.may = threading.Event()
        self.may.set()
        self.patience = patience
        self.threads: set[str] = set()

    def on_event(self, event: Event) -> None:
        assert self.may.wait(60)
        self.threads.add(threading.current_thread().name)
        self.told.append(event)


class Broken(Keeper):
    """Fails on the finished tasks."""

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if isinstance(event, TaskDone):
            raise ValueError("no\nway")


@pytest.fixture
def said() -> list[str]:
    """The lines for a person."""
    return []


@pytest.fixture
def info(spec: SearchSpec, tmp_path: Path) -> RunInfo:
    return RunInfo(spec, tmp_path / spec.name, Storage(tmp_path))


def events(info: RunInfo, number: int) -> list[Event]:
    return [BestFileWritten(info, Path(str(position))) for position in range(number)]


def test_everything_is_told_in_order_in_a_thread_of_its_own(info: RunInfo, said: list[str]) -> None:
    keeper = Keeper()
    sender = Delivery(keeper, "callback a:Keeper", said.append)
    sent = events(info, 50)
    for event in sent:
        sender.send(event)
    sender.close()
    assert keeper.told == sent and keeper.threads == {"callback a:Keeper"} and said == []


def test_a_slow_one_makes_the_driver_wait_only_when_its_queue_is_full_and_says_so_once(
    info: RunInfo, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "QUEUE_SIZE", 3)
    keeper, sent = Keeper(), events(info, 6)
    keeper.may.clear()
    sender = Delivery(keeper, "callback a:Slow", said.append)
    for event in sent[:3]:
        sender.send(event)
    assert said == []
    threading.Timer(0.3, keeper.may.set).start()
    began = time.monotonic()
    sender.send(sent[3])
    assert time.monotonic() - began > 0.1, "the fourth waits"
    for event in sent[4:]:
        keeper.may.clear()
        threading.Timer(0.05, keeper.may.set).start()
        sender.send(event)
    keeper.may.set()
    sender.close()
    assert keeper.told == sent and len(said) == 1
    assert said[0] == "callback a:Slow is slow: 3 events wait for it, and so does the driver"


def test_a_driver_that_is_to_stop_waits_for_no_queue_and_loses_nothing(
    info: RunInfo, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "QUEUE_SIZE", 2)
    keeper, sent, stop = Keeper(patience=10.0), events(info, 9), [False]
    keeper.may.clear()
    untracked = info.spec.model_copy(update={"tracking": ()})
    (sender,) = Deliveries([keeper], {}, said.append, lambda: stop[0]).of(untracked)
    for event in sent[:2]:
        sender.send(event)
    threading.Timer(0.1, lambda: stop.__setitem__(0, True)).start()  # Ctrl-C while it waits
    for event in sent[2:]:
        sender.send(event)
    assert len(said) == 1
    assert not sender.flush(hurry=lambda: True), "all of them still wait"
    keeper.may.set()
    sender.close()
    assert keeper.told == sent


def test_an_error_is_logged_once_with_its_place_and_the_others_are_told_on(
    info: RunInfo, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    keeper, broken, trial = Keeper(), Broken(), make_trial(0, tasks=2)
    sent: list[Event] = [RunBegan(info), *(TaskDone(info, trial, row) for row in trial.rows)]
    deliveries = Deliveries([broken, keeper], {}, said.append)
    tracked = info.spec.model_copy(update={"tracking": ()})
    for event in sent:
        for each in deliveries.of(tracked):
            each.send(event)
    deliveries.close()
    assert keeper.told == sent and broken.told == sent[:2]
    what = f"callback {__name__}:Broken failed on TaskDone: ValueError: no way in {__file__}, line "
    assert len(said) == 1 and said[0].startswith(what) and said[0].endswith("; it is told nothing more")
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize("full", [False, True])
def test_one_that_never_comes_back_is_given_up_after_its_patience(
    full: bool, info: RunInfo, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "QUEUE_SIZE", 2 if full else 100)
    keeper = Keeper(patience=0.3)
    keeper.may.clear()
    sender = Delivery(keeper, "callback a:Hangs", said.append)
    for event in events(info, 3):
        sender.send(event)
    sender.close()
    lost = 2 if full else 3
    end = f"callback a:Hangs took over 0.3 s for one event; {lost} events not told (`resume` tells them again)"
    first = (
        "is slow: 2 events" if full else "waiting for callback a:Hangs, which lacks 3 events; at most 0.3 s for one,"
    )
    assert first in said[0] and said[1:] == [end]
    keeper.may.set()
    assert sender.error == "took over 0.3 s for one event"


@pytest.mark.parametrize(("own", "patience"), [(None, 60), (0.3, 0.3), (900.0, 900)])
def test_a_callback_says_how_long_it_is_waited_for(own: float | None, patience: float, said: list[str]) -> None:
    callback = object() if own is None else Keeper(own)
    assert Delivery(callback, "callback a:Own", said.append).patience == patience


def test_the_name_of_a_callback_has_the_class_that_it_is_in() -> None:
    class Inner(Keeper):
        pass

    assert delivery.name_of(Keeper()) == f"{__name__}:Keeper"
    assert delivery.name_of(Inner()) == f"{__name__}:{Inner.__qualname__}" and Inner.__qualname__.endswith(".Inner")


def test_a_run_has_the_identity_that_is_unique_over_storage_roots(info: RunInfo) -> None:
    assert info.id == info.spec.id != info.name


def test_one_that_fails_after_it_was_given_up_says_nothing_more(info: RunInfo, said: list[str]) -> None:
    broken = Broken(patience=0.1)
    broken.may.clear()
    sender = Delivery(broken, "callback a:Late", said.append)
    sender.send(TaskDone(info, make_trial(0, tasks=1), {"task": 1.0}))
    sender.close()
    before = list(said)
    broken.may.set()
    wait_until(lambda: "callback a:Late" not in {each.name for each in threading.enumerate()}, 60, "the thread's end")
    assert said == before and sender.error == "took over 0.1 s for one event"


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, pytest.fail.Exception])
def test_one_that_exits_is_told_nothing_more_and_nobody_waits_for_it(
    error: type[BaseException], info: RunInfo, said: list[str]
) -> None:
    class Exits(Keeper):
        def on_event(self, event: Event) -> None:
            raise error("enough")

    sender = Delivery(Exits(patience=0.1), "callback a:Exits", said.append)
    sender.send(RunBegan(info))
    sender.close()
    assert len(said) == 1 and said[0].startswith(f"callback a:Exits failed on RunBegan: {error.__name__}: enough")


def test_a_signal_gives_up_one_that_the_end_waits_for(info: RunInfo, said: list[str]) -> None:
    keeper, began = Keeper(), time.monotonic()
    keeper.may.clear()
    sender = Delivery(keeper, "callback a:Hangs", said.append)
    sender.send(RunBegan(info))
    sender.close(hurry=lambda: time.monotonic() - began > 0.3)
    assert time.monotonic() - began < 30 and said == [
        "callback a:Hangs was given up by a signal; 1 event not told (`resume` tells them again)"
    ]
    keeper.may.set()


def test_one_that_is_slow_but_comes_back_is_told_all_at_the_end(info: RunInfo, said: list[str]) -> None:
    class Slow(Keeper):
        def on_event(self, event: Event) -> None:
            time.sleep(0.1)
            super().on_event(event)

    slow, sent = Slow(patience=0.5), events(info, 9)  # longer than its patience in all
    sender = Delivery(slow, "callback a:Slow", said.append)
    for event in sent:
        sender.send(event)
    sender.close()
    assert slow.told == sent and sender.error is None


def test_after_sigterm_all_together_have_the_same_few_seconds(info: RunInfo, said: list[str]) -> None:
    keepers = [Keeper(), Keeper()]
    deliveries = Deliveries(keepers, {}, said.append)
    for keeper in keepers:
        keeper.may.clear()
    for each in deliveries.of(info.spec.model_copy(update={"tracking": ()})):
        each.send(RunBegan(info))
    began = time.monotonic()
    deliveries.close(longest=0.2)
    assert time.monotonic() - began < 5 and len(said) == 4
    assert said[2].endswith("; at most 0 s for one, and Ctrl-C gives it up")  # not its own patience
    for keeper in keepers:
        keeper.may.set()


def test_a_tracker_is_made_once_and_told_only_of_the_runs_that_name_it(info: RunInfo) -> None:
    made: list[Keeper] = []

    def make() -> Keeper:
        made.append(Keeper())
        return made[-1]

    deliveries = Deliveries([Keeper()], {"mlflow": make, "tensorboard": Keeper})
    none, both = (info.spec.model_copy(update={"tracking": each}) for each in ((), ("mlflow", "tensorboard")))
    assert len(deliveries.of(none)) == 1 and made == [] and not deliveries.has("mlflow")
    assert len(deliveries.of(info.spec)) == 2 and deliveries.has("mlflow") and not deliveries.has("tensorboard")
    names = ["tracker mlflow", "tracker tensorboard", f"callback {__name__}:Keeper"]
    assert [each.name for each in deliveries.of(both)] == names and len(made) == 1


def test_no_thread_is_left(info: RunInfo) -> None:
    sender = Delivery(Keeper(), "callback a:Left", print)
    sender.send(RunBegan(info))
    sender.close()
    wait_until(lambda: "callback a:Left" not in {each.name for each in threading.enumerate()}, 60, "the thread's end")
