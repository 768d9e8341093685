"""MLflow while a run is under way: one experiment per benchmark, a parent run per search, a nested run per trial.

A slow or absent tracking server never delays a trial.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable

from tausearch.runs import Conclusion, RunSpec, Storage, TrialSummary, TrialTable
from tausearch.tracking.mlflow_process import RemoteRun
from tausearch.tracking.mlflow_run import MlflowRun
from tausearch.tracking.mlflow_store import reason

_log = logging.getLogger(__name__)

LEISURE_SECONDS = 5.0  # from the beginning of the first trial to the first write, unless a task ends before
GATHER_SECONDS = 5.0  # from the start of a round of writes to the next; the end of a run does not wait for it
RETRY_SECONDS = 5.0  # from a failure to the next attempt
PATIENCE_SECONDS = 10.0  # without progress, after which the end of a run stops waiting for a server that fails
SILENCE_SECONDS = 60.0  # the same for a server that does not answer


WrittenRun = MlflowRun | RemoteRun
OpenRun = Callable[[RunSpec, Storage, str], WrittenRun]


class MlflowWriter:
    """Writes a run to MLflow while it runs. What a failing server missed is written when it is back.

    The caller's thread notes changes; a thread of the tracker is the only writer. Nothing is written before `end` is
    called or the first trials have had time to start: what MLflow has of thousands of trials takes seconds to read.
    Changes are gathered for some seconds, so that tasks of a trial share a call. `parent` is the writer of the search
    that a re-evaluation belongs to; it makes the MLflow run of both. `open_run` is by default `MlflowRun`.
    """

    def __init__(
        self,
        spec: RunSpec,
        storage: Storage,
        uri: str | None = None,
        parent: MlflowWriter | None = None,
        open_run: OpenRun | None = None,
    ) -> None:
        self._open_run = open_run
        self.spec = spec
        self.trials = TrialTable()
        self.storage = storage
        self.uri = uri or storage.mlflow_uri
        self.parent = parent
        self.error: str | None = None  # why MLflow lacks something
        self.is_known = False  # whether MLflow has ever shown the parent run
        self._wake = threading.Condition()
        self._noted: set[int] = set()  # trials that have changed since this object was made
        self._changed: set[int] = set()  # those of which MLflow lacks the latest change
        self._end: tuple[str, Conclusion] | None = None
        self._given_up = False
        self._failed = False  # ever: then all trials are compared with MLflow once more at the end
        self._away = True  # at the last attempt to connect
        self._failures: Counter[int] = Counter()  # per trial; a trial that MLflow refuses must not hold up others
        self._last_progress = time.monotonic()
        self._may_begin = False  # whether a trial has finished a task in this driver, or a part waits for this run
        self._round = -math.inf  # when the last round of writes began
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)

    def note(self, trial: TrialSummary) -> None:
        """Note that a trial started, finished a task, or ended."""
        before = self.trials.get(trial.number)
        self.trials.put(trial)
        with self._wake:
            self._noted.add(trial.number)
            self._changed.add(trial.number)
            self._may_begin = self._may_begin or (before is not None and len(trial.rows) > len(before.rows))
        self._start()

    def end(self, status: str, conclusion: Conclusion) -> None:
        """Have the chosen trial tagged and the parent run ended, as "FINISHED", "FAILED" or "KILLED"."""
        self._end = (status, conclusion)
        if self.parent is not None:
            self.parent._may_begin = True
        self._start()

    def wait(self, longest: float = math.inf) -> None:
        """Wait until MLflow has all of a run that has ended, as long as there is progress and at most `longest` s."""
        start = self._last_progress = time.monotonic()
        while not self._given_up and self._thread.is_alive():
            self._thread.join(0.02)
            silent = time.monotonic() - self._last_progress
            patience = SILENCE_SECONDS if self.error is None else PATIENCE_SECONDS
            if silent > patience or time.monotonic() - start > longest:
                self.error = self.error or "no answer"
                self._given_up = True
                self._start()
                self._thread.join(1.0)

    def _start(self) -> None:
        """Start the writer, or wake it."""
        if self.parent is not None:
            self.parent._start()
        if self._thread.ident is None:
            self._thread.start()
        with self._wake:
            self._wake.notify_all()

    def _work(self) -> None:
        run: WrittenRun | None = None
        with self._wake:
            self._wake.wait_for(lambda: self._may_begin or self._hurries, LEISURE_SECONDS)
        while not self._given_up:
            try:
                run = run or self._connect()
                self._write(run)
                if self._end is not None and not self._changed and not self._given_up:
                    if self._failed:
                        run, self._failed = self._connect(), False
                        self._write(run)
                    run.conclude(*self._end)
                    self._has_all()
                    return
            except Exception as error:  # the search goes on without MLflow
                run = None
                self._note(error)
            self._pause()

    def _connect(self) -> WrittenRun:
        was_away, self._away = self._away, True
        if self.parent is not None:
            self._wait_for(self.parent)
        run = (self._open_run or MlflowRun)(self.spec, self.storage, self.uri)
        with self._wake:
            self._away, self.is_known = False, True
            self._wake.notify_all()  # a part of this run waits for it
        if was_away:
            self._last_progress = time.monotonic()
        with self._wake:
            self._changed = set(self._noted)  # costs no request where MLflow has all
        return run

    def _wait_for(self, parent: MlflowWriter) -> None:
        """Wait until MLflow has the run that this one is part of; raises a `ConnectionError` if it fails there."""
        with parent._wake:
            parent._wake.wait_for(lambda: parent.is_known or parent.error is not None or self._given_up)
        if not parent.is_known:
            raise ConnectionError(parent.error or "no answer")

    def _write(self, run: WrittenRun) -> None:
        """Write all changes so far, each trial once."""
        with self._wake:
            changed = sorted(self._changed, key=lambda each: (self._failures[each], each))
        self._round = time.monotonic()
        for number in changed:
            if self._given_up:
                break
            with self._wake:
                self._changed.discard(number)
                trial = self.trials.get(number)
            assert trial is not None, "the table has every trial that has changed"
            known = run.changes
            try:
                run.write(trial)
            except Exception:
                self._failures[number] += 1
                raise
            finally:
                if run.changes > known:  # a repeated write that fails for ever is no progress
                    self._last_progress = time.monotonic()
        self._has_all()

    def _has_all(self) -> None:
        """Note that MLflow lacks nothing now. After giving up, it lacks the end of the run."""
        if not self._given_up:
            self.error = None

    def _note(self, error: Exception) -> None:
        self._failed = True
        message = reason(error)
        if message != self.error:
            _log.warning("MLflow at %s: %s; tried again every %g s", self.uri, message, RETRY_SECONDS)
        with self._wake:
            self.error = message
            self._wake.notify_all()

    @property
    def _hurries(self) -> bool:
        """Whether the next round comes at once: the run has ended, or was given up."""
        return self._end is not None or self._given_up

    def _pause(self) -> None:
        """Wait for a change and the next round, or after a failure for the next attempt."""
        with self._wake:
            if self.error is None:
                self._wake.wait_for(lambda: self._changed or self._hurries)
                self._wake.wait_for(lambda: self._hurries, self._round + GATHER_SECONDS - time.monotonic())
            elif self._end is not None:
                self._wake.wait_for(lambda: self._given_up, 1.0)
            else:
                self._wake.wait_for(lambda: self._end is not None, RETRY_SECONDS)
