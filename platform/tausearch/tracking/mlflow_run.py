"""MLflow's view of one run: a parent run, and a nested run per trial.

Every write looks up what MLflow has and adds what is missing. So a write can be repeated at any time: after a tracking
server was away, after the driver was killed, or to build the whole view anew.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tausearch.runs import Conclusion, FinalSpec, MultiSearchSpec, RunSpec, SearchSpec, Status, Storage, TrialSummary
from tausearch.tracking.mlflow_store import open_store, search_runs, store_lock
from tausearch.tracking.provenance import datasets_of, provenance
from trainables.metrics import is_seconds
from trainables.task_names import in_full

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
DEVICE_TAG = "device"  # of a trial, in words
_TRIAL_TAG = "trial"  # the number of a trial; of a re-evaluation that of the trial that runs again
_NUMBER_TAG = "tausearch.number"  # of a re-evaluation among those of its search; earlier versions had it as `trial`
_TASKS_TAG = "tasks"  # how many are written: MLflow sets tags after it has stored a batch's metrics
_Point = tuple[str, float, int, int]  # name, value, milliseconds since the epoch, task
MATRIX_FILE = "accuracy_matrix.png"  # among the figures that the end of a search draws
_LONGEST_TAG = 5000  # characters; older servers take no more
_OF_THE_END = {"ended", "front"}  # notes of an earlier driver, which are not true while the search goes on
# Metrics of a whole search
_OF_A_CHOICE = re.compile(r"(best|importance|left_out|rank_correlation|reevaluated)/|gain(_error)?$")
_BATCH = 900  # metrics in one call; MLflow takes 1,000


@dataclass
class _Nested:
    """The nested run of a trial, as MLflow has it."""

    id: str
    start: int  # milliseconds since the epoch
    tasks: int  # whose metrics MLflow has
    params: dict[str, str]  # empty until MLflow has the trial's parameters
    status: str  # in MLflow's words, such as "RUNNING"
    tags: dict[str, str]
    latest: int | None = None  # time of the last task written, milliseconds since the epoch; None if not looked up

    @classmethod
    def of(cls, run: Any) -> _Nested:
        """Return the state of one of MLflow's runs."""
        tags, tasks = dict(run.data.tags), int(run.data.tags.get(_TASKS_TAG, 0))
        return cls(run.info.run_id, run.info.start_time, tasks, dict(run.data.params), run.info.status, tags)

    def is_of(self, trial: TrialSummary) -> bool:
        """Whether none of its parameters differs from a hyperparameter of the trial."""
        return all(self.params.get(name, str(value)) == str(value) for name, value in trial.hyperparameters.items())


