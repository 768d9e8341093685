"""Composed models in MLflow's registry: one registered model per benchmark, its best version with an alias."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tausearch.runs import RunSpec, Storage
from tausearch.tracking.compositions import open_composition
from trainables.metrics import TEST

BEST_ALIAS = "best"
ACCURACY_TAG = "final_accuracy"
_FOLDER = "model"


@dataclass(frozen=True)
class Version:
    """A version of a registered model.

    Attributes:
        model: Name of the registered model: the benchmark's, with what MLflow does not take in names replaced by "-".
        number: Of the version, from 1.
        best: Whether no version of the model has a higher accuracy; it has the alias `BEST_ALIAS`.
    """

    model: str
    number: int
    best: bool

    @property
    def uri(self) -> str:
        """What MLflow finds it by."""
        return f"models:/{self.model}/{self.number}"


def is_registered(spec: RunSpec, storage: Storage, label: str) -> bool:
    """Whether a composition is a version of a registered model; may raise whatever MLflow raises."""
    client, run = open_composition(spec, storage, label)
    return run is not None and bool(_versions(client, run))


def register_model(spec: RunSpec, storage: Storage, label: str, folder: Path) -> Version:
    """Make a composition a version of its benchmark's registered model, once; may raise whatever MLflow raises.

    Args:
        spec: The final run that it is of.
        storage: Holds the default tracking store.
        label: What the composition is called; `track_composition` has written it.
        folder: The exported model; becomes an artifact of the composition's run.

    Returns:
        The version: that of an earlier call, if there was one.
    """
    client, run = open_composition(spec, storage, label)
    assert run is not None, "a composition is written before it is registered"
    model = re.sub(r"[^\w.-]+", "-", spec.benchmark)
    if not client.search_registered_models(f"name = '{model}'"):
        client.create_registered_model(model)
    known = _versions(client, run)
    if known:
        version = known[0]
    else:
        client.log_artifacts(run.info.run_id, str(folder), _FOLDER)
        version = client.create_model_version(model, f"{run.info.artifact_uri}/{_FOLDER}", run.info.run_id)
    accuracy = run.data.metrics[f"{TEST.final_accuracy}/mean"]
    client.set_model_version_tag(model, version.version, ACCURACY_TAG, f"{accuracy:.6g}")
    return Version(model, int(version.version), _mark_best(client, model) == int(version.version))


def _versions(client: Any, run: Any) -> list[Any]:
    return list(client.search_model_versions(f"run_id = '{run.info.run_id}'"))


def _mark_best(client: Any, model: str) -> int:
    """Give the alias to the version with the highest accuracy, of several the first, and return its number."""
    versions = client.search_model_versions(f"name = '{model}'")
    judged = [(float(each.tags[ACCURACY_TAG]), -int(each.version)) for each in versions if ACCURACY_TAG in each.tags]
    number = -max(judged)[1]
    client.set_registered_model_alias(model, BEST_ALIAS, str(number))
    return number
