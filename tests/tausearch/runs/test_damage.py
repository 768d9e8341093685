"""Damage to a run directory: one line names what is damaged and what is lost, and every other run is read."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from checked_input.text_files import LARGEST
from tausearch.runs import (
    Record,
    RunDirectory,
    Storage,
    driver_lock,
    is_driven,
    open_storage,
    read_status,
    remove_on_error,
)
from tausearch.runs.record.files import write_rows
from tausearch.studies import best_of_all, best_of_run, load_best
from tausearch.studies.best_file import make_best_file
from tests.checked_input.test_yaml_text import BOMB
from tests.support.command_line import Ask
from tests.support.runs.built_runs import make_run
from tests.support.runs.trials import final_spec, make_trial, search_spec
from trainables.errors import InputError

TRIALS = [make_trial(0, value=70.0), make_trial(1, value=72.0), make_trial(2, tasks=1)]
Change = Callable[[RunDirectory], Any]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    found = Storage(tmp_path / "runs")
    for name in ("damaged", "whole"):
        make_run(found, search_spec().model_copy(update={"name": name}), TRIALS)
    return found


def edited(**changes: Any) -> Change:
    def edit(directory: RunDirectory) -> None:
        content = yaml.safe_load(directory.spec_file.read_text())
        directory.spec_file.write_text(yaml.safe_dump({**content, **changes}))

    return edit


def as_final_run(directory: RunDirectory) -> None:
    final_spec(search_spec(), name=directory.name).save(directory)
    edited(trials=4)(directory)


def record_file(directory: RunDirectory, number: int = 1) -> Path:
    return directory.record / f"trial-{number:05d}.parquet"


def rewritten(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Change a row of a trial in the record, and write a sound file of it."""

    def rewrite(directory: RunDirectory) -> None:
        rows = pq.read_table(record_file(directory)).to_pylist()
        for row in rows:
            change(row)
        write_rows(pa.Table.from_pylist(rows), record_file(directory))

    return rewrite


def fifo(directory: RunDirectory) -> None:
    directory.spec_file.unlink()
    os.mkfifo(directory.spec_file)


def file_for_record(directory: RunDirectory) -> None:
    shutil.rmtree(directory.record)
    directory.record.write_text("x")


