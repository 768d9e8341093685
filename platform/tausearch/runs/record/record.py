"""The record of a run: one row per trial and task, as Parquet, one small file per trial that has not ended.

A result replaces the file of its own trial, completely or not at all. The cost of a result does not grow with the
search, and a killed driver leaves every finished task. Once all trials of a block have ended, one file takes the place
of theirs, because thousands of files take seconds to read. `pandas.read_parquet(<run>/record)` reads the whole record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from search_spaces.values import is_number
from tausearch.runs.record.files import (
    block_file,
    block_of,
    is_block,
    numbers_in,
    place_aside,
    read_record_file,
    read_rows,
    trial_file,
    write_rows,
)
from tausearch.runs.storage import StorageError
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError
from trainables.metrics import STAGES, TRAIN_LOSS, VALIDATION, WAITING, MetricNames, seconds

_HYPERPARAMETER = "hyperparameters/"
_LISTINGS = 5  # at most one is in vain for each block that a driver compacts in the meantime
Read = TypeVar("Read")


class Record:
    """Reads and writes the record of one run, in the folder `<run>/record`.

    Every row has the columns `constants`, such as benchmark and method, and `extra_columns`, by the trial's number.
    All files have the columns of all `tasks`, as readers use the first's schema; `extra` are metrics of the method.
    Hyperparameters in `texts` have a column of text, because some of their values are no numbers.
    """

    def __init__(
        self,
        folder: Path,
        constants: Mapping[str, str | float] | None = None,
        *,
        tasks: int = 0,
        metric_names: MetricNames = VALIDATION,
        extra: Sequence[str] = (),
        texts: Collection[str] = (),
        extra_columns: Callable[[int], Mapping[str, Any]] = lambda number: {},
    ) -> None:
        self.folder = folder
        self.texts = texts
        self.extra_columns = extra_columns
        self.constants = dict(constants or {})
        self.metrics = row_metrics(tasks, metric_names, extra)

    def write(self, trial: TrialSummary) -> None:
        """Write all rows of a trial; a trial without a finished task has a single row, task 0."""
        self.folder.mkdir(parents=True, exist_ok=True)
        columns: dict[str, Any] = {
            **self.constants,
            **self.extra_columns(trial.number),
            "trial": trial.number,
            "seed": trial.seed,
            "status": trial.status,
            "error": trial.error or "",
            "hyperparameters": json.dumps(trial.hyperparameters),
        }
        for name, value in trial.hyperparameters.items():
            # All numbers are floats: 50 in one trial and 0.76 in the next need the same column type.
            number = is_number(value) and name not in self.texts
            columns[f"{_HYPERPARAMETER}{name}"] = float(value) if number else str(value)
        rows = [{**columns, **row, "task": int(row["task"])} for row in trial.rows or [{"task": 0}]]
        metrics = dict.fromkeys([*self.metrics, *(name for row in trial.rows for name in row if name != "task")])
        fields = [(name, pa.scalar(value).type) for name, value in {**columns, "task": 0}.items()]
        schema = pa.schema([*fields, *((name, pa.float64()) for name in metrics)])
        write_rows(pa.Table.from_pylist(rows, schema=schema), self.folder / trial_file(trial.number))

    def compact(self, numbers: Iterable[int], has_ended: Callable[[int], bool]) -> None:
        """Write each block of these trials as one file, if all trials of the block have ended, and remove their own.

        A kill in between leaves files of single trials beside the block, which other readers of the folder take for
        further trials. This removes them, and so does `remove_left`.
        """
        for block in dict.fromkeys(block_of(number) for number in numbers):
            if all(has_ended(number) for number in block):
                with suppress(FileNotFoundError, InputError):  # a fault is said by those who read the record
                    self._compact(block)

    def remove_left(self) -> None:
        """Remove files of single trials beside the file of their block, as a kill leaves them; nothing is read."""
        for path in self._files():
            if is_block(path.name):
                self._compact(numbers_in(path.name))

    def _compact(self, block: range) -> None:
        target, singles = self.folder / block_file(block[0]), [self.folder / trial_file(number) for number in block]
        if not target.exists():
            write_rows(_merge_tables([read_rows(path) for path in singles]), target)
        for path in singles:
            path.unlink(missing_ok=True)

    def table(self) -> pa.Table:
        """Return the rows of all trials by trial and task, missing columns as null; a damaged file is an InputError."""
        return _merge_tables(self._each(read_rows))

    def trials(self) -> list[TrialSummary]:
        """Return all trials by number; raises an `InputError` if a file is damaged or holds another trial."""
        return sorted(chain.from_iterable(self._each(read_record_file)), key=lambda trial: trial.number)

    def file_of(self, number: int) -> Path:
        """Return the file that has a trial: its own, or that of its block."""
        block = self.folder / block_file(number)
        return block if block.exists() else self.folder / trial_file(number)

    def set_aside_damaged(self) -> dict[Path, str]:
        """Rename the files that cannot be read, so that their trials are run again; return file to a line about it."""
        lines = {}
        for path in self._files():
            try:
                read_record_file(path)
            except InputError as error:
                path.rename(place_aside(path))
                verb = "are" if is_block(path.name) else "is"
                lines[path] = f"{error}; it was put aside, and {path.stem} {verb} run again"
        return lines

    def _each(self, read: Callable[[Path], Read]) -> list[Read]:
        """Read all files, and list them anew if a driver has just compacted some of them."""
        for _ in range(_LISTINGS):
            with suppress(FileNotFoundError):
                return [read(path) for path in self._files()]
        raise InputError(f"record {self.folder}: files vanish while it is read")

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
        left = {trial_file(number) for name in found if is_block(name) for number in numbers_in(name)}  # see `compact`
        names = [name for name in found if name.startswith("trial") and name.endswith(".parquet")]
        return sorted(self.folder / name for name in names if name not in left)


def row_metrics(tasks: int, metric_names: MetricNames, extra: Sequence[str]) -> list[str]:
    """Return the metrics that the rows of every trial have, on any device; see `Record`."""
    accuracies = [metric_names.average_accuracy, *(metric_names.accuracy(k) for k in range(1, tasks + 1))]
    last_task = [
        metric_names.final_accuracy,
        metric_names.pooled_accuracy,
        metric_names.forgetting,
        metric_names.average_incremental_accuracy,
    ]
    return [*accuracies, *last_task, TRAIN_LOSS, *extra, *(seconds(stage) for stage in STAGES), WAITING]


def _merge_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables by trial and task, missing columns as null."""
    if not tables:
        return pa.table({})
    return pa.concat_tables(tables, promote_options="permissive").sort_by(
        [("trial", "ascending"), ("task", "ascending")]
    )
