"""The origin of a run, in the words of MLflow's pages: user, command, commit, data."""

from __future__ import annotations

import getpass
import hashlib
import json
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tausearch.runs import MultiSearchSpec, RunSpec, SearchBenchmark
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


def datasets_of(spec: RunSpec) -> list[Any]:
    """Return the data sets of a run for MLflow: one for each of its benchmarks."""
    parts: Mapping[str, RunSpec | SearchBenchmark] = (
        spec.parts if isinstance(spec, MultiSearchSpec) else {spec.benchmark: spec}
    )
    evaluation = "validation" if spec.purpose == "search" else "test"
    return [_dataset(benchmark, part, evaluation) for benchmark, part in parts.items()]


def _dataset(benchmark: str, part: RunSpec | SearchBenchmark, evaluation: str) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag  # takes seconds to import

    kind, colon, rest = benchmark.partition("?")[0].partition(":")
    path = rest if colon and kind in ("folder", "parquet") else part.data_root
    source = {"uri": path} if path else {"benchmark": benchmark}
    named = hashlib.sha256(f"{benchmark} {part.data_root}".encode()).hexdigest()
    digest = named if part.data is None else part.data.digest
    numbers = {} if part.data is None else {"train": part.data.train, evaluation: part.data.evaluation}
    profile = json.dumps({"tasks": part.protocol.tasks, **numbers})
    kind_of = "local" if path else "code"
    data = Dataset(tracked_name(benchmark), digest[:_DIGEST], kind_of, json.dumps(source), profile=profile)
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
