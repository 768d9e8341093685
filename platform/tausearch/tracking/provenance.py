"""The origin of a run, in the words of MLflow's pages: user, command, commit, data."""

from __future__ import annotations

import getpass
import hashlib
import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from tausearch.runs import RunSpec
from tausearch.tracking.mlflow_store import tracked_name

_DIGEST = 36  # characters that MLflow takes of a data set's digest
_SECONDS = 5.0  # that git may take


def provenance(spec: RunSpec) -> dict[str, str]:
    """Return the tags from which MLflow shows user, source and version of a run."""
    command = f"tausearch {'search' if spec.purpose == 'search' else 'train'}"
    tags = {"mlflow.source.name": command, "mlflow.source.type": "LOCAL", "mlflow.user": _user()}
    found = commit()
    return tags if found is None else {**tags, "mlflow.source.git.commit": found}


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the commit of the code that runs; None for an installed package, which git does not know."""
    here = Path(__file__)
    if _git(here, "ls-files", "--error-unmatch", here.name) is None:  # the repository around it may be another
        return None
    return _git(here, "rev-parse", "HEAD")


def dataset_of(spec: RunSpec) -> Any:
    """Return the data set of a run for MLflow."""
    from mlflow.entities import Dataset, DatasetInput, InputTag  # takes seconds to import

    kind, colon, rest = spec.benchmark.partition("?")[0].partition(":")
    path = rest if colon and kind in ("folder", "parquet") else spec.data_root
    source = {"uri": path} if path else {"benchmark": spec.benchmark}
    named = hashlib.sha256(f"{spec.benchmark} {spec.data_root}".encode()).hexdigest()
    digest = named if spec.data is None else spec.data.digest
    evaluation = "validation" if spec.purpose == "search" else "test"
    numbers = {} if spec.data is None else {"train": spec.data.train, evaluation: spec.data.evaluation}
    profile = json.dumps({"tasks": spec.protocol.tasks, **numbers})
    kind_of = "local" if path else "code"
    data = Dataset(tracked_name(spec.benchmark), digest[:_DIGEST], kind_of, json.dumps(source), profile=profile)
    return DatasetInput(data, [InputTag("mlflow.data.context", f"training and {evaluation}")])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "unknown"


def _git(file: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(file.parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
