"""The Parquet file of a table of configurations, and the tables that come with the tool.

A row is a task of a run. `purpose` says whether the run was validated ("search") or tested ("final"), `seed` is that of
the trial and of its validation split. The specification of the search that the configurations are from stands in the
file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checked_input.names import choices
from tausearch.runs import SearchSpec, TrialSummary
from tausearch.studies.recorded.configurations import ConfigurationTable
from trainables.config import Purpose
from trainables.errors import InputError

TABLES = Path(__file__).parent / "tables"
_SPEC = b"tausearch.spec"
_ABOUT = ("purpose", "trial", "seed", "status", "hyperparameters")


def load_table(benchmark: str, method: str = "ita-lora") -> ConfigurationTable:
    """Return the recorded table of a method on a benchmark.

    Raises:
        InputError: If there is none; names those that there are, and what was meant.
    """
    known = [path.stem.partition("-")[::2] for path in table_files()]
    if method not in (methods := {of for _, of in known}):
        raise InputError(f"no table of method {method!r}; {choices(method, methods)}")
    if benchmark not in (benchmarks := [on for on, of in known if of == method]):
        raise InputError(f"no table of {method} on {benchmark!r}; {choices(benchmark, benchmarks)}")
    return read_table(TABLES / f"{benchmark}-{method}.parquet")


def write_table(path: Path, table: ConfigurationTable) -> None:
    """Write a table to a Parquet file."""
    rows = [row for (purpose, _), runs in table.runs.items() for run in runs.values() for row in _rows(purpose, run)]
    content = pa.Table.from_pylist(rows, schema=_schema(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {_SPEC: table.spec.model_dump_json().encode()}
    pq.write_table(content.replace_schema_metadata(metadata), path, compression="zstd", compression_level=19)


def read_table(path: Path) -> ConfigurationTable:
    """Read a table from its Parquet file."""
    content = pq.read_table(path)
    spec = SearchSpec.model_validate_json(content.schema.metadata[_SPEC])
    runs: dict[tuple[Purpose, int], dict[int, TrialSummary]] = {}
    for (purpose, seed, number), rows in groupby(content.to_pylist(), itemgetter("purpose", "seed", "trial")):
        runs.setdefault((purpose, seed), {})[number] = _summary(list(rows), spec)
    return ConfigurationTable(spec, runs)


def table_files() -> list[Path]:
    """Return the files of all tables that there are, ordered by name."""
    return sorted(TABLES.glob("*.parquet"))


def _rows(purpose: Purpose, run: TrialSummary) -> Iterator[dict[str, Any]]:
    hyperparameters = json.dumps(run.hyperparameters)
    about = dict(zip(_ABOUT, (purpose, run.number, run.seed, run.status, hyperparameters), strict=True))
    for row in run.rows or [{"task": 0.0}]:  # one that diverged in its first task
        yield {**about, **row}


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    kinds = {"trial": pa.int32(), "seed": pa.int32()}
    metrics = dict.fromkeys(name for row in rows for name in row if name not in _ABOUT)
    return pa.schema(
        [*((name, kinds.get(name, pa.string())) for name in _ABOUT), *((name, pa.float64()) for name in metrics)]
    )


def _summary(rows: list[dict[str, Any]], spec: SearchSpec) -> TrialSummary:
    first = rows[0]
    done = [{k: v for k, v in row.items() if k not in _ABOUT and v is not None} for row in rows if row["task"]]
    value = next((row[name] for row in done[-1:] for name in row if name.endswith("/final_accuracy")), None)
    hyperparameters = json.loads(first["hyperparameters"])
    return TrialSummary(first["trial"], first["seed"], first["status"], hyperparameters, done, value)