class MlflowRun:
    """Brings MLflow's view of a run up to date. Any method may raise any error of MLflow; then make a new object."""

    def __init__(self, spec: RunSpec, storage: Storage, uri: str) -> None:
        self.spec = spec
        self.written = 0  # tasks
        self.changes = 0  # to nested runs, that MLflow has taken from this object
        self._tags = {"method": spec.method, **_origin(spec), **provenance(spec)}  # of the parent and the nested runs
        self._client, self._experiment = open_store(storage, uri, spec.benchmark)
        self._parent = self._open_parent(storage)
        self._parent_id: str = self._parent.info.run_id
        self._nested = self._find_nested()

    def write(self, trial: TrialSummary) -> None:
        """Write what MLflow lacks of a trial: at most one batched call, and another where its status changes."""
        run = self._nested.get(trial.number)
        if run is not None and not run.is_of(trial):
            # The record lost the trial, and its number was drawn again. MLflow never changes a parameter.
            self._client.delete_run(run.id)
            run = None
        run = run or self._create(trial)
        ended: dict[str, str] = {} if trial.status == "running" else {"status": trial.status}
        if trial.error and ended:
            ended["error"] = trial.error[:4000]
        tags = {} if ended.items() <= run.tags.items() else ended
        if len(trial.rows) > run.tasks or not run.params:
            if run.latest is None:
                run.tasks, run.latest = self._look_up(run)
            rows = trial.rows[run.tasks :]
            params = {} if run.params else {**trial.hyperparameters, **self._seeds(trial)}
            points, run.latest = self._points(run.start, run.latest, trial, rows)
            self._tag(run, {_TASKS_TAG: str(trial.tasks_done), **tags}, points, params)
            run.params |= {name: str(value) for name, value in params.items()}
            run.tasks += len(rows)
            self.changes += 1
            self.written += len(rows)
        elif tags:
            self._tag(run, tags)
        self._set_status(run, _MLFLOW_STATUS[trial.status])

    def conclude(self, status: str, conclusion: Conclusion) -> None:
        """Tag the chosen trial, write metrics and files, and end the parent run: "FINISHED", "FAILED" or "KILLED"."""
        metrics, chosen = dict(conclusion.metrics), conclusion.chosen
        tags = {name: text[:_LONGEST_TAG] for name, text in conclusion.notes.items()}
        self._mark_chosen(chosen, conclusion.files)
        if chosen is not None:
            metrics[f"best/{self.spec.value_labels.metric}"] = chosen.value or 0.0
            # Tags, because parameters can never be changed and a continued search may choose another trial.
            tags |= {f"best/{k}": str(v) for k, v in chosen.hyperparameters.items()}
        if isinstance(self.spec, SearchSpec):  # a re-evaluation shares the parent of its search
            metrics |= self._withdraw_earlier(metrics, tags)
        now, known = int(time.time() * 1000), self._parent.data.metrics
        self._log(self._parent_id, [(k, v, now, 0) for k, v in metrics.items() if known.get(k) != v], tags=tags)
        for file in conclusion.files:
            if file.is_file():
                self._client.log_artifact(self._parent_id, str(file))
        # Last, because a store may refuse the picture or a file. The tracker then repeats `write`, which sets these
        # trials back to RUNNING each time; it would count that as progress and never give up.
        for run in self._nested.values():
            if run.status == "RUNNING":
                self._set_status(run, "KILLED")  # nothing runs without a driver
        self._client.set_terminated(self._parent_id, status=status)

    def _withdraw_earlier(self, metrics: Mapping[str, float], tags: Mapping[str, str]) -> dict[str, float]:
        """Delete the tags of an earlier choice that the present end lacks.

        Returns:
            NaN for each metric that it lacks, because MLflow deletes no metric. An extended search that was stopped
            before its re-evaluation has no `reevaluated/*`, for instance.
        """
        known = self._parent.data
        for tag in known.tags.keys() - tags.keys():
            if tag.startswith("best/"):
                self._client.delete_tag(self._parent_id, tag)
        gone = (name for name in known.metrics.keys() - metrics.keys() if _OF_A_CHOICE.match(name))
        return {name: math.nan for name in sorted(gone) if not math.isnan(known.metrics[name])}

    def _open_parent(self, storage: Storage) -> Any:
        """Return the parent run that an earlier attempt made, or a new one; its parameters are written in any case.

        A slow server may make a run although the request timed out, and the repeated request makes a second run. The
        parent with nested runs is kept, the other one is deleted.
        """
        spec = self.spec
        names = {RUN_TAG: spec.run_name} | ({DEVICE_TAG: spec.device} if spec.device else {})
        tag, value = (ID_TAG, spec.id) if spec.id else (RUN_TAG, spec.run_name)
        found = self._search(f"tags.`{tag}` = '{value}'")
        if len(found) > 1:
            found.sort(key=lambda run: -len(self._search(f"tags.`{PARENT_TAG}` = '{run.info.run_id}'")))
            self._delete(found[1:])
        if found:
            parent = found[0]
            # The run may have a new name.
            self._client.update_run(parent.info.run_id, status="RUNNING", name=spec.run_name)
            self._log(parent.info.run_id, tags={**names, **_origin(spec)})
            if isinstance(spec, SearchSpec):  # a re-evaluation shares the parent of its search
                for tag in _OF_THE_END & parent.data.tags.keys():
                    self._client.delete_tag(parent.info.run_id, tag)
        else:
            names |= {ID_TAG: spec.id, "kind": spec.purpose}
            tags = {**names, **self._tags, **_search_tags(spec), **_task_tags(spec)}
            parent = self._client.create_run(self._experiment, run_name=spec.run_name, tags=tags)
        if not (parent.inputs and parent.inputs.dataset_inputs):
            with store_lock(storage):  # MLflow fails if two runs say at once what data they are on
                self._client.log_inputs(parent.info.run_id, datasets_of(spec))
        if not parent.data.params:
            search = {"algorithm": spec.algorithm, "seed": spec.seed} if isinstance(spec, SearchSpec) else {}
            own = {"tasks", "epochs", "batch_size"} if isinstance(spec, MultiSearchSpec) else set()  # of each benchmark
            plain = spec.protocol.model_dump(exclude_none=True, exclude=own)
            protocol = {f"protocol/{k}": v for k, v in plain.items()}
            self._log(parent.info.run_id, params={**spec.fixed, "method": spec.method, **search, **protocol})
        return parent

    def _find_nested(self) -> dict[int, _Nested]:
        """Return the nested run of each trial; a second one of the same trial is deleted."""
        found = [  # a search and its re-evaluations share a parent run
            run
            for run in self._search(f"tags.`{PARENT_TAG}` = '{self._parent_id}'")
            if run.data.tags.get("role") == self.spec.role
        ]
        found.sort(key=lambda run: (-int(run.data.tags.get(_TASKS_TAG, 0)), run.info.start_time))
        runs: dict[int, Any] = {}
        for run in found:
            runs.setdefault(_number(run), run)
        self._delete([run for run in found if runs[_number(run)] is not run])
        return {number: _Nested.of(run) for number, run in runs.items()}

    def _create(self, trial: TrialSummary) -> _Nested:
        number = str(trial.number)
        more = {name: str(value) for name, value in self.spec.extra_columns(trial.number).items()}
        if "reevaluates" in more:
            more |= {_TRIAL_TAG: more["reevaluates"], _NUMBER_TAG: number}
        tags = {PARENT_TAG: self._parent_id, _TRIAL_TAG: number, "role": self.spec.role, **more, **self._tags}
        start = int((time.time() - trial.seconds) * 1000)  # so a trial that is written late has its true length
        name = f"{self.spec.run_name}/{self.spec.file_name(trial.number)}"
        run = self._client.create_run(self._experiment, run_name=name, tags=tags, start_time=start)
        self._nested[trial.number] = _Nested.of(run)
        self._nested[trial.number].latest = start
        self.changes += 1
        return self._nested[trial.number]

    def _seeds(self, trial: TrialSummary) -> dict[str, int]:
        """Return the seeds that tell a trial from the others with its hyperparameters."""
        order = self.spec.class_order(trial.number)
        split = self.spec.split_of(trial.number)
        own = {} if split == self.spec.protocol.split_seed else {"split_seed": split}
        return {"seed": trial.seed, **own, **({} if order is None else {"class_order": order})}

    def _points(
        self, start: int, latest: int, trial: TrialSummary, rows: Sequence[Mapping[str, float]]
    ) -> tuple[list[_Point], int]:
        """Return the metrics to log for some tasks of a trial, and the time of the last one.

        The time of a task is counted from the start of the run and not read from a clock. MLflow drops a point that
        equals a stored one in value, step and time, so a batch that arrives twice is stored once. A trial that was
        killed may run a task again in less time than before. Later tasks still get later times. The average accuracy
        comes last of a task's metrics, because `_look_up` takes it for the sign that MLflow has the task.
        """
        points, seconds, last = list[_Point](), 0.0, self.spec.metrics.average_accuracy
        for row in trial.rows:
            seconds += sum(value for name, value in row.items() if is_seconds(name))
            if any(row is new for new in rows):
                latest = max(start + int(1000 * seconds), latest + 1)
                metrics = sorted(row.items(), key=lambda metric: metric[0] == last)
                points += [(name, value, latest, int(row["task"])) for name, value in metrics if name != "task"]
        return points, latest

    def _look_up(self, run: _Nested) -> tuple[int, int]:
        """Return the number of tasks that MLflow has, and the time of the last one.

        A kill may have come before the tag that counts them. The task then runs again and takes another time, and its
        metrics must not be written a second time.
        """
        history = self._client.get_metric_history(run.id, self.spec.metrics.average_accuracy)
        points = [(point.step, point.timestamp) for point in history]
        return max(points, default=(0, run.start))

    def _set_status(self, run: _Nested, status: str) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status=status)
        else:
            self._client.set_terminated(run.id, status=status)
        run.status = status
        self.changes += 1

    def _mark_chosen(self, chosen: TrialSummary | None, files: Sequence[Path]) -> None:
        """Tag the chosen trial, and give it its picture if it is new."""
        for other, run in self._nested.items():
            if "chosen" in run.tags and (chosen is None or other != chosen.number):
                self._client.delete_tag(run.id, "chosen")
                del run.tags["chosen"]
        if chosen is None:
            return
        run = self._nested[chosen.number]
        if "chosen" not in run.tags:
            for file in files:
                if file.name == MATRIX_FILE and file.is_file():
                    self._client.log_artifact(run.id, str(file))
        self._tag(run, {"chosen": "true", "benchmark": self.spec.benchmark})

    def _tag(
        self,
        run: _Nested,
        tags: dict[str, str],
        points: Sequence[_Point] = (),
        params: Mapping[str, object] | None = None,
    ) -> None:
        self._log(run.id, points, params, tags)
        run.tags |= tags

    def _search(self, query: str) -> list[Any]:
        return search_runs(self._client, self._experiment, query)

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
        *earlier, last = [metrics[start : start + _BATCH] for start in range(0, len(metrics), _BATCH)] or [[]]
        for batch in earlier:  # in the order of tasks: `_look_up` takes the latest as the sign of all before it
            self._client.log_batch(run, metrics=batch)
        self._client.log_batch(
            run,
            metrics=last,
            params=[Param(k, str(v)) for k, v in (params or {}).items()],
            tags=[RunTag(k, v) for k, v in (tags or {}).items()],
        )


