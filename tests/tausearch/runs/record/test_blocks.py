"""Blocks of trials that have ended: one file in place of a hundred, the same rows, no kill loses or repeats one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tausearch.runs import Record, TrialSummary
from tausearch.runs.record.files import BLOCK, numbers_in, read_rows, write_rows
from tests.support.runs.trials import make_trial
from trainables.errors import InputError

FILE = "trials-00100-00199.parquet"


@pytest.fixture(scope="module")
def trials() -> dict[int, TrialSummary]:
    """Trials that differ in what they have: tasks, an error, a hyperparameter of their own."""
    stopped = make_trial(110, tasks=1, status="pruned", hyperparameters={"alpha": 1, "beta": 2.5})
    lost = make_trial(111, tasks=0, status="failed", error="its process died")
    found = [make_trial(number, value=70.0 + number % 3) for number in range(98, 203)]
    return {trial.number: trial for trial in [*found, stopped, lost]}


@pytest.fixture
def record(tmp_path: Path, trials: dict[int, TrialSummary]) -> Record:
    record = Record(tmp_path / "record", {"benchmark": "digits"}, tasks=3)
    for trial in trials.values():
        record.write(trial)
    return record


def test_a_block_takes_the_place_of_its_files_and_nothing_else_changes(
    record: Record, trials: dict[int, TrialSummary]
) -> None:
    before = record.table()
    record.compact(trials, trials.__contains__)
    singles = [f"trial-{number:05}.parquet" for number in (98, 99, 200, 201, 202)]
    assert sorted(path.name for path in record.folder.iterdir()) == [*singles, FILE]
    assert record.trials() == [trials[number] for number in sorted(trials)]
    after = record.table().select(before.column_names)
    assert after.to_pylist() == before.to_pylist() and after.schema.equals(before.schema)
    numbers = pd.read_parquet(record.folder)["trial"]
    assert sorted(numbers) == before["trial"].to_pylist()


def test_the_file_of_a_trial_is_that_of_its_block(record: Record) -> None:
    assert record.file_of(150).name == "trial-00150.parquet"
    record.compact([150], lambda number: True)
    assert [record.file_of(number).name for number in (99, 100, 150)] == ["trial-00099.parquet", FILE, FILE]


def test_a_block_waits_for_its_last_trial(record: Record, trials: dict[int, TrialSummary]) -> None:
    for missing in (100, 150, 199):
        record.compact([150], lambda number, missing=missing: number != missing)
        assert not (record.folder / FILE).exists()
    record.compact([99, 200], trials.__contains__)
    assert not (record.folder / FILE).exists(), "these are trials of other blocks"
    record.compact([150], trials.__contains__)
    assert (record.folder / FILE).exists()


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_block_with_a_lost_or_damaged_file_is_left_as_it_is(
    record: Record, trials: dict[int, TrialSummary], change: Callable[[Path], object]
) -> None:
    change(record.folder / "trial-00150.parquet")
    before = sorted(record.folder.iterdir())
    record.compact(trials, trials.__contains__)
    assert sorted(record.folder.iterdir()) == before


@pytest.mark.parametrize("removed", [0, 1, BLOCK - 1])
def test_a_kill_before_all_files_of_single_trials_are_removed(
    record: Record, trials: dict[int, TrialSummary], monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    left = iter(range(removed))
    unlink = Path.unlink

    def die(path: Path, missing_ok: bool = False) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", die)
        record.compact(trials, trials.__contains__)
    assert len([*record.folder.iterdir()]) == len(trials) - removed + 1
    assert record.trials() == [trials[number] for number in sorted(trials)]
    record.compact(trials, trials.__contains__)
    assert len([*record.folder.iterdir()]) == len(trials) - BLOCK + 1
    assert record.trials() == [trials[number] for number in sorted(trials)]


def test_a_reader_whose_files_are_compacted_meanwhile_reads_the_block(
    record: Record, trials: dict[int, TrialSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compact_first(path: Path) -> bool:
        monkeypatch.undo()
        record.compact(trials, trials.__contains__)
        return True

    monkeypatch.setattr(Path, "is_file", compact_first)
    record.folder.joinpath("trial-00098.parquet").rename(record.folder / "trial-00198.parquet.aside")
    assert [trial.number for trial in record.trials()] == list(range(99, 203))


def _without_a_trial(path: Path) -> None:
    write_rows(read_rows(path).slice(3), path)


def _of_another_trial(path: Path) -> None:
    write_rows(read_rows(path.with_name("trial-00098.parquet")), path)


def _with_nought_where_a_number_is_missing(path: Path) -> None:
    whole = pq.read_table(path)
    columns = [each.fill_null(0) if pa.types.is_floating(each.type) else each for each in whole.columns]
    pq.write_table(pa.Table.from_arrays(columns, schema=whole.schema), path)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is damaged"),
        (_without_a_trial, "lacks a trial, or has one twice"),
        (_of_another_trial, "holds trial 98"),
        (_with_nought_where_a_number_is_missing, "its content is not what was written"),
    ],
)
def test_damage_is_put_aside_and_its_trials_are_run_again(
    record: Record, trials: dict[int, TrialSummary], change: Callable[[Path], None], fault: str
) -> None:
    record.compact(trials, trials.__contains__)
    change(record.folder / FILE)
    with pytest.raises(
        InputError, match=f"{FILE}.*{fault}.*results of trials-00100-00199 are lost.* these trials again"
    ):
        record.trials()
    (line,) = record.set_aside_damaged().values()
    assert line.endswith("it was put aside, and trials-00100-00199 are run again")
    assert [trial.number for trial in record.trials()] == [98, 99, 200, 201, 202]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("trial-00007.parquet", [7]),
        ("trial-123456.parquet", [123456]),
        (FILE, list(range(100, 200))),
        *((name, []) for name in ("trial-7.parquet", "trials-00100-00299.parquet", "trials-00101-00200.parquet")),
        *((name, []) for name in ("trials-00000-99999999999999.parquet", "trial-00007.parquet.tmp", "other.parquet")),
    ],
)
def test_the_name_of_a_file_says_what_it_holds(name: str, numbers: list[int]) -> None:
    assert list(numbers_in(name)) == numbers
