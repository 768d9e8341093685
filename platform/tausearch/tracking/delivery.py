"""Tell callbacks what happens, each in a thread of its own, behind a bounded queue."""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from checked_input.names import counted
from tausearch.runs import RunSpec, TrackerName
from tausearch.tracking.events import Callback, Event
from trainables.user_code import explained

QUEUE_SIZE = 10_000  # events; then the driver waits
PATIENCE_SECONDS = 60.0  # that the end of a driver waits for one event, unless the callback has its own `patience`
_POLL_SECONDS = 0.1  # between two looks at whether the driver is to stop
_SILENT_SECONDS = 2.0  # that the end of a driver waits before it says so

_log = logging.getLogger(__name__)


def no_stop() -> bool:
    """Return False: nobody asks the driver to stop."""
    return False


class Delivery:
    """Tells one callback all events, in order, from a thread of its own.

    In messages it is called `name`, such as `callback my_module:Mine`; `say` prints a line for a person. While the
    driver is `stopping`, it waits for no callback until its end.
    """

    def __init__(
        self, callback: Callback, name: str, say: Callable[[str], None], stopping: Callable[[], bool] = no_stop
    ) -> None:
        self.callback = callback
        self.name = name
        self.say = say
        self.stopping = stopping
        self.patience = float(getattr(callback, "patience", PATIENCE_SECONDS))
        self.error: str | None = None  # why the callback is told nothing more
        self._events: deque[Event] = deque()  # the first one is being told
        self._changed = threading.Condition()
        self._since = time.monotonic()  # the first event is told
        self._has_waited = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def send(self, event: Event) -> None:
        """Note an event to tell; waits while the queue is full, which a line says the first time."""
        with self._changed:
            if len(self._events) >= QUEUE_SIZE and not self._has_waited and self.error is None:
                self._has_waited = True
                self.say(f"{self.name} is slow: {len(self._events)} events wait for it, and so does the driver")
            while len(self._events) >= QUEUE_SIZE and self.error is None and not self.stopping():
                self._changed.wait(_POLL_SECONDS)
                if time.monotonic() - self._since > self.patience:  # it may never come back
                    self._give_up(_too_slow(self.patience))
            if self.error is not None:
                return
            if not self._events:
                self._since = time.monotonic()
            self._events.append(event)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
                self._thread.start()

    def flush(self, longest: float = math.inf, hurry: Callable[[], bool] = no_stop) -> bool:
        """Return whether all events are told, once they are, or at `hurry`.

        It waits at most `longest` seconds, and at most the callback's patience for one event.
        """
        end = time.monotonic() + longest
        with self._changed:
            while self._events and not hurry():
                left = min(end, self._since + self.patience) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _POLL_SECONDS))
            return not self._events

    def close(self, longest: float = math.inf, hurry: Callable[[], bool] = no_stop) -> None:
        """Wait as `flush` does, and tell nothing afterwards. A line says how long it waits, and one what is lost."""
        limit = min(longest, self.patience)
        if not self.flush(min(longest, _SILENT_SECONDS), hurry) and not hurry():
            lacks = f"waiting for {self.name}, which lacks {counted(len(self._events), 'event')}"
            self.say(f"{lacks}; at most {limit:g} s for one, and Ctrl-C gives it up")
            self.flush(max(0.0, longest - _SILENT_SECONDS), hurry)
        with self._changed:
            self._closed = True
            if self._events:
                self._give_up("was given up by a signal" if hurry() else _too_slow(limit))
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._events or self._closed)
                if not self._events:
                    return
                event = self._events[0]
                self._since = time.monotonic()
            try:
                answer: object = self.callback.on_event(event)  # type: ignore[func-returns-value]
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError("on_event must not be async: nothing awaits what it returns")
            except BaseException as error:  # another's code, in a thread to which no Ctrl-C comes
                self._fail(event, error)
                return
            with self._changed:
                if self._events:  # none once it is given up
                    self._events.popleft()
                self._changed.notify_all()

    def _fail(self, event: Event, error: BaseException) -> None:
        what = f"{type(event).__name__}: {explained(error)}"
        _log.error("%s failed on %s; it is told nothing more", self.name, what, exc_info=error)
        with self._changed:
            given_up = self.error is not None
            self._end(what)
        if not given_up:
            self.say(f"{self.name} failed on {what}; it is told nothing more")

    def _give_up(self, why: str) -> None:
        lost = counted(len(self._events), "event")
        self._end(why)
        self.say(f"{self.name} {self.error}; {lost} not told (`resume` tells them again)")

    def _end(self, why: str) -> None:
        self.error = self.error or why
        self._events.clear()
        self._changed.notify_all()


class Deliveries:
    """The callbacks and trackers of one driver, each with its `Delivery`.

    Callbacks are told of all runs. `trackers` has what makes each; it is told of the runs whose specification names it.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback] = (),
        trackers: Mapping[TrackerName, Callable[[], Callback]] | None = None,
        say: Callable[[str], None] = print,
        stopping: Callable[[], bool] = no_stop,
    ) -> None:
        self._say = say
        self._stopping = stopping
        self._makers = trackers or {}
        self._callbacks = [self._made(each, f"callback {name_of(each)}") for each in callbacks]
        self._trackers: dict[TrackerName, Delivery] = {}

    def of(self, spec: RunSpec) -> list[Delivery]:
        """Return the deliveries of a run: its trackers, then the callbacks."""
        return [*map(self.tracker, spec.trackers), *self._callbacks]

    def tracker(self, name: TrackerName) -> Delivery:
        """Return the delivery of a tracker, made when it is first used."""
        if name not in self._trackers:
            self._trackers[name] = self._made(self._makers[name](), f"tracker {name}")
        return self._trackers[name]

    def has(self, name: TrackerName) -> bool:
        """Whether a run so far has a tracker."""
        return name in self._trackers

    def close(self, longest: float = math.inf, hurry: Callable[[], bool] = no_stop) -> None:
        """Tell what is left, at most `longest` seconds in all; see `Delivery.close`."""
        end = time.monotonic() + longest
        for each in [*self._trackers.values(), *self._callbacks]:
            each.close(max(0.0, end - time.monotonic()), hurry)

    def _made(self, callback: Callback, name: str) -> Delivery:
        return Delivery(callback, name, self._say, self._stopping)


def name_of(callback: object) -> str:
    """Return the name of a callback's class, as `MODULE:NAME`."""
    return f"{type(callback).__module__}:{type(callback).__qualname__}"


def _too_slow(seconds: float) -> str:
    return f"took over {seconds:g} s for one event"
