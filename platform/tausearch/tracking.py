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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from tausearch.files import Storage
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
RUN_TAG = "tausearch.run"


def _create_schema(path: Path) -> None:
    """Make the default tracking store, whole or not at all: half a schema could never be opened again."""
    from mlflow import MlflowClient  # noqa: PLC0415  # takes seconds to import

    if path.exists():
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    MlflowClient(tracking_uri=f"sqlite:///{unfinished}").search_experiments(max_results=1)
    os.replace(unfinished, path)


class Tracker:
    """Writes a run to MLflow as it happens.

    Args:
        spec: The run.
        storage: Holds the default tracking store.
        uri: Tracking URI; None for the default store, a SQLite file in the storage root.
    """

    def __init__(self, spec: RunSpec, storage: Storage, uri: str | None = None) -> None:
        self.spec = spec
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
            if self.uri == self.storage.mlflow_uri:
                _create_schema(self.storage.mlflow_file)
            self._client = MlflowClient(tracking_uri=self.uri)
            found = self._client.get_experiment_by_name(self.spec.benchmark)
            if found is None:
                location = self.storage.mlflow_artifacts.as_uri() if self.uri == self.storage.mlflow_uri else None
                self._experiment = self._client.create_experiment(self.spec.benchmark, artifact_location=location)
            else:
                self._experiment = found.experiment_id
        if self._find_runs():
            return
        tags = {"method": self.spec.method, "kind": self.spec.purpose, RUN_TAG: self.spec.name, **self._origin()}
        self._parent = self._create_run(self.spec.name, tags)
        protocol = {f"protocol/{k}": v for k, v in self.spec.protocol.model_dump(exclude_none=True).items()}
        about = {"method": self.spec.method, "algorithm": self.spec.algorithm, "seed": self.spec.seed}
        self._log(self._parent, params={**about, **protocol})

    def _origin(self) -> dict[str, str]:
        """Return the tags that say where the hyperparameters of a final run were tuned."""
        if self.spec.tuned_on is None:
            return {}
        return {"tuned_on": self.spec.tuned_on, "judged_on": self.spec.benchmark, "source": self.spec.source or ""}

    def _find_runs(self) -> bool:
        """Take over the runs that an earlier attempt made; says whether there are any."""
        parents = self._search(f"tags.`{RUN_TAG}` = '{self.spec.name}'")
        if not parents:
            return False
        self._parent = parents[0].info.run_id
        self._client.update_run(self._parent, status="RUNNING")
        for run in self._search(f"tags.`{PARENT_TAG}` = '{self._parent}'"):
            number = int(run.data.tags["trial"])
            self._runs[number] = run.info.run_id
            history = self._client.get_metric_history(run.info.run_id, f"{self.spec.prefix}/average_accuracy")
            self._written[number] = max((metric.step for metric in history), default=0)
            if "chosen" in run.data.tags:
                self._client.delete_tag(run.info.run_id, "chosen")  # it is chosen again at the end
        return True

    def _search(self, query: str) -> list[Any]:
        found, token = [], None
        while True:
            page = self._client.search_runs([self._experiment], query, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def _create_run(self, name: str, tags: dict[str, str]) -> str:
        run = self._client.create_run(self._experiment, run_name=name, tags=tags)
        return str(run.info.run_id)

    def _write(self, trial: TrialSummary) -> None:
        if trial.number not in self._runs:
            tags = {PARENT_TAG: self._parent, "method": self.spec.method, "trial": str(trial.number), **self._origin()}
            self._runs[trial.number] = self._create_run(f"{self.spec.name}/trial-{trial.number}", tags)
            self._log(self._runs[trial.number], params={**trial.hyperparameters, "seed": trial.seed})
        run, done = self._runs[trial.number], self._written.get(trial.number, 0)
        for row in trial.rows[done:]:
            self._log(run, metrics={k: v for k, v in row.items() if k != "task"}, step=int(row["task"]))
        self._written[trial.number] = max(done, trial.tasks_done)
        if trial.status == "running":
            if trial.number not in self._open:
                self._client.update_run(run, status="RUNNING")
                self._open.add(trial.number)
        else:
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
            # Tags, because parameters can never be changed and a continued search may choose another trial.
            self._log(self._parent, tags={f"best/{k}": str(v) for k, v in chosen.hyperparameters.items()})
            if conclusion.set_run_id is not None:
                conclusion.set_run_id(run)
        self._log(self._parent, metrics=metrics)
        for file in conclusion.files:
            if file.is_file():
                self._client.log_artifact(self._parent, str(file))
        self._client.set_terminated(self._parent, status=status)
