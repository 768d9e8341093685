"""MLflow while a run is under way: one experiment per benchmark, a parent run per search, a nested run per trial.

The driver is the only writer, in a thread of its own: a slow or absent tracking server never delays a trial.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING

from tausearch.files import Storage
from tausearch.mlflow_run import MlflowRun
from tausearch.mlflow_store import reason
from tausearch.record import TrialSummary
from tausearch.spec import RunSpec

if TYPE_CHECKING:
    from tausearch.drive import Conclusion

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0  # from a failure to the next attempt
PATIENCE_SECONDS = 10.0  # without progress, after which the end of a run waits no longer for a server that fails
SILENCE_SECONDS = 60.0  # the same for one that does not even fail


class Tracker:
    """Writes a run to MLflow as it happens, and what could not be written when the tracking server is back.

    Nothing is written before the first trial starts, or `close` is called.

    Args:
        spec: The run.
        storage: Holds the default tracking store.
        uri: Tracking URI; None for the default store, a SQLite file in the storage root.
    """

    def __init__(self, spec: RunSpec, storage: Storage, uri: str | None = None) -> None:
        self.spec = spec
        self.storage = storage
        self.uri = uri or storage.mlflow_uri
        self._error: str | None = None
        self._failed = False  # ever: then what has arrived is looked up once more at the end
        self._trials: dict[int, TrialSummary] = {}  # as they are now
        self._changed: set[int] = set()  # MLflow does not know yet
        self._end: tuple[str, Conclusion] | None = None
        self._given_up = False
        self._wake = threading.Condition()
        self._away = True  # at the last attempt to reach it
        self._failures: Counter[int] = Counter()  # per trial; one that MLflow refuses holds up no other
        self._last_progress = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        # In the time that Ray takes to start: Tune imports it as well, and no trial starts before that is done.
        threading.Thread(target=import_module, args=("mlflow",), name="mlflow-import", daemon=True).start()

    @property
    def error(self) -> str | None:
        """Why MLflow lacks something; None if it has everything."""
        return self._error

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a change; see `Listener`."""
        with self._wake:
            self._trials[trial.number] = trial
            self._changed.add(trial.number)
            self._wake.notify()
        self._start()

    def close(self, status: str, conclusion: Conclusion, longest: float = math.inf) -> None:
        """Write what is left, tag the chosen trial, and end the parent run; waits for that as long as it gets on.

        Args:
            status: "FINISHED", "FAILED" or "KILLED".
            conclusion: What the run came to.
            longest: Seconds after which to leave it at that, however it gets on.
        """
        start = time.monotonic()
        with self._wake:
            self._end = (status, conclusion)
            self._last_progress = time.monotonic()
            self._wake.notify()
        self._start()
        while self._thread.is_alive():
            self._thread.join(0.1)
            silent = time.monotonic() - self._last_progress
            patience = SILENCE_SECONDS if self._error is None else PATIENCE_SECONDS
            if silent > patience or time.monotonic() - start > longest:
                self._error = self._error or "no answer"
                with self._wake:
                    self._given_up = True
                    self._wake.notify()
                self._thread.join(1.0)
                return

    def _start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def _work(self) -> None:
        run: MlflowRun | None = None
        while not self._given_up:
            try:
                run = run or self._connect()
                self._write(run)
                if self._end is not None and not self._changed:
                    if self._failed:
                        run, self._failed = self._connect(), False
                        self._write(run)
                    run.conclude(*self._end)
                    self._error = None
                    return
            except Exception as error:  # whatever MLflow raises, the search goes on
                run = None
                self._note(error)
            self._pause()

    def _connect(self) -> MlflowRun:
        was_away, self._away = self._away, True
        run = MlflowRun(self.spec, self.storage, self.uri)
        self._away = False
        if was_away:
            self._last_progress = time.monotonic()
        with self._wake:
            self._changed = set(self._trials)  # costs nothing where MLflow has it
        return run

    def _write(self, run: MlflowRun) -> None:
        while self._changed:
            with self._wake:
                number = min(self._changed, key=lambda each: (self._failures[each], each))
                trial = self._trials[number]
                self._changed.discard(number)
            known = run.changes
            try:
                run.write(trial)
            except Exception:
                self._failures[number] += 1
                raise
            finally:
                if run.changes > known:  # what was there already is no progress: a write may fail for ever
                    self._last_progress = time.monotonic()
        self._error = None

    def _note(self, error: Exception) -> None:
        self._failed = True
        message = reason(error)
        if message != self._error:
            _log.warning("MLflow at %s: %s; tried again every %g s", self.uri, message, RETRY_SECONDS)
        self._error = message

    def _pause(self) -> None:
        """Wait for a change; after a failure, for the time of the next attempt."""
        with self._wake:
            if self._error is None:
                self._wake.wait_for(lambda: self._changed or self._end is not None)
            elif self._end is not None:  # somebody waits
                self._wake.wait_for(lambda: self._given_up, 1.0)
            else:
                self._wake.wait_for(lambda: self._end is not None, RETRY_SECONDS)
