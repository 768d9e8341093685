"""The record of a run: one row per trial and task, as Parquet, one small file per trial.

A result replaces the file of its own trial, completely or not at all. The cost of a result does not grow with the
search, and a killed driver leaves every finished task. `pandas.read_parquet(<run>/record)` reads the whole record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checked_input.text_files import one_line
from search_spaces.values import is_number
from tausearch.runs.directories import trial_name
from tausearch.runs.storage import StorageError
from tausearch.runs.trials import STATUSES, TrialSummary, final_value, metrics_of
from trainables.errors import InputError
from trainables.metrics import STAGES, TRAIN_LOSS, VALIDATION, MetricNames, seconds

_HYPERPARAMETER = "hyperparameters/"
_MOST_ROWS = 100_000  # one per task
_LARGEST = 2**28  # bytes
_DIGEST = b"tausearch.content"  # metadata of the file: digest of its rows


class Record:
    """Reads and writes the record of one run.

    Args:
        folder: `<run>/record`.
        constants: Columns that are the same in every row, such as benchmark and method.
        tasks: Number of tasks of a trial: all files have the columns of all tasks, as readers use the first's schema.
        names: Names of the accuracies.
        extra: Metrics that the method declares.
        texts: Hyperparameters whose column is text, because some of their values are no numbers.
        about: Returns further columns of a trial, by its number.
    """

    def __init__(
        self,
        folder: Path,
        constants: Mapping[str, str | float] | None = None,
        *,
        tasks: int = 0,
        names: MetricNames = VALIDATION,
        extra: Sequence[str] = (),
        texts: Collection[str] = (),
        about: Callable[[int], Mapping[str, Any]] = lambda number: {},
    ) -> None:
        self.folder = folder
        self.texts = texts
        self.about = about
        self.constants = dict(constants or {})
        self.metrics = row_metrics(tasks, names, extra)

    def write(self, trial: TrialSummary) -> None:
        """Write all rows of a trial; a trial without a finished task has a single row, task 0."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {
            **self.constants,
            **self.about(trial.number),
            "trial": trial.number,
            "seed": trial.seed,
            "status": trial.status,
            "error": trial.error or "",
            "hyperparameters": json.dumps(trial.hyperparameters),
        }
        for name, value in trial.hyperparameters.items():
            # All numbers are floats: 50 in one trial and 0.76 in the next need the same column type.
            number = is_number(value) and name not in self.texts
            about[f"{_HYPERPARAMETER}{name}"] = float(value) if number else str(value)
        rows = [{**about, **row, "task": int(row["task"])} for row in trial.rows or [{"task": 0}]]
        metrics = dict.fromkeys([*self.metrics, *(name for row in trial.rows for name in row if name != "task")])
        fields = [(name, pa.scalar(value).type) for name, value in {**about, "task": 0}.items()]
        schema = pa.schema([*fields, *((name, pa.float64()) for name in metrics)])
        table = pa.Table.from_pylist(rows, schema=schema)
        target = self.folder / f"{trial_name(trial.number)}.parquet"
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")  # dot files are not part of a dataset
        pq.write_table(table.replace_schema_metadata({_DIGEST: _digest(table)}), unfinished)
        os.replace(unfinished, target)

    def table(self) -> pa.Table:
        """Return the rows of all trials by trial and task, missing columns as null; a damaged file is an InputError."""
        tables = [_read(path) for path in self._files()]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def trials(self) -> list[TrialSummary]:
        """Return all trials by number; raises an `InputError` if a file is damaged or holds another trial."""
        return [_trial(path) for path in self._files()]

    def set_aside_damaged(self) -> list[str]:
        """Rename the files that cannot be read, so that their trials are run again; return a line for each."""
        lines = []
        for path in self._files():
            try:
                _trial(path)
            except InputError as error:
                # Readers of the folder as one Parquet dataset ignore names that begin with a dot.
                path.rename(path.with_name(f".{path.name}.damaged"))
                lines.append(f"{error}; it was put aside, and {path.stem} is run again")
        return lines

    def _files(self) -> list[Path]:
        try:
            found = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            lost = "is a file, must be a folder; all results of the run are lost"
            raise InputError(f"record {self.folder}: {lost}") from error
        except OSError as error:  # an unreadable record must not pass for an empty one
            raise StorageError(f"record {self.folder}: cannot be read ({error.strerror})") from error
        return sorted(self.folder / name for name in found if fnmatch(name, "trial-*.parquet"))


