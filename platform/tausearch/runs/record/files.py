"""The files of a record: one per trial, or one per block of trials that have all ended."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checked_input.ranges import TASKS
from checked_input.text_files import one_line
from tausearch.runs.directories import RunDirectory, trial_folder_name
from tausearch.runs.storage import StorageError, run_command
from tausearch.runs.trials import STATUSES, TrialSummary, final_value
from trainables.errors import InputError
from trainables.metrics import is_metric

BLOCK = 100  # trials in a block: few files, and what a driver writes at once stays small
_NAME = re.compile(r"trials?-(\d+).*")
_MOST_ROWS = BLOCK * int(TASKS.high)
_LARGEST = 2**28  # bytes
_PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}  # half the time
_OF_JSON = b"tausearch.content"  # metadata of the file of a trial: digest of its rows
_OF_BYTES = b"tausearch.rows"  # the same in the file of a block: of thousands of numbers JSON takes ten times as long


def trial_file(number: int) -> str:
    """Return the name of the file of one trial."""
    return f"{trial_folder_name(number)}.parquet"


def block_of(number: int) -> range:
    """Return the trials of the block that a trial belongs to."""
    first = number // BLOCK * BLOCK
    return range(first, first + BLOCK)


def block_file(number: int) -> str:
    """Return the name of the file of the block that a trial belongs to."""
    block = block_of(number)
    return f"trials-{block[0]:05}-{block[-1]:05}.parquet"


def is_block(name: str) -> bool:
    """Whether a file is that of a block, by its name."""
    return len(numbers_in(name)) > 1


def numbers_in(name: str) -> range:
    """Return the trials that a file must hold, by its name; none if no file of a record has this name."""
    found = _NAME.fullmatch(name)
    first = 0 if found is None else int(found[1])
    if name == trial_file(first):
        return range(first, first + 1)
    return block_of(first) if name == block_file(first) else range(0)


def write_rows(table: pa.Table, target: Path) -> None:
    """Write a file of the record in place of the one that is there, completely or not at all."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")  # dot files are not part of a dataset
    sealed = table.replace_schema_metadata(_seal(table, target))
    pq.write_table(sealed, unfinished, **({} if is_block(target.name) else _PLAIN))
    os.replace(unfinished, target)


def read_rows(path: Path) -> pa.Table:
    """Return the rows of a file; a damaged one is an `InputError`, one that must not be read a `StorageError`."""
    try:
        return _checked_rows(path)
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise StorageError(f"record file {path}: cannot be read ({error.strerror})") from error
    except Exception as error:  # Arrow raises undocumented types on damaged files
        fault = damaged(path, error)
        raise fault from error


def _checked_rows(path: Path) -> pa.Table:
    if not path.is_file() and (path.exists() or path.is_symlink()):
        raise OSError("is not a file")
    with path.open("rb") as file:  # one open file: the driver may replace the path at any moment
        size = os.fstat(file.fileno()).st_size
        if size > _LARGEST:
            raise OSError(f"has {size} bytes")
        content = pq.ParquetFile(pa.BufferReader(file.read()))  # Arrow would ask Python for each part of a file
    if content.metadata.num_rows > _MOST_ROWS:
        raise OSError(f"has {content.metadata.num_rows} rows")
    table = content.read(use_threads=False)  # a few rows; threads could outlive the interpreter
    if not _seal(table, path).items() <= (table.schema.metadata or {}).items():
        raise OSError("its content is not what was written")
    return table.replace_schema_metadata(None)


def read_record_file(path: Path) -> list[TrialSummary]:
    """Return the trials of a file; raises as `read_rows`, and if it is inconsistent or holds other trials."""
    table = read_rows(path)
    try:
        trials, wanted = _trials(table), numbers_in(path.name)
        found = [trial.number for trial in trials]
        if found != list(wanted):
            other = next((f"holds trial {number}" for number in found if number not in wanted), None)
            raise ValueError(other or "lacks a trial, or has one twice")
    except (KeyError, TypeError, ValueError, RecursionError, StopIteration) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    return trials


def damaged(path: Path, why: object) -> InputError:
    """Return the error about a damaged file of the record, with the command that continues without it."""
    run = next((folder for folder in path.parents if RunDirectory(folder).exists()), path.parent.parent)
    resume = run_command("resume", run.name, run.parent)
    mend = "puts it aside and runs this trial again"
    if is_block(path.name):
        mend = "puts it aside and runs these trials again"
    return InputError(
        f"record file {path}: is damaged ({one_line(why)}), so the results of {path.stem} are lost;"
        f" `{resume} --without-damaged` {mend}"
    )


def place_aside(path: Path) -> Path:
    """Return where a damaged file is kept. Readers of the folder as one Parquet dataset ignore a name with a dot."""
    return path.with_name(f".{path.name}.damaged")


def _trials(table: pa.Table) -> list[TrialSummary]:
    """Return the trials of a table, whose rows are in the order of trials and tasks."""
    about = table.select(["trial", "task", "seed", "status", "hyperparameters", "error"]).to_pylist()
    names = [name for name in table.column_names if is_metric(name)]
    values = zip(*table.select(names).to_pydict().values(), strict=True) if names else [()] * len(about)
    metrics = [{n: float(v) for n, v in zip(names, row, strict=True) if v is not None} for row in values]
    rows = zip(about, metrics, strict=True)
    return [_trial(list(own)) for _, own in groupby(rows, key=lambda row: row[0]["trial"])]


def _trial(rows: Sequence[tuple[dict[str, Any], dict[str, float]]]) -> TrialSummary:
    """Return a trial from its rows; raises a `ValueError` if they cannot be those of a trial."""
    first, tasks = rows[0][0], [about["task"] for about, _ in rows]
    if tasks != [0] and (tasks != sorted(set(tasks)) or tasks[0] < 1):
        raise ValueError(f"holds tasks {tasks[:20]}")
    finished = [] if tasks == [0] else [{"task": float(own["task"]), **metrics} for own, metrics in rows]  # 0: none
    trial = TrialSummary(
        number=first["trial"],
        seed=first["seed"],
        status=first["status"],
        hyperparameters=json.loads(first["hyperparameters"]),
        rows=finished,
        value=final_value(finished[-1]) if finished else None,
        error=first["error"] or None,
    )
    if trial.status not in STATUSES or not isinstance(trial.hyperparameters, dict) or type(trial.seed) is not int:
        raise ValueError(f"status {trial.status!r}, seed {trial.seed!r}")
    if trial.status == "complete" and trial.value is None:
        raise ValueError("is complete without a final accuracy")
    return trial


def _seal(table: pa.Table, path: Path) -> dict[bytes, bytes]:
    """Return the metadata that shows whether the rows in a file are those that were written."""
    return {_OF_BYTES: _digest_of_bytes(table)} if is_block(path.name) else {_OF_JSON: _digest_of_json(table)}


def _digest_of_json(table: pa.Table) -> bytes:
    """Return a sha256 digest of the names, types and values of a table, independent of their encoding."""
    return hashlib.sha256(json.dumps([_kinds(table), table.to_pylist()]).encode()).hexdigest().encode()


def _digest_of_bytes(table: pa.Table) -> bytes:
    """Return the same of a large table, with the bytes of numbers in place of their JSON."""
    digest = hashlib.sha256(json.dumps(_kinds(table)).encode())
    for column in table.columns:
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            digest.update(column.is_null().to_numpy().tobytes())
            digest.update(column.fill_null(0).to_numpy().tobytes())
        else:
            digest.update(json.dumps(column.to_pylist()).encode())
    return digest.hexdigest().encode()


def _kinds(table: pa.Table) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in table.schema]
