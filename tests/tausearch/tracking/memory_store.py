"""A client of MLflow that keeps the runs of one experiment in memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Page(list[Any]):
    """The only page of an answer."""

    token = None


class Store:
    """A client with the runs of one experiment, by their ids.

    Attributes:
        batches: Run, names of the metrics, parameters and tags of each batch.
        logged: Run and value of each metric that was logged alone.
        files: Run and name of each file.
        opened: The tracking URIs by which the store was opened.
    """

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}
        self._added = 0  # deleted ones, too
        self.batches: list[tuple[str, list[str], list[str], list[str]]] = []
        self.logged: list[tuple[str, float]] = []
        self.files: list[tuple[str, str]] = []
        self.points: list[Any] = []
        self._run_of: dict[int, str] = {}  # the identity of a point to its run
        self.experiment_tags: dict[str, str] = {}
        self.opened: set[str] = set()

    def add(self, name: str, tags: dict[str, str], start: int = 0) -> Any:
        self._added += 1
        self.runs[name] = SimpleNamespace(
            info=SimpleNamespace(run_id=name, start_time=start, status="RUNNING"),
            data=SimpleNamespace(tags=tags, params={"lr": "0.1"}, metrics={}),
            inputs=SimpleNamespace(dataset_inputs=["digits"]),
        )
        return self.runs[name]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str], start_time: int = 0) -> Any:
        made = self.add(f"run-{self._added}", dict(tags), start_time)
        made.info.run_name, made.data.params, made.inputs.dataset_inputs = run_name, {}, []
        return made

    def search_runs(self, experiments: list[str], query: str, page_token: None = None) -> Page:
        found = list(self.runs.values())
        for part in query.split(" and "):
            asked = re.fullmatch(r"tags\.`(.+)` (=|!=) '(.*)'", part)
            assert asked is not None and page_token is None
            tag, sign, value = asked.groups()
            found = [run for run in found if tag in run.data.tags and (run.data.tags[tag] == value) == (sign == "=")]
        return Page(found)

    def log_batch(
        self, run: str, metrics: Sequence[Any] = (), params: Sequence[Any] = (), tags: Sequence[Any] = ()
    ) -> None:
        kept = self.runs[run].data
        for given, to in ((metrics, kept.metrics), (params, kept.params), (tags, kept.tags)):
            to.update({each.key: each.value for each in given})
        self.points += metrics
        self._run_of |= {id(point): run for point in metrics}
        names = [[each.key for each in given] for given in (metrics, params, tags)]
        self.batches.append((run, names[0], names[1], names[2]))

    def log_metric(self, run: str, name: str, value: float) -> None:
        self.runs[run].data.metrics[name] = value
        self.logged.append((run, value))

    def get_metric_history(self, run: str, name: str) -> list[Any]:
        return [point for point in self.points if point.key == name and self._run_of[id(point)] == run]

    def log_artifact(self, run: str, file: str) -> None:
        self.files.append((run, Path(file).name))

    def log_inputs(self, run: str, inputs: list[Any]) -> None:
        self.runs[run].inputs.dataset_inputs += inputs

    def set_terminated(self, run: str, status: str) -> None:
        self.runs[run].info.status = status

    def set_tag(self, run: str, tag: str, value: str) -> None:
        self.runs[run].data.tags[tag] = value

    def delete_tag(self, run: str, tag: str) -> None:
        del self.runs[run].data.tags[tag]

    def delete_run(self, run: str) -> None:
        del self.runs[run]

    def update_run(self, run: str, status: str, name: str | None = None) -> None:
        self.runs[run].info.status = status
        if name is not None:
            self.runs[run].info.run_name = name

    def set_experiment_tag(self, experiment: str, tag: str, value: str) -> None:
        assert experiment == "1"
        self.experiment_tags[tag] = value

    def in_words(self) -> str:
        """Return all that is known of each run, by its name: status, parameters, tags, newest metrics and files."""
        lines = []
        for run in sorted(self.runs.values(), key=lambda each: str(each.info.run_name)):
            kept, files = run.data, sorted({name for each, name in self.files if each == run.info.run_id})
            lines += [f"{run.info.run_name}: {run.info.status}", f"  files {files}"]
            for kind, values in (("parameter", kept.params), ("tag", kept.tags), ("metric", kept.metrics)):
                lines += [f"  {kind} {name} = {value}" for name, value in sorted(values.items())]
        return "\n".join(lines) + "\n"