def _trial(path: Path) -> TrialSummary:
    """Read the file of one trial; raises an `InputError` if it is damaged or inconsistent."""
    rows = _read(path).to_pylist()
    try:
        trial = _summary(rows)
        _require_whole(trial, rows, path)
    except (KeyError, TypeError, ValueError, RecursionError, StopIteration) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    return trial


def _summary(rows: list[dict[str, Any]]) -> TrialSummary:
    first = rows[0] if rows else {}
    trial = TrialSummary(
        number=first["trial"],
        seed=first["seed"],
        status=first["status"],
        hyperparameters=json.loads(first["hyperparameters"]),
        rows=[metrics_of({k: v for k, v in row.items() if v is not None}) for row in rows if row["task"] > 0],
        error=first["error"] or None,
    )
    trial.value = final_value(trial.final)
    return trial


def _require_whole(trial: TrialSummary, rows: list[dict[str, Any]], path: Path) -> None:
    tasks = [row["task"] for row in rows]
    if path.stem != trial_name(trial.number) or any(row["trial"] != trial.number for row in rows):
        raise ValueError(f"holds trial {trial.number}")
    if tasks != [0] and (tasks != sorted(set(tasks)) or tasks[0] < 1):
        raise ValueError(f"holds tasks {tasks[:20]}")
    if trial.status not in STATUSES or not isinstance(trial.hyperparameters, dict) or type(trial.seed) is not int:
        raise ValueError(f"status {trial.status!r}, seed {trial.seed!r}")
    if trial.status == "complete" and trial.value is None:
        raise ValueError("is complete without a final accuracy")


def row_metrics(tasks: int, names: MetricNames, extra: Sequence[str]) -> list[str]:
    """Return the metrics that the rows of every trial have, on any device; see `Record`."""
    accuracies = [names.average_accuracy, *(names.accuracy(k) for k in range(1, tasks + 1))]
    last_task = [names.final_accuracy, names.pooled_accuracy, names.forgetting, names.average_incremental_accuracy]
    return [*accuracies, *last_task, TRAIN_LOSS, *extra, *(seconds(stage) for stage in STAGES)]


def damaged(path: Path, why: object) -> InputError:
    """Return the error about a damaged file of the record, with the command that continues without it."""
    run = next((folder for folder in path.parents if (folder / "run.yaml").exists()), path.parent.parent).name
    return InputError(
        f"record file {path}: is damaged ({one_line(why)}), so the results of {path.stem} are lost;"
        f" `tausearch resume {run} --without-damaged` puts it aside and runs this trial again"
    )


def _digest(table: pa.Table) -> bytes:
    """Return a sha256 digest of the names, types and values of a table, independent of their encoding."""
    kinds = [(field.name, str(field.type)) for field in table.schema]
    return hashlib.sha256(json.dumps([kinds, table.to_pylist()]).encode()).hexdigest().encode()


def _read(path: Path) -> pa.Table:
    try:
        if not path.is_file():
            raise OSError("is not a file")
        with path.open("rb") as file:  # one open file: the driver may replace the path at any moment
            content = pq.ParquetFile(file)
            if content.metadata.num_rows > _MOST_ROWS or path.stat().st_size > _LARGEST:
                raise OSError(f"has {content.metadata.num_rows} rows in {path.stat().st_size} bytes")
            table = content.read(use_threads=False)  # a few rows; threads could outlive the interpreter
            digest = (table.schema.metadata or {}).get(_DIGEST)
            if digest is None:
                raise InputError(f"record file {path}: was made by an earlier version of tausearch, and cannot be read")
            if digest != _digest(table):
                raise OSError("its content is not what was written")
            return table.replace_schema_metadata(None)
    except InputError:
        raise
    except PermissionError as error:
        raise StorageError(f"record file {path}: cannot be read ({error.strerror})") from error
    except Exception as error:  # Arrow raises undocumented types on damaged files
        raise damaged(path, error) from error