def _number(run: Any) -> int:
    """Return the number of the trial or re-evaluation that a nested run is of."""
    return int(run.data.tags.get(_NUMBER_TAG, run.data.tags[_TRIAL_TAG]))


def _origin(spec: RunSpec) -> dict[str, str]:
    """Return the tags that say where the hyperparameters of a final run were tuned."""
    if not isinstance(spec, FinalSpec) or spec.tuned_on is None:
        return {}
    return {"tuned_on": spec.tuned_on, "judged_on": spec.benchmark, "source": spec.source or ""}


def _task_tags(spec: RunSpec) -> dict[str, str]:
    """Return the tag that names the tasks: `1: animals (zebra, horse); 2: star, comet`."""
    text = "; ".join(in_full(spec.tasks))
    return {"tasks": text[:_LONGEST_TAG]} if text else {}


def _search_tags(spec: RunSpec) -> dict[str, str]:
    """Return the tags of a search: the origins of its first points, and its constraints."""
    if not isinstance(spec, SearchSpec):
        return {}
    warm_start = "; ".join(known.origin for known in spec.warm_start)
    aims = str(spec.aim) if spec.objectives else ""
    across = spec.across if isinstance(spec, MultiSearchSpec) else ""
    bounds = "; ".join(map(str, spec.constraints))
    tags = {"across": across, "warm_start": warm_start, "constraints": bounds, "objectives": aims}
    return {name: text for name, text in tags.items() if text}
