"""MLflow as a callback of the driver: it passes events on to a `MlflowWriter` for each run."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from tausearch.runs import Conclusion, RunSpec, Storage
from tausearch.tracking.benchmark_tags import log_benchmark_table
from tausearch.tracking.delivery import Deliveries
from tausearch.tracking.events import Event, RunBegan, RunEnded, TaskDone, TrialBegan, TrialEnded
from tausearch.tracking.mlflow_process import MlflowProcess
from tausearch.tracking.mlflow_writer import MlflowWriter


class MlflowCallback:
    """Writes runs to MLflow, in a process for each tracking store. Never waits: each `MlflowWriter` has a thread.

    A trial that an earlier driver has told is compared with MLflow at the end of the run.
    """

    def __init__(self) -> None:
        self._writers: dict[str, MlflowWriter] = {}
        self._opening = threading.Lock()
        self._processes: dict[str, MlflowProcess] = {}  # by the store's address without its password
        self._unused: MlflowProcess | None = MlflowProcess()  # imports MLflow before the first run is written

    def process(self, uri: str) -> MlflowProcess:
        """Return the process that writes to a tracking store."""
        with self._opening:
            if uri not in self._processes:
                self._processes[uri], self._unused = self._unused or MlflowProcess(), None
            return self._processes[uri]

    def on_event(self, event: Event) -> None:
        """Note what MLflow is to be told."""
        spec = event.run.spec
        if isinstance(event, RunBegan):
            self._writers[spec.name] = self._writer(spec, event.run.storage)
        elif isinstance(event, TrialBegan | TaskDone | TrialEnded):
            if not event.repeated:
                self._writers[spec.name].note(event.trial)
        elif isinstance(event, RunEnded):
            writer = self._writers[spec.name]
            for trial in event.trials:  # an earlier driver may have failed to write some
                writer.note(trial)
            conclusion = Conclusion(event.chosen, event.metrics or {}, event.files, notes=dict(event.notes or {}))
            writer.end("KILLED" if event.stopped else "FINISHED", conclusion)

    def finish(self, spec: RunSpec, longest: float = math.inf) -> str | None:
        """Return why MLflow lacks something of a run that has ended, None if nothing; see `MlflowWriter.wait`."""
        writer = self._writers.pop(spec.name, None)
        if writer is None:
            return "it was not told of the run"
        writer.wait(longest)
        return writer.error

    def _writer(self, spec: RunSpec, storage: Storage) -> MlflowWriter:
        uri = tracking_uri_of(spec, storage) or storage.mlflow_uri
        search = None if spec.name == spec.run_name else self._writers.get(spec.run_name)
        return MlflowWriter(spec, storage, uri, search, self.process(uri).open)


def table_writer(deliveries: Deliveries) -> Callable[..., str]:
    """Return what does the work of `log_benchmark_table`: the process of a driver, if MLflow has a run of it."""
    if not deliveries.has("mlflow"):
        return log_benchmark_table
    callback = deliveries.tracker("mlflow").callback
    assert isinstance(callback, MlflowCallback)
    return lambda storage, uri, *table: callback.process(uri).log_benchmark_table(storage, uri, *table)


def tracking_uri_of(spec: RunSpec, storage: Storage) -> str | None:
    """Return the address of the tracking store of a run, without its password; None for a run that MLflow lacks."""
    if "mlflow" not in spec.trackers:
        return None
    return spec.tracking_uri or storage.mlflow_uri