DAMAGE: dict[str, tuple[Change, str]] = {
    "no text": (lambda d: d.spec_file.write_bytes(b"\xff\xfe\0"), "run.yaml: is not a text file"),
    "empty": (lambda d: d.spec_file.write_bytes(b""), "run.yaml: "),
    "deep": (lambda d: d.spec_file.write_text("a: " + "[" * 5000), "run.yaml: .*nested"),
    "bomb": (lambda d: d.spec_file.write_text(BOMB), "run.yaml: .*alias"),
    "large": (lambda d: d.spec_file.write_text("#" * (LARGEST + 1)), "run.yaml: .*more than"),
    "schema": (edited(schema=2), "run.yaml: unknown key 'schema'"),
    "trials": (edited(trials=10**9), "run.yaml: key 'trials': .*from 1 to 100000"),
    "seed": (edited(seed=10**18), "run.yaml: key 'seed'"),
    "seeds": (as_final_run, "run.yaml: .*seeds must be 4"),
    "start": (edited(start={}), "run.yaml: .*start must have 'alpha'"),
    "fewer trials": (edited(trials=1), "record .*: trial 1 is not of this run: run.yaml asks for 1 trial"),
    "other seed": (edited(seed=5), "trial 0 is not of this run: its seed is 0, must be 5"),
    "fewer tasks": (edited(steps=2), "trial 0 is not of this run: it has 3 tasks of 2"),
    "other space": (lambda d: rewritten(lambda row: row.update(hyperparameters="{}"))(d), "it has no 'alpha'"),
    "file": (file_for_record, "record .*/record: is a file"),
    "record": (lambda d: record_file(d).write_bytes(b"PAR1"), "results of trial-00001 are lost; .*--without-damaged"),
    "record empty": (lambda d: record_file(d).write_bytes(b""), "trial-00001.parquet: is damaged"),
    "record folder": (lambda d: (record_file(d).unlink(), record_file(d).mkdir()), "is not a file"),
    "record missing column": (rewritten(lambda row: row.pop("status")), 'KeyError: .*"status"'),
    "record other status": (rewritten(lambda row: row.update(status="well")), "status 'well'"),
    "record other number": (rewritten(lambda row: row.update(trial=7)), "holds trial 7"),
    "record other task": (rewritten(lambda row: row.update(task=2)), r"holds tasks \[2, 2, 2\]"),
    "record deep": (rewritten(lambda row: row.update(hyperparameters="[" * 10**5)), "RecursionError"),
    "record other metrics": (
        rewritten(lambda row: row.pop("val/average_accuracy")),
        "trial 1 is not of this run: a task has no 'val/average_accuracy'",
    ),
    "record other tasks": (rewritten(lambda row: row.update(task=row["task"] - 1)), r"holds tasks \[0, 1, 2\]"),
    "record of a word": (rewritten(lambda row: row.update(seed="0")), "seed '0'"),
    "record without its end": (
        rewritten(lambda row: row.pop("val/final_accuracy")),
        "ValueError: is complete without a final accuracy",
    ),
    "record of a list": (rewritten(lambda row: row.update(hyperparameters="[1]")), "trial-00001.parquet: is damaged"),
    "renumbered": (lambda d: record_file(d).rename(record_file(d, 3)), "trial-00003.parquet: .*holds trial 1"),
    "fifo": (fifo, ""),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_stops_no_other_run(kind: str, storage: Storage, ask: Ask) -> None:
    change, message = DAMAGE[kind]
    before = read_status(storage.run("damaged"))
    change(storage.run("damaged"))
    found, faults = storage.read_each(read_status)
    assert [each.spec.name for each in found] == ["whole"] and len(found[0].trials) == len(before.trials)
    at = ["--storage", str(storage.root)]
    code, out, err = ask("status", *at)
    assert code == 0 and "whole" in out
    assert err.count("\n") == len(faults) and len(err) < 1000
    assert ask("compare", *at)[0] == 0
    if kind == "fifo":  # which is no file: there is no run
        return
    with pytest.raises(InputError, match=message) as error:
        read_status(storage.run("damaged"))
    assert len(str(error.value).splitlines()) == 1
    listing = sorted(storage.root.rglob("*"))
    for command in (["status", "damaged"], ["resume", "damaged"], ["extend", "damaged", "--trials", "9"]):
        code, out, err = ask(*command, *at)
        assert (code, out, err.count("\n")) == (2, "", 1), command
    assert sorted(storage.root.rglob("*")) == listing


def test_a_flipped_bit_of_a_record_file_is_noticed_or_changes_nothing(storage: Storage) -> None:
    path, draw = record_file(storage.run("whole")), random.Random(0)
    content, noticed = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            assert Record(path.parent).trials()[1] == TRIALS[1]
        except InputError as error:
            assert "trial-00001.parquet: is damaged" in str(error)
            noticed += 1
    assert noticed > 50


def test_a_damaged_record_file_is_put_aside(storage: Storage) -> None:
    record = Record(storage.run("damaged").record)
    record_file(storage.run("damaged")).write_bytes(b"PAR1")
    (line,) = record.set_aside_damaged().values()
    assert "trial-00001 is run again" in line and [trial.number for trial in record.trials()] == [0, 2]
    assert (record.folder / ".trial-00001.parquet.damaged").read_bytes() == b"PAR1"
    assert record.set_aside_damaged() == {} and len(pq.read_table(record.folder)) == 4


def test_a_damaged_best_file_is_taken_from_the_record(storage: Storage) -> None:
    shutil.rmtree(storage.run("damaged").path)
    whole = best_of_all(storage, "digits", "ita-lora", print)
    storage.run("whole").best_file.write_text("a: *b")
    said: list[InputError] = []
    again = best_of_all(storage, "digits", "ita-lora", said.append)
    assert again.model_dump() == whole.model_dump() and "taken from the record" in str(said[0])
    for name in ("bad", "worse"):
        storage.run(name).path.mkdir()
        storage.run(name).spec_file.write_text("a: *b")
    best_of_all(storage, "digits", "ita-lora", said.append)
    assert [name in str(fault) for name, fault in zip(("bad", "worse", "whole"), said[1:], strict=True)] == [True] * 3


def test_a_best_file_of_an_earlier_choice_is_taken_from_the_record(storage: Storage) -> None:
    directory = storage.run("whole")
    current = load_best(directory.best_file)
    make_best_file(search_spec().model_copy(update={"name": "whole"}), TRIALS[0], 1).save(
        directory.best_file
    )  # then a kill
    said: list[InputError] = []
    assert current.selection is not None and current.selection.trial == 1
    assert best_of_run(storage, "whole", said.append) == current
    assert "is older than the choice of trial 1; its content was taken from the record" in str(said[0])
    make_best_file(search_spec().model_copy(update={"name": "whole"}), TRIALS[1], 7).save(directory.best_file)
    found = best_of_run(storage, "whole", said.append).selection
    assert found is not None and found.trials == 7 and len(said) == 1, "the same choice, whatever else it says"


def test_a_run_of_another_name_or_method_is_not_continued(storage: Storage, ask: Ask) -> None:
    changes = {
        "is that of a run named 'other'; give the folder this name": {"name": "other"},
        "run 'whole': run.yaml: unknown method 'nope'; ": {"method": "nope"},
        "run.yaml: ita-lora: unknown hyperparameter 'momentum'": {"fixed": {"momentum": 1}},
    }
    original = storage.run("whole").spec_file.read_text()
    for message, change in changes.items():
        storage.run("whole").spec_file.write_text(original)
        edited(**change)(storage.run("whole"))
        code, out, err = ask("resume", "whole", "--storage", str(storage.root))
        assert (code, out, err.count("\n")) == (2, "", 1) and message in err, err


def test_a_lock_that_is_none(storage: Storage) -> None:
    directory = storage.run("whole")
    directory.lock_file.mkdir()
    assert read_status(directory).state == "stopped"
    with pytest.raises(InputError, match="driver.lock: cannot be locked"), driver_lock(directory):
        pass
    directory.lock_file.rmdir()
    os.mkfifo(directory.lock_file)
    assert not is_driven(directory)


def test_who_looks_makes_nothing_and_is_in_nobodys_way(storage: Storage) -> None:
    directory = storage.run("whole")
    assert not is_driven(directory) and not directory.lock_file.exists()
    with driver_lock(directory):
        assert is_driven(directory)
    assert not is_driven(directory)
    for path in [storage.root, *storage.root.rglob("*")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    if os.geteuid() != 0:  # root may write everywhere
        with pytest.raises(InputError, match="cannot be written"):
            open_storage(storage.root, write=True)
    assert len(storage.read_each(read_status)[0]) == 2
    for path in [storage.root, *storage.root.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def test_nobody_is_locked_out_of_a_run_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run named 'none'"), driver_lock(RunDirectory(tmp_path / "none")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_what_fails(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "lies").mkdir()
    (tmp_path / "link-to-empty").symlink_to(tmp_path / "lies")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    names = ("a/b/file", "empty", "kept", "c", "link-to-empty")
    targets = [tmp_path / name for name in names]
    with pytest.raises(KeyboardInterrupt), remove_on_error(*targets, tmp_path / "link", None):
        targets[0].parent.mkdir(parents=True)
        for path in (targets[0], targets[1] / "half", targets[2] / "half", targets[3], targets[4] / "half"):
            path.write_text("half")
        (tmp_path / "link").symlink_to(targets[2])
        raise KeyboardInterrupt
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        *("empty", "kept", "kept/file", "kept/half", "lies", "link-to-empty")
    ]
    assert (tmp_path / "link-to-empty").is_symlink()
    with remove_on_error(targets[0]):
        targets[0].parent.mkdir(parents=True)
        targets[0].write_text("whole")
    assert targets[0].read_text() == "whole"
