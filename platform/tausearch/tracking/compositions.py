"""Compositions in MLflow: one run each, beside the run whose task vectors they are of, and told from it by tags."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tausearch.runs import RunSpec, Storage
from tausearch.tracking.mlflow_run import ID_TAG, RUN_TAG
from tausearch.tracking.mlflow_store import open_store

LABEL_TAG = "tausearch.composition"


def track_composition(
    spec: RunSpec, storage: Storage, label: str, metrics: Mapping[str, float], tags: Mapping[str, str]
) -> None:
    """Write what MLflow lacks of one composition, which is there once; may raise whatever MLflow raises.

    Args:
        spec: The final run that it is of; it is tracked where that run is.
        storage: Holds the default tracking store.
        label: What the composition is called.
        metrics: Name to value.
        tags: Further tags, such as the weights.
    """
    client, experiment = _store(spec, storage)
    run = _find(client, experiment, spec, label)
    if run is not None:
        _log(client, run, metrics, tags)
        return
    every = {**_names(spec, label), "method": spec.method}
    assert not {RUN_TAG, ID_TAG} & every.keys(), "a final run is found by these, so no composition may have them"
    run = client.create_run(experiment, run_name=f"{spec.name}/{label}", tags=every)
    _log(client, run, metrics, tags)
    client.set_terminated(run.info.run_id, status="FINISHED")


def open_composition(spec: RunSpec, storage: Storage, label: str) -> tuple[Any, Any]:
    """Return a client, and MLflow's run of a composition; None as long as there is none."""
    client, experiment = _store(spec, storage)
    return client, _find(client, experiment, spec, label)


def _store(spec: RunSpec, storage: Storage) -> tuple[Any, str]:
    return open_store(storage, spec.tracking_uri or storage.mlflow_uri, spec.benchmark)


def _find(client: Any, experiment: str, spec: RunSpec, label: str) -> Any:
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in _names(spec, label).items() if value)
    return next(iter(client.search_runs([experiment], query)), None)


def _names(spec: RunSpec, label: str) -> dict[str, str]:
    """Return the tags by which a composition is found."""
    return {"kind": "composition", LABEL_TAG: label, "composition.of": spec.name, "composition.of_id": spec.id or ""}


def _log(client: Any, run: Any, metrics: Mapping[str, float], tags: Mapping[str, str]) -> None:
    """Write what has changed."""
    from mlflow.entities import Metric, RunTag  # takes seconds to import

    now, known = int(time.time() * 1000), run.data.metrics
    points = [Metric(name, value, now, 0) for name, value in metrics.items() if known.get(name) != value]
    changed = [RunTag(name, value) for name, value in tags.items() if run.data.tags.get(name) != value]
    if points or changed:
        client.log_batch(run.info.run_id, metrics=points, tags=changed)
