"""What MLflow has of one run: a parent run, and a nested run per trial. A view of the record.

Every write first knows what is there and adds what is missing, so it can be repeated at any time: after a tracking
server was away, after the driver was killed, or to build all of it anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tausearch.runs import (
    Conclusion,
    FinalSpec,
    RunSpec,
    SearchSpec,
    Status,
    Storage,
    TrialSummary,
)
from tausearch.tracking.mlflow_store import open_store, store_lock
from tausearch.tracking.provenance import dataset_of, provenance
from trainables.metrics import is_seconds

_MLFLOW_STATUS: dict[Status, str] = {
    "complete": "FINISHED",
    "pruned": "KILLED",
    "diverged": "FAILED",
    "failed": "FAILED",
    "running": "RUNNING",
}
PARENT_TAG = "mlflow.parentRunId"
RUN_TAG = "tausearch.run"
ID_TAG = "tausearch.id"
_TASKS_TAG = "tasks"  # how many are written: MLflow sets tags after it has stored a batch's metrics
_Point = tuple[str, float, int, int]  # name, value, milliseconds since the epoch, task
DrawTrial = Callable[[RunSpec, TrialSummary], Any]  # a matplotlib figure
MATRIX_FILE = "accuracy_matrix.png"
_BATCH = 900  # metrics in one call; MLflow takes 1,000


@dataclass
class _Nested:
    """The nested run of a trial, as MLflow has it.

    Attributes:
        id: The id that MLflow gave the run.
        start: When the run started, milliseconds since the epoch.
        tasks: Number of tasks whose metrics MLflow has.
        described: Whether MLflow has the trial's parameters.
        status: The run's status in MLflow's words, such as "RUNNING".
        tags: The run's tags in MLflow.
        latest: Time of the last task written, milliseconds since the epoch; None if it was not looked up.
    """

    id: str
    start: int
    tasks: int
    described: bool
    status: str
    tags: dict[str, str]
    latest: int | None = None


class MlflowRun:
    """Brings MLflow's view of a run up to date. Any method may raise whatever MLflow raises; then make a new one.

    Args:
        spec: The specification of the run.
        storage: The storage root that holds the default tracking store.
        uri: MLflow tracking URI of the store to write to.
        draw: Draws the picture of a trial that has ended; None for no picture.

    Attributes:
        written: Number of tasks that this object has written.
        changes: Number of changes to nested runs that MLflow has taken from it.
    """

    def __init__(self, spec: RunSpec, storage: Storage, uri: str, draw: DrawTrial | None = None) -> None:
        self._draw = draw
        self.spec = spec
        self.storage = storage
        self.written = 0
        self.changes = 0
        self._client, self._experiment = open_store(storage, uri, spec.benchmark)
        self._parent = self._find_parent()
        self._nested = self._find_nested()

    def write(self, trial: TrialSummary) -> None:
        """Write what MLflow lacks of a trial: at most one batched call unless it ended."""
        run = self._nested.get(trial.number) or self._create(trial)
        rows = trial.rows[run.tasks :]
        if rows or not run.described:
            params = {} if run.described else {**trial.hyperparameters, **self._seeds(trial)}
            self._log(run.id, self._points(run, trial, rows), params, {_TASKS_TAG: str(trial.tasks_done)})
            run.described, run.tasks = True, run.tasks + len(rows)
            self.changes += 1
            self.written += len(rows)
        status = _MLFLOW_STATUS[trial.status]
        if trial.status == "running":
            self._set_status(run, status)
        elif run.status != status or run.tags.get("status") != trial.status:
            if trial.rows and self._draw is not None:
                self._client.log_figure(run.id, self._draw(self.spec, trial), MATRIX_FILE)
            tags = {"status": trial.status, **({"error": trial.error[:4000]} if trial.error else {})}
            self._log(run.id, tags=tags)
            run.tags |= tags
            self._set_status(run, status)

    def _seeds(self, trial: TrialSummary) -> dict[str, int]:
        """Return the seeds that tell a trial from the others with its hyperparameters."""
        order = self.spec.class_order(trial.number)
        split = self.spec.split_of(trial.number)
        own = {} if split == self.spec.protocol.split_seed else {"split_seed": split}
        return {"seed": trial.seed, **own, **({} if order is None else {"class_order": order})}

    @property
    def run_ids(self) -> dict[int, str]:
        """Number of each trial that MLflow has to the id of its nested run."""
        return {number: run.id for number, run in self._nested.items()}

    def conclude(self, status: str, conclusion: Conclusion) -> None:
        """Tag the chosen trial, write what the run came to, and end the parent run.

        Args:
            status: The parent run's final status: "FINISHED", "FAILED" or "KILLED".
            conclusion: What the run came to.
        """
        for run in self._nested.values():
            if run.status == "RUNNING":
                self._set_status(run, "KILLED")  # nothing runs without a driver
        metrics, chosen = dict(conclusion.metrics), conclusion.chosen
        self._tag_chosen(None if chosen is None else chosen.number)
        if chosen is not None:
            metrics[f"best/{self.spec.metrics.final_accuracy}"] = chosen.value or 0.0
            # Tags, because parameters can never be changed and a continued search may choose another trial.
            self._log(self._parent.info.run_id, tags={f"best/{k}": str(v) for k, v in chosen.hyperparameters.items()})
        now, known = int(time.time() * 1000), self._parent.data.metrics
        self._log(self._parent.info.run_id, [(k, v, now, 0) for k, v in metrics.items() if known.get(k) != v])
        for file in conclusion.files:
            if file.is_file():
                self._client.log_artifact(self._parent.info.run_id, str(file))
        self._client.set_terminated(self._parent.info.run_id, status=status)

    def _find_parent(self) -> Any:
        """Return the parent run that an earlier attempt made, or a new one; its parameters are written in any case.

        A request that timed out may have reached a server that was only slow, and been sent again: the parent with
        nested runs is the one, the other is deleted.

        Returns:
            MLflow's run, as it was found.
        """
        tag, value = (ID_TAG, self.spec.id) if self.spec.id else (RUN_TAG, self.spec.run_name)
        found = self._search(f"tags.`{tag}` = '{value}'")
        if len(found) > 1:
            found.sort(key=lambda run: -len(self._search(f"tags.`{PARENT_TAG}` = '{run.info.run_id}'")))
            self._delete(found[1:])
        if found:
            parent = found[0]
            # It may have a new name.
            self._client.update_run(parent.info.run_id, status="RUNNING", name=self.spec.run_name)
            self._client.set_tag(parent.info.run_id, RUN_TAG, self.spec.run_name)
        else:
            names = {RUN_TAG: self.spec.run_name, ID_TAG: self.spec.id}
            kind = {"method": self.spec.method, "kind": self.spec.purpose}
            tags = {**kind, **names, **self._origin(), **self._known(), **self._bounds(), **provenance(self.spec)}
            parent = self._client.create_run(self._experiment, run_name=self.spec.run_name, tags=tags)
        if not (parent.inputs and parent.inputs.dataset_inputs):
            with store_lock(self.storage):  # MLflow fails if two runs say at once what data they are on
                self._client.log_inputs(parent.info.run_id, [dataset_of(self.spec)])
        if not parent.data.params:
            protocol = {f"protocol/{k}": v for k, v in self.spec.protocol.model_dump(exclude_none=True).items()}
            self._log(parent.info.run_id, params={**self._about(), **protocol, **self.spec.fixed})
        return parent

    def _about(self) -> dict[str, Any]:
        """Return the parameters of the parent run beside its protocol and its hyperparameters."""
        search = {"algorithm": self.spec.algorithm, "seed": self.spec.seed} if isinstance(self.spec, SearchSpec) else {}
        return {"method": self.spec.method, **search}

    def _origin(self) -> dict[str, str]:
        """Return the tags that say where the hyperparameters of a final run were tuned."""
        if not isinstance(self.spec, FinalSpec) or self.spec.tuned_on is None:
            return {}
        return {"tuned_on": self.spec.tuned_on, "judged_on": self.spec.benchmark, "source": self.spec.source or ""}

    def _known(self) -> dict[str, str]:
        """Return the tag that says from where a search knew its first points."""
        origins = [known.origin for known in self.spec.warm_start] if isinstance(self.spec, SearchSpec) else []
        return {"warm_start": "; ".join(origins)} if origins else {}

    def _bounds(self) -> dict[str, str]:
        """Return the tag that says which bounds a search's choice must keep."""
        bounds = "; ".join(map(str, self.spec.constraints)) if isinstance(self.spec, SearchSpec) else ""
        return {"constraints": bounds} if bounds else {}

    def _find_nested(self) -> dict[int, _Nested]:
        runs: dict[int, Any] = {}
        nested = self._search(f"tags.`{PARENT_TAG}` = '{self._parent.info.run_id}'")
        # A search and its re-evaluations share a parent run; nested runs of older versions have no role.
        before = "trial" if self.spec.purpose == "search" else "seed"
        found = [run for run in nested if run.data.tags.get("role", before) == self.spec.role]
        found.sort(key=lambda run: (-int(run.data.tags.get(_TASKS_TAG, 0)), run.info.start_time))
        for run in found:
            runs.setdefault(int(run.data.tags["trial"]), run)
        self._delete([run for run in found if runs[int(run.data.tags["trial"])] is not run])
        return {number: _nested(run) for number, run in runs.items()}

    def _create(self, trial: TrialSummary) -> _Nested:
        tags = {
            PARENT_TAG: self._parent.info.run_id,
            "method": self.spec.method,
            "trial": str(trial.number),
            "role": self.spec.role,
            **{name: str(value) for name, value in self.spec.about(trial.number).items()},
            **self._origin(),
            **provenance(self.spec),
        }
        start = int((time.time() - trial.seconds) * 1000)  # one that is written late has its length all the same
        name = f"{self.spec.run_name}/{self.spec.file_name(trial.number)}"
        run = self._client.create_run(self._experiment, run_name=name, tags=tags, start_time=start)
        self._nested[trial.number] = _nested(run)
        self.changes += 1
        return self._nested[trial.number]

    def _points(self, run: _Nested, trial: TrialSummary, rows: Sequence[Mapping[str, float]]) -> list[_Point]:
        """Return what to log of some tasks.

        The time of a task is counted from the start of the run and not read from a clock: MLflow takes a point that it
        has already, time and all, for the same one, so a batch that arrives twice is there once. A trial that was
        killed may have run a task again in less time than MLflow has of it; what follows is later all the same.
        """
        points, seconds, latest = [], 0.0, self._latest(run)
        for row in trial.rows:
            seconds += sum(value for name, value in row.items() if is_seconds(name))
            if any(row is new for new in rows):
                latest = max(run.start + int(1000 * seconds), latest + 1)
                points += [(name, value, latest, int(row["task"])) for name, value in row.items() if name != "task"]
        run.latest = latest
        return points

    def _latest(self, run: _Nested) -> int:
        """Return the time of the last task that MLflow has whole; the run's start without one."""
        if run.latest is None:
            accuracy = self.spec.metrics.average_accuracy  # every task has it
            history = self._client.get_metric_history(run.id, accuracy) if run.tasks else []
            run.latest = max((point.timestamp for point in history if point.step <= run.tasks), default=run.start)
        return run.latest

    def _set_status(self, run: _Nested, status: str) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status=status)
        else:
            self._client.set_terminated(run.id, status=status)
        run.status = status
        self.changes += 1

    def _tag_chosen(self, number: int | None) -> None:
        for other, run in self._nested.items():
            if "chosen" in run.tags and other != number:
                self._client.delete_tag(run.id, "chosen")
                del run.tags["chosen"]
        if number is not None:
            tags = {"chosen": "true", "benchmark": self.spec.benchmark}
            self._log(self._nested[number].id, tags=tags)
            self._nested[number].tags |= tags

    def _search(self, query: str) -> list[Any]:
        found, token = [], None
        while True:
            page = self._client.search_runs([self._experiment], query, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def _delete(self, runs: Sequence[Any]) -> None:
        for run in runs:
            self._client.delete_run(run.info.run_id)

    def _log(
        self,
        run: str,
        points: Sequence[_Point] = (),
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag  # takes seconds to import

        metrics = [Metric(*point) for point in points]
        for start in range(_BATCH, len(metrics), _BATCH):
            self._client.log_batch(run, metrics=metrics[start : start + _BATCH])
        self._client.log_batch(
            run,
            metrics=metrics[:_BATCH],
            params=[Param(k, str(v)) for k, v in (params or {}).items()],
            tags=[RunTag(k, v) for k, v in (tags or {}).items()],
        )


def _nested(run: Any) -> _Nested:
    return _Nested(
        id=run.info.run_id,
        start=run.info.start_time,
        tasks=int(run.data.tags.get(_TASKS_TAG, 0)),
        described=bool(run.data.params),
        status=run.info.status,
        tags=dict(run.data.tags),
    )
