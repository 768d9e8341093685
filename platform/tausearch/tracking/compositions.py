"""Compositions in MLflow: a run each, told from other runs by tags, and versions of a benchmark's registered model.

Every function may raise any error of MLflow, and finds a composition by its final run (`spec`) and its label.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tausearch.runs import RunSpec, Storage
from tausearch.tracking.mlflow_run import ID_TAG, RUN_TAG
from tausearch.tracking.mlflow_store import open_store, store_lock, tracked_name
from trainables.metrics import TEST

LABEL_TAG = "tausearch.composition"
_OF_TAG, _OF_ID_TAG = "composition.of", "composition.of_id"  # name and id of the final run
BEST_ALIAS = "best"
ACCURACY_TAG = "final_accuracy"
REMOVED_TAG = "removed"  # the classes that `--forget` took out; accuracies are then of the others
_CONTENT_TAG = "content"
_FOLDER = "model"


@dataclass(frozen=True)
class Version:
    """A version of a registered model."""

    model: str  # the benchmark's name, if it was not renamed; "-" stands for characters that MLflow refuses in names
    number: int  # from 1
    best: bool  # whether no version with all classes has a higher accuracy: it has the alias `BEST_ALIAS`

    @property
    def uri(self) -> str:
        """The address of the version in MLflow."""
        return f"models:/{self.model}/{self.number}"


def track_composition(
    spec: RunSpec, storage: Storage, label: str, metrics: Mapping[str, float], tags: Mapping[str, str]
) -> None:
    """Write what MLflow lacks of a composition, in the store of its final run. The composition gets one run there."""
    from mlflow.entities import Metric, RunTag  # takes seconds to import

    client, experiment, run = _find(spec, storage, label)
    is_new = run is None
    if is_new:
        every = {**_names(spec, label), "method": spec.method}
        assert not {RUN_TAG, ID_TAG} & every.keys(), "a final run is found by these, so no composition may have them"
        run = client.create_run(experiment, run_name=f"{spec.name}/{label}", tags=every)
    elif run.data.tags.get(_OF_TAG) != spec.name:  # the final run was renamed
        client.update_run(run.info.run_id, status="FINISHED", name=f"{spec.name}/{label}")
        tags = {**tags, _OF_TAG: spec.name}
    now, known = int(time.time() * 1000), run.data
    points = [Metric(name, value, now, 0) for name, value in metrics.items() if known.metrics.get(name) != value]
    changed = [RunTag(name, value) for name, value in tags.items() if known.tags.get(name) != value]
    if points or changed:
        client.log_batch(run.info.run_id, metrics=points, tags=changed)
    if is_new:
        client.set_terminated(run.info.run_id, status="FINISHED")


def is_registered(spec: RunSpec, storage: Storage, label: str) -> bool:
    """Whether a composition is a version of a registered model."""
    client, _, run = _find(spec, storage, label)
    return run is not None and bool(_versions_of(client, run, _model_of(spec)))


def register_model(spec: RunSpec, storage: Storage, label: str, folder: Path) -> Version:
    """Return the version of its benchmark's registered model that a composition is; it becomes one if it is none.

    It becomes another one where its versions have other files, as of other code or forms. `track_composition` has
    written the composition. The exported `folder` becomes an artifact of the composition's run.
    """
    client, _, run = _find(spec, storage, label)
    assert run is not None, "a composition is written before it is registered"
    removed, accuracy = run.data.tags.get(REMOVED_TAG), run.data.metrics[f"{TEST.final_accuracy}/mean"]
    tag = (ACCURACY_TAG, f"{accuracy:.6g}") if removed is None else (REMOVED_TAG, removed)
    made, content = _versions_of(client, run, _model_of(spec)), _content_of(folder)
    model = made[0].name if made else _model_of(spec)
    place = f"{_FOLDER}-{content[:8]}" if made else _FOLDER  # not in place of the files of another
    if _with_content(made, content) is None:
        client.log_artifacts(run.info.run_id, str(folder), place)
    with store_lock(storage):  # of two processes at once, one makes the version
        version = _with_content(_versions_of(client, run, model), content)
        if version is None:
            if not client.search_registered_models(f"name = '{model}'"):
                client.create_registered_model(model)
            tags = {_CONTENT_TAG: content, **dict([tag])}  # at once: a version without them is not known as ours
            version = client.create_model_version(model, f"{run.info.artifact_uri}/{place}", run.info.run_id, tags)
        else:
            client.set_model_version_tag(version.name, version.version, *tag)
        best = _mark_best(client, version.name) == int(version.version)
    return Version(version.name, int(version.version), best)


def _find(spec: RunSpec, storage: Storage, label: str) -> tuple[Any, str, Any]:
    """Return a client of the run's store, the experiment, and MLflow's run of a composition, or None for the latter."""
    client, experiment = open_store(storage, spec.tracking_uri or storage.mlflow_uri, spec.benchmark)
    known = _names(spec, label)
    del known[_OF_TAG if spec.id else _OF_ID_TAG]  # a run may get another name; one of an early version has no id
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in known.items())
    return client, experiment, next(iter(client.search_runs([experiment], query)), None)


def _names(spec: RunSpec, label: str) -> dict[str, str]:
    """Return the tags that name a composition."""
    return {"kind": "composition", LABEL_TAG: label, _OF_TAG: spec.name, _OF_ID_TAG: spec.id or ""}


def _model_of(spec: RunSpec) -> str:
    return re.sub(r"[^\w.-]+", "-", tracked_name(spec.benchmark))


def _content_of(folder: Path) -> str:
    """Return a digest of the weights in an exported folder; all else may differ, such as versions of libraries."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        with path.open("rb") as file:  # length of the header, header, values; torch is not imported for it
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            values = hashlib.file_digest(file, "sha256").hexdigest()
        tensors = {name: each for name, each in header.items() if name != "__metadata__"}  # which has no fixed order
        digest.update(
            f"{path.relative_to(folder).as_posix()} {json.dumps(tensors, sort_keys=True)} {values}\n".encode()
        )
    return digest.hexdigest()


def _versions_of(client: Any, run: Any, model: str) -> list[Any]:
    """Return the versions of a registered model that a run is, the newest first; the model may have been renamed.

    A version that a user has made of the run has none of our tags. Copies, as MLflow makes them to promote one, have.
    """
    found = client.search_model_versions(f"run_id = '{run.info.run_id}'")
    ours = [each for each in found if each.name == model or {ACCURACY_TAG, REMOVED_TAG} & each.tags.keys()]
    made = [each for each in ours if not each.source.startswith("models:/")]
    return sorted(made, key=lambda each: (each.name != model, -int(each.version)))


def _with_content(versions: Sequence[Any], content: str) -> Any:
    """Return the first version with these files; None without one."""
    return next((each for each in versions if each.tags.get(_CONTENT_TAG) == content), None)


def _mark_best(client: Any, model: str) -> int | None:
    """Give the alias to the most accurate version of all classes, of equal ones the first; returns its number."""
    versions = client.search_model_versions(f"name = '{model}'")
    judged = [(float(each.tags[ACCURACY_TAG]), -int(each.version)) for each in versions if ACCURACY_TAG in each.tags]
    if not judged:
        return None
    number = -max(judged)[1]
    client.set_registered_model_alias(model, BEST_ALIAS, str(number))
    return number
