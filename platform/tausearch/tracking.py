"""MLflow: one experiment per benchmark, a parent run per search, a nested run per trial. A view of the record.

The driver is the only writer, in a thread of its own: a slow or absent tracking server never delays a trial.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from tausearch.files import RunDirectory, Storage
from tausearch.record import Status, TrialSummary
from tausearch.spec import RunSpec

if TYPE_CHECKING:
    from tausearch.drive import Conclusion

_log = logging.getLogger(__name__)

_MLFLOW_STATUS: dict[Status, str] = {
    "complete": "FINISHED",
    "pruned": "KILLED",
    "diverged": "FAILED",
    "failed": "FAILED",
    "running": "KILLED",  # only asked for when the driver stops
}
PARENT_TAG = "mlflow.parentRunId"


class Tracker:
    """Writes a run to MLflow as it happens.

    Args:
        spec: The run.
        directory: Its run directory.
        storage: Holds the default tracking store.
        uri: Tracking URI; None for the default store, a SQLite file in the storage root.
    """

    def __init__(self, spec: RunSpec, directory: RunDirectory, storage: Storage, uri: str | None = None) -> None:
        self.spec = spec
        self.directory = directory
        self.storage = storage
        self.uri = uri or storage.mlflow_uri
        self.error: str | None = None
        self._client: Any = None
        self._experiment = ""
        self._parent = ""
        self._runs: dict[int, str] = {}
        self._written: dict[int, int] = {}
        self._open: set[int] = set()
        self._events: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()
        self._events.put(self._begin)

    def trial_changed(self, trial: TrialSummary) -> None:
        """Queue a change; see `Listener`."""
        self._events.put(lambda: self._write(trial))

    def close(self, status: str, conclusion: Conclusion) -> None:
        """Write what is left, tag the chosen trial, and end the parent run; waits until that is done.

        Args:
            status: "FINISHED", "FAILED" or "KILLED".
            conclusion: What the run came to.
        """
        self._events.put(lambda: self._end(status, conclusion))
        self._events.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            if self.error is not None:
                continue  # the record has everything; nothing half-written is added to
            try:
                event()
            except Exception as error:  # whatever MLflow raises, the search goes on
                self.error = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                _log.warning("MLflow at %s: %s", self.uri, self.error)

    def _begin(self) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415  # takes seconds to import; not in the driver's way here

        # An absent server is noticed within seconds, and the rest of the run then goes on without it.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
        with FileLock(self.storage.root / "mlflow.lock"):  # two searches must not create the schema at once
            self._client = MlflowClient(tracking_uri=self.uri)
            found = self._client.get_experiment_by_name(self.spec.benchmark)
            if found is None:
                location = self.storage.mlflow_artifacts.as_uri() if self.uri == self.storage.mlflow_uri else None
                self._experiment = self._client.create_experiment(self.spec.benchmark, artifact_location=location)
            else:
                self._experiment = found.experiment_id
        tags = {"method": self.spec.method, "kind": self.spec.purpose, "tausearch.run": self.spec.name}
        self._parent = self._create_run(self.spec.name, tags)
        protocol = {f"protocol/{k}": v for k, v in self.spec.protocol.model_dump(exclude_none=True).items()}
        self._log(
            self._parent,
            params={
                "method": self.spec.method,
                "algorithm": self.spec.algorithm,
                "trials": self.spec.trials,
                "seed": self.spec.seed,
                **protocol,
            },
        )

    def _create_run(self, name: str, tags: dict[str, str]) -> str:
        run = self._client.create_run(self._experiment, run_name=name, tags=tags)
        return str(run.info.run_id)

    def _write(self, trial: TrialSummary) -> None:
        if trial.number not in self._runs:
            tags = {PARENT_TAG: self._parent, "method": self.spec.method, "trial": str(trial.number)}
            self._runs[trial.number] = self._create_run(f"{self.spec.name}/trial-{trial.number}", tags)
            self._open.add(trial.number)
            self._log(self._runs[trial.number], params={**trial.hyperparameters, "seed": trial.seed})
        run, done = self._runs[trial.number], self._written.get(trial.number, 0)
        for row in trial.rows[done:]:
            self._log(run, metrics={k: v for k, v in row.items() if k != "task"}, step=int(row["task"]))
        self._written[trial.number] = max(done, trial.tasks_done)
        if trial.status != "running":
            self._log(run, tags={"status": trial.status, **({"error": trial.error[:4000]} if trial.error else {})})
            self._terminate(trial.number, trial.status)

    def _terminate(self, number: int, status: Status) -> None:
        self._client.set_terminated(self._runs[number], status=_MLFLOW_STATUS[status])
        self._open.discard(number)

    def _log(
        self,
        run: str,
        *,
        metrics: dict[str, float] | None = None,
        params: dict[str, object] | None = None,
        tags: dict[str, str] | None = None,
        step: int = 0,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415  # see _begin

        now = int(time.time() * 1000)
        self._client.log_batch(
            run,
            metrics=[Metric(k, v, now, step) for k, v in (metrics or {}).items()],
            params=[Param(k, str(v)) for k, v in (params or {}).items()],
            tags=[RunTag(k, v) for k, v in (tags or {}).items()],
        )

    def _end(self, status: str, conclusion: Conclusion) -> None:
        for number in sorted(self._open):
            self._terminate(number, "running")
        metrics, chosen = dict(conclusion.metrics), conclusion.chosen
        if chosen is not None:
            run = self._runs[chosen.number]
            self._log(run, tags={"chosen": "true", "benchmark": self.spec.benchmark})
            metrics[f"best/{self.spec.prefix}/final_accuracy"] = chosen.value or 0.0
            self._log(self._parent, params={f"best/{k}": v for k, v in chosen.hyperparameters.items()})
            if conclusion.set_run_id is not None:
                conclusion.set_run_id(run)
        self._log(self._parent, metrics=metrics)
        for file in conclusion.files:
            if file.is_file():
                self._client.log_artifact(self._parent, str(file))
        self._client.set_terminated(self._parent, status=status)
