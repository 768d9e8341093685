"""MLflow while a run is under way: one experiment per benchmark, a parent run per search, a nested run per trial.

The driver is the only writer, in a thread of its own: a slow or absent tracking server never delays a trial.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module

from tausearch.runs import Conclusion, RunSpec, Storage, TrialSummary, TrialTable
from tausearch.tracking.mlflow_run import DrawTrial, MlflowRun
from tausearch.tracking.mlflow_store import reason

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0  # from a failure to the next attempt
PATIENCE_SECONDS = 10.0  # without progress, after which the end of a run waits no longer for a server that fails
SILENCE_SECONDS = 60.0  # the same for one that does not even fail


class Tracker:
    """Writes a run to MLflow as it happens, and what could not be written when the tracking server is back.

    Nothing is written before the first trial starts, or `settle` or `close` is called.

    Args:
        spec: The run.
        trials: All of its trials, as they are now.
        storage: Holds the default tracking store.
        uri: Tracking URI; None for the default store, a SQLite file in the storage root.
        after: Writes to the same parent run, and makes it: this one writes nothing before that is there.
        draw: Draws the picture of a trial that has ended; None for no picture.
    """

    def __init__(
        self,
        spec: RunSpec,
        trials: TrialTable,
        storage: Storage,
        uri: str | None = None,
        after: Tracker | None = None,
        draw: DrawTrial | None = None,
    ) -> None:
        self._draw = draw
        self.spec = spec
        self.trials = trials
        self.storage = storage
        self.uri = uri or storage.mlflow_uri
        self.after = after
        self.has_parent = False  # ever: whether MLflow has the parent run
        self._error: str | None = None
        self._failed = False  # ever: then what has arrived is looked up once more at the end
        self._told: set[int] = set()  # of trials that have changed since this object was made
        self._changed: set[int] = set()  # of those, the trials that MLflow does not know yet as they are
        self._settling = False  # whether somebody waits until it knows them all
        self._run_ids: dict[int, str] | None = None  # once it does
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
        """Take note that a trial started, finished a task, or ended: the table has it."""
        with self._wake:
            self._told.add(trial.number)
            self._changed.add(trial.number)
            self._wake.notify()
        self._start()

    def settle(self, longest: float = math.inf) -> dict[int, str]:
        """Write what is left of the trials; waits for that as long as it gets on.

        Args:
            longest: Seconds after which to leave it at that, however it gets on.

        Returns:
            Number of each trial that MLflow has to the id of its run there; empty if it could not be written.
        """
        with self._wake:
            self._settling = True
            self._wake.notify()
        self._start()
        self._wait_for(lambda: self._run_ids is not None, longest)
        return dict(self._run_ids or {})

    def close(self, status: str, conclusion: Conclusion, longest: float = math.inf) -> None:
        """Settle, tag the chosen trial, and end the parent run; waits for that as long as it gets on.

        Args:
            status: "FINISHED", "FAILED" or "KILLED".
            conclusion: What the run came to.
            longest: Seconds after which to leave it at that, however it gets on.
        """
        with self._wake:
            self._settling = True
            self._end = (status, conclusion)
            self._wake.notify()
        self._start()
        self._wait_for(lambda: not self._thread.is_alive(), longest)

    def _wait_for(self, done: Callable[[], bool], longest: float) -> None:
        """Wait until something is done, or give up once there has been no progress for too long."""
        start = self._last_progress = time.monotonic()
        while not self._given_up and not done():
            self._thread.join(0.02)
            silent = time.monotonic() - self._last_progress
            patience = SILENCE_SECONDS if self._error is None else PATIENCE_SECONDS
            if silent > patience or time.monotonic() - start > longest:
                self._error = self._error or "no answer"
                with self._wake:
                    self._given_up = True
                    self._wake.notify()
                self._thread.join(1.0)

    def _start(self) -> None:
        if self.after is not None:
            self.after._start()
        if self._thread.ident is None:
            self._thread.start()

    def _work(self) -> None:
        run: MlflowRun | None = None
        while not self._given_up:
            try:
                run = run or self._connect()
                self._write(run)
                if self._settling and not self._changed and not self._given_up:
                    if self._failed:
                        run, self._failed = self._connect(), False
                        self._write(run)
                    self._run_ids = run.run_ids
                    if self._end is not None:
                        run.conclude(*self._end)
                        self._has_all()
                        return
            except Exception as error:  # whatever MLflow raises, the search goes on
                run = None
                self._note(error)
            self._pause()

    def _connect(self) -> MlflowRun:
        was_away, self._away = self._away, True
        if self.after is not None and not self.after.has_parent:
            raise ConnectionError(self.after.error or "the run that this is part of is not there yet")
        run = MlflowRun(self.spec, self.storage, self.uri, self._draw)
        self._away, self.has_parent = False, True
        if was_away:
            self._last_progress = time.monotonic()
        with self._wake:
            self._changed = set(self._told)  # costs nothing where MLflow has it
        return run

    def _write(self, run: MlflowRun) -> None:
        while self._changed and not self._given_up:
            with self._wake:
                number = min(self._changed, key=lambda each: (self._failures[each], each))
                self._changed.discard(number)
                trial = self.trials.get(number)
            assert trial is not None, "whoever is told of a trial finds it in the table"
            known = run.changes
            try:
                run.write(trial)
            except Exception:
                self._failures[number] += 1
                raise
            finally:
                if run.changes > known:  # what was there already is no progress: a write may fail for ever
                    self._last_progress = time.monotonic()
        self._has_all()

    def _has_all(self) -> None:
        """Take note that nothing is lacking just now; once it has been given up, something is: the end of the run."""
        if not self._given_up:
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
                self._wake.wait_for(lambda: self._changed or self._is_awaited() or self._given_up)
            elif self._is_awaited():
                self._wake.wait_for(lambda: self._given_up, 1.0)
            else:
                self._wake.wait_for(self._is_awaited, RETRY_SECONDS)

    def _is_awaited(self) -> bool:
        """Whether somebody waits for what is still to be written."""
        return self._end is not None or (self._settling and self._run_ids is None)
