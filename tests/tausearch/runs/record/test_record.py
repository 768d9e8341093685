"""The Parquet record: one row per trial and task, last write wins, readable by anyone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from search_spaces import Choices
from tausearch.execution import record_of
from tausearch.runs import Record, RunDirectory, SearchSpec, StorageError
from tausearch.runs.record.files import BLOCK, block_file, damaged, read_rows, write_rows
from tests.support.runs.trials import make_trial
from trainables.errors import InputError


def test_pandas_sees_every_column_whatever_the_first_trial_was(tmp_path: Path) -> None:
    record = Record(tmp_path, {"benchmark": "digits"}, tasks=3)
    record.write(make_trial(0, tasks=0, status="failed", hyperparameters={"alpha": 50, "optimizer": "sgd"}))
    record.write(make_trial(1, value=71.5, hyperparameters={"alpha": 0.758, "optimizer": "adamw"}))
    frame = pd.read_parquet(tmp_path)
    assert frame["benchmark"].tolist() == ["digits"] * 4
    assert frame["hyperparameters/alpha"].tolist() == [50.0] + [0.758] * 3
    assert frame["val/final_accuracy"].dropna().tolist() == [71.5]
    assert record.trials()[0].hyperparameters["alpha"] == 50


def test_a_file_has_the_accuracies_of_as_many_tasks_as_a_trial_has(tmp_path: Path) -> None:
    record = Record(tmp_path, tasks=2, extra=["prompt/loss"])
    record.write(make_trial(0, tasks=0, status="failed"))
    assert record.table()["prompt/loss"].to_pylist() == [None]  # a metric of the method's own
    by_task = [name for name in record.table().column_names if name.startswith("val/accuracy/")]
    assert by_task == ["val/accuracy/task_1", "val/accuracy/task_2"]


def test_an_unfinished_write_is_not_read(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write(make_trial(0, value=70.0))
    (tmp_path / ".trial-00001.parquet.99.tmp").write_bytes(b"PAR1half")
    assert [trial.number for trial in record.trials()] == [0]
    assert len(pd.read_parquet(tmp_path)) == 3


def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(tmp_path)
    record.write(make_trial(0, tasks=1))

    def break_off(table: object, path: Path, **_: object) -> None:
        path.write_bytes(b"PAR1half")
        raise OSError("disk is full")

    monkeypatch.setattr("pyarrow.parquet.write_table", break_off)
    with pytest.raises(OSError, match="full"):
        record.write(make_trial(0, tasks=2))
    assert record.trials() == [make_trial(0, tasks=1)]


def test_words_among_numbers(tmp_path: Path) -> None:
    trials = [make_trial(n, value=70.0, hyperparameters={"passes": v}) for n, v in enumerate([8, "all", True, 2.5])]
    record = Record(tmp_path, texts=["passes"])
    for trial in trials:
        record.write(trial)
    assert Record(tmp_path).trials() == trials
    column = record.table()["hyperparameters/passes"].to_pylist()
    assert column[::3] == ["8", "all", "True", "2.5"] and column[3:7] == ["all"] * 3 + ["True"]
    assert pd.read_parquet(tmp_path)["hyperparameters/passes"].tolist() == column


def test_the_columns_of_a_run_are_text_where_some_of_the_choices_are_words(spec: SearchSpec, tmp_path: Path) -> None:
    space = {"passes": Choices(choices=(8, "all")), "rank": Choices(choices=(2, 8))}
    record = record_of(spec.model_copy(update={"space": space}), RunDirectory(tmp_path))
    record.write(make_trial(0, tasks=1, hyperparameters={"passes": 8, "rank": 8}))
    assert [record.table()[f"hyperparameters/{name}"].to_pylist() for name in space] == [["8"], [8.0]]


@pytest.mark.parametrize(("bound", "why"), [("_MOST_ROWS", "has 3 rows"), ("_LARGEST", "has [0-9]+ bytes")])
def test_a_file_beyond_either_bound_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, why: str
) -> None:
    record = Record(tmp_path / "record")
    record.write(make_trial(0, tasks=3))
    assert len(record.trials()) == 1
    monkeypatch.setattr(f"tausearch.runs.record.files.{bound}", 2)
    with pytest.raises(InputError, match=why):
        record.trials()


def test_a_block_of_trials_of_many_tasks_is_read(tmp_path: Path) -> None:
    rows = pa.table({"task": range(BLOCK * 1001)})
    write_rows(rows, tmp_path / block_file(0))
    assert read_rows(tmp_path / block_file(0)) == rows


def test_trials_are_read_by_number_whatever_the_file_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(tmp_path)
    for number in (10, 2, 0):
        record.write(make_trial(number, tasks=1))
    monkeypatch.setattr("os.listdir", lambda _: ["trial-00010.parquet", "trial-00000.parquet", "trial-00002.parquet"])
    assert [trial.number for trial in record.trials()] == [0, 2, 10]
    assert record.table()["trial"].to_pylist() == [0, 2, 10]


def test_an_error_is_kept(tmp_path: Path) -> None:
    record, trials = Record(tmp_path), [make_trial(0, tasks=1, status="diverged", error="not finite"), make_trial(1)]
    for trial in trials:
        record.write(trial)
    assert [trial.error for trial in record.trials()] == ["not finite", None]


def test_what_a_trial_says_of_itself_goes_over_what_the_run_says(tmp_path: Path) -> None:
    record = Record(
        tmp_path, {"split": "of the run", "status": "x"}, extra_columns=lambda number: {"split": f"of {number}"}
    )
    record.write(make_trial(4, tasks=1))
    (row,) = record.table().to_pylist()
    assert (row["split"], row["status"]) == ("of 4", "running")


def test_a_file_of_version_0_1_0_is_read_and_checked(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write(make_trial(0, value=70.0))
    (file,) = tmp_path.iterdir()
    table = pq.read_table(file).replace_schema_metadata(None)
    kinds = [(field.name, str(field.type)) for field in table.schema]
    digest = hashlib.sha256(json.dumps([kinds, table.to_pylist()]).encode()).hexdigest()
    pq.write_table(table.replace_schema_metadata({"tausearch.content": digest}), file)
    assert record.trials() == [make_trial(0, value=70.0)]
    pq.write_table(table.slice(1).replace_schema_metadata({"tausearch.content": digest}), file)
    with pytest.raises(InputError, match="is not what was written"):
        record.trials()


def test_a_file_without_the_digest_of_its_rows_is_refused(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.write(make_trial(0))
    (file,) = tmp_path.iterdir()
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    for read in (record.trials, record.table):
        with pytest.raises(InputError, match="trial-00000.parquet: is damaged .its content is not what was written"):
            read()


def test_a_metric_of_an_earlier_task_alone_and_a_zero_are_kept(tmp_path: Path) -> None:
    record, trial = Record(tmp_path, tasks=2), make_trial(0, tasks=2)
    trial.rows[0]["train/alone"] = 0.0
    record.write(trial)
    assert record.trials() == [trial]


def test_a_file_that_must_not_be_read_is_no_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise StorageError("cannot be read")

    record = Record(tmp_path)
    record.write(make_trial(0))
    monkeypatch.setattr("tausearch.runs.record.record.read_record_file", refuse)
    with pytest.raises(StorageError):
        record.set_aside_damaged()
    assert record.file_of(0).exists()


def test_damage_among_re_evaluations_names_the_command_of_their_search(tmp_path: Path) -> None:
    file = tmp_path / "s" / "reevaluation" / "record" / "trial-00100.parquet"
    file.parent.mkdir(parents=True)
    (tmp_path / "s" / "run.yaml").touch()
    assert f"`tausearch resume s --storage {tmp_path} --without-damaged`" in str(damaged(file, "torn"))
