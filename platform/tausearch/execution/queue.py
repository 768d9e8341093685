"""The queue of runs that one driver works through. It opens runs when needed, asks what follows, and concludes them."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from tausearch.execution.checkpoints import prepare_checkpoints
from tausearch.execution.interrupt import Interrupt
from tausearch.execution.recorder import LOST_SECONDS, URGENT_SECONDS, Recorder
from tausearch.execution.run import Run
from tausearch.execution.storage_watch import StorageWatch
from tausearch.runs import RunResult, TrackerName, TrialSummary, note_code
from tausearch.studies import TrialListener
from tausearch.tracking import Callback, Deliveries, MlflowCallback, TensorBoardCallback
from trainables.errors import InputError

_log = logging.getLogger(__name__)

_TRACKERS: dict[TrackerName, Callable[[], Callback]] = {
    "mlflow": MlflowCallback,
    "tensorboard": TensorBoardCallback,
}


class RunSource(Protocol):
    """Where `RunQueue` gets runs that follow each other: a cell of a campaign, or a single run."""

    def open(self, locks: ExitStack) -> Run | None:
        """Return the next run; None if no run is left. `locks` is closed once the run is concluded."""

    def on_error(self, error: Exception) -> None:
        """Note that the source cannot continue, or raise the error to stop the driver."""

    def on_concluded(self, result: RunResult) -> None:
        """Note that a run has been concluded."""


class SingleRun:
    """A `RunSource` of one run, whose caller holds the run's lock, and of the runs that follow it (`Run.next_run`).

    The thread that concludes runs may meet an error, so `check` raises it.

    Attributes:
        exhausted: Whether the run and all that follow it have been opened.
    """

    def __init__(self, run: Run, say: Callable[[str], None] = print) -> None:
        self._run = run
        self._say = say
        self._begun = False
        self._error: Exception | None = None
        self.exhausted = False

    def open(self, locks: ExitStack) -> Run | None:
        """Return the run, then each run that follows it."""
        if not self._begun:
            self._begun = True
            return self._run
        found = None if self._error is not None else self._run.next_run(locks, self._say)
        self.exhausted = found is None
        return found

    def on_error(self, error: Exception) -> None:
        """Keep the error for `check`."""
        self._error = self._error or error

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._error is not None:
            raise self._error

    def on_concluded(self, result: RunResult) -> None:
        """Do nothing: `RunQueue.results` has the result."""


@dataclass
class _Entry:
    """An open run; `parent` is the search that it belongs to, which is concluded after it. An `error` ends it early."""

    source: RunSource
    run: Run
    recorder: Recorder
    locks: ExitStack
    parent: _Entry | None = None
    error: InputError | None = None

    def drop(self, error: InputError | None) -> None:
        """Release the run without concluding it. An error removes one that is new and has no trial."""
        with suppress(InputError), self.locks:
            if error is not None:
                raise error


@dataclass
class _FirstTask:
    """A listener that hands out some work once, when a trial has finished a task: the driver has little to do then."""

    queue: SimpleQueue[Callable[[], None] | None]
    work: Callable[[], None]
    done: bool = False

    def trial_changed(self, trial: TrialSummary) -> None:
        """Hand out the work if this is the first finished task."""
        if trial.rows and not self.done:
            self.done = True
            self.queue.put(self.work)


class RunQueue:
    """Opens the runs of its sources as they are needed, early sources first. A thread concludes each run as it ends.

    So no trial waits for figures or MLflow, and the end of a run does not wait for that of Ray.

    Args:
        sources: The cells of a campaign in order, or a single run.
        interrupt: Knows whether and how the driver was stopped.
        watch: Once it has a problem, no run is opened, and open runs are not concluded.
        say: Prints a line for a person.
        listeners_for: Returns the display's listeners of a run that is opened.
        callbacks: They are told of all runs.

    Attributes:
        results: The results of the runs that have been concluded, in this order.
        has_failed_run: Whether an error has ended a run; see `stop_run`.
    """

    def __init__(
        self,
        sources: Sequence[RunSource],
        interrupt: Interrupt,
        watch: StorageWatch,
        say: Callable[[str], None],
        listeners_for: Callable[[RunSource, Run], Sequence[TrialListener]],
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.interrupt = interrupt
        self.watch = watch
        self.say = say
        self.listeners_for = listeners_for
        self.results: list[RunResult] = []
        self.has_failed_run = False
        self.deliveries = Deliveries(callbacks, _TRACKERS, say, lambda: interrupt.must_stop)
        self._sources = list(sources)
        self._first: Run | None = None
        self._open: dict[str, _Entry] = {}  # by names of runs
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work_off, name="conclusions", daemon=True)
        self._thread.start()

    def open_first(self) -> None:
        """Open the run that `open_next` will return."""
        self._first = self.open_next()

    def open_next(self) -> Run | None:
        """Open the first run of the next source; None if no source is left."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while self._sources and self.watch.problem is None:
            run = self._next_of(self._sources.pop(0))
            if run is not None:
                return run
        return None

    def next_after(self, run: Run) -> Run | None:
        """Return the run that follows an ended one, and conclude the ended one.

        First comes what belongs to the run, such as the re-evaluation of a search, then the next run of the source.
        """
        entry = self._open[run.spec.name]
        if entry.error is None and (follow_up := self._follow_up(entry)) is not None:
            return follow_up
        for each in filter(None, (entry, entry.parent)):
            self._work.put(partial(self._conclude, self._open.pop(each.run.spec.name)))
        return None if self.watch.problem is not None else self._next_of(entry.source)

    def stop_run(self, run: Run, error: InputError) -> None:
        """Note that a run cannot go on: none of its trials starts any more, and nothing follows it."""
        entry = self._open[run.spec.name]
        if entry.error is None:
            entry.error = error
            entry.source.on_error(error)
            self.has_failed_run = True
        run.exhausted = True

    def conclude_finished(self) -> bool:
        """Open runs and conclude those that are over, up to the first that is not; return whether there is one."""
        while (run := self.open_next()) is not None:
            while run is not None and run.is_over(list(run.trials)):
                run = self.next_after(run)
            if run is not None:
                self._first = run
                return True
        return False

    def release(self, error: InputError | None = None) -> None:
        """Release the open runs that have not begun, and conclude the others; for the error see `_Entry.drop`."""
        for name, entry in reversed([*self._open.items()]):
            if not entry.recorder.announcer.has_begun:
                entry.drop(error)
                del self._open[name]
        self.close()

    def close(self) -> None:
        """Conclude all runs that are not concluded yet, and wait until they are and all callbacks are told."""
        for entry in reversed(self._open.values()):
            self._work.put(partial(self._conclude, entry))
        self._open = {}
        self._work.put(None)
        self._thread.join()
        before = self.interrupt.handled
        self.deliveries.close(self._longest, lambda: self.interrupt.handled > before)

    @property
    def _longest(self) -> float:
        """Seconds that the end may wait for callbacks."""
        if self.watch.problem is not None:
            return LOST_SECONDS
        return URGENT_SECONDS if self.interrupt.urgent else math.inf

    def _next_of(self, source: RunSource) -> Run | None:
        with ExitStack() as locks:
            return self._opened(source, lambda: source.open(locks), locks)

    def _follow_up(self, entry: _Entry) -> Run | None:
        if self.watch.problem is not None:
            return None
        return self._opened(entry.source, entry.run.follow_up, ExitStack(), entry)

    def _opened(
        self, source: RunSource, open_run: Callable[[], Run | None], locks: ExitStack, parent: _Entry | None = None
    ) -> Run | None:
        """Open a run and its recorder. An error that the storage did not cause is the source's."""
        try:
            run = open_run()
            if run is None:
                return None
            changed = note_code(run.spec, run.directory) if parent is None else []
            for line in (*changed, *prepare_checkpoints(run.directory, run.tune_trials.spec, run.tune_trials.trials)):
                self.say(line)
            recorder = Recorder(run, self.deliveries, None if parent is None else parent.recorder)
            record, *others = [
                *recorder.listeners,
                *self.listeners_for(source, run),
                _FirstTask(self._work, run.preload_imports),
            ]
            run.listeners = run.tune_trials.listeners(record, others)
        except (ValueError, OSError) as error:  # of the storage, or of what a sampler does with the record
            if not self.watch.is_storage_error(error):
                source.on_error(error)
            return None
        self._open[run.spec.name] = _Entry(source, run, recorder, locks.pop_all(), parent)
        return run

    def _work_off(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                _log.exception("the end of a run cannot be prepared")

    def _conclude(self, entry: _Entry) -> None:
        if entry.error is not None and not entry.recorder.announcer.has_begun:
            entry.drop(entry.error)
            return
        with entry.locks:
            try:
                self._write_end(entry)
            except Exception as error:  # the other sources continue
                _log.exception("%s cannot be concluded", entry.run.spec.name)
                entry.source.on_error(error)

    def _write_end(self, entry: _Entry) -> None:
        if self.watch.problem is not None:
            entry.recorder.abandon()
            return
        result = entry.recorder.conclude(self.interrupt)
        self.results.append(result)
        if entry.parent is None:
            entry.source.on_concluded(result)
