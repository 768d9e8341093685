"""Making a run directory: whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tausearch.runs import Record, SearchSpec, Storage, read_spec, replace_text, spec_update_or_rollback
from tausearch.runs.creation import make_run_directory, new_locked_run, new_run, note_code
from tests.support.runs.trials import make_trial
from trainables.errors import InputError


class Killed(BaseException):
    """What a kill leaves behind is what no handler could tidy up."""


def test_a_driver_that_dies_while_it_makes_its_run_leaves_the_name_free(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    directory = storage.run(spec.name)

    def die(*_: object) -> None:
        raise Killed

    for owner, step in ((SearchSpec, "save"), (Path, "rename")):
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(owner, step, die)
            make_run_directory(spec, storage)
    assert storage.runs() == [] and not directory.path.exists() and storage.free_name(spec.method).endswith("-1")
    spec, _ = make_run_directory(spec, storage)
    assert storage.runs() == [directory] and read_spec(directory) == spec


def test_a_run_that_cannot_be_made_leaves_no_folder(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match=r"cannot be made \(No space left\)"):
        make_run_directory(spec, Storage(tmp_path / "new" / "runs"))
    assert list(tmp_path.iterdir()) == []


def test_the_second_of_two_drivers_that_want_a_name_is_refused(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    make_run_directory(spec, storage)
    with pytest.raises(InputError, match=f"a run named '{spec.name}' exists"):
        make_run_directory(spec, storage)
    assert [path.name for path in tmp_path.iterdir()] == [spec.name]


def test_a_folder_that_is_no_run_is_said_to_be_there(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.run(spec.name).path.mkdir()
    (storage.run(spec.name).path / "kept").touch()
    for resume in (False, True):
        with pytest.raises(InputError, match="exists and is no run; choose another --name, or move it away"):
            new_run(tmp_path, spec.name, spec.method, resume_if_exists=resume)
    with pytest.raises(InputError, match="exists and is no run"):
        make_run_directory(spec, storage)
    with pytest.raises(InputError, match=f"no run named '{spec.name}' in .*; the folder of this name is no run"):
        read_spec(storage.run(spec.name))


def test_a_new_run_has_no_name_that_a_command_takes_for_something_else(spec: SearchSpec, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^name 'paper': .*the paper's choices.*; choose another$"):
        new_run(tmp_path, "paper", spec.method)
    earlier = spec.model_copy(update={"name": "paper"})
    make_run_directory(earlier, Storage(tmp_path))  # one of an earlier version goes on
    assert new_run(tmp_path, "paper", spec.method, resume_if_exists=True)[1] == "paper"
    assert new_run(tmp_path, "cifar100", spec.method)[1] == "cifar100"  # the benchmark that a run is on, say


def test_re_evaluations_are_called_after_their_search(tmp_path: Path) -> None:
    names = [Storage(tmp_path).run(name).reevaluation.name for name in ("a", "vit.v2")]
    assert names == ["a.reevaluation", "vit.v2.reevaluation"]


@pytest.mark.parametrize("fault", [InputError, OSError])
def test_a_run_that_is_refused_leaves_no_storage_that_it_has_made(
    fault: type[Exception], spec: SearchSpec, tmp_path: Path
) -> None:
    for root, stays in ((tmp_path, True), (tmp_path / "new" / "runs", False)):
        storage = Storage(root)
        with pytest.raises(fault, match="no node fits"), new_locked_run(spec, storage) as (_, directory):
            storage.cache.mkdir()  # by the process of a trial
            directory.ray.mkdir()
            raise fault("no node fits")
        assert storage.cache.exists() == root.exists() == stays and not storage.run(spec.name).path.exists()


def test_a_refused_change_is_taken_back_where_the_record_is_damaged(spec: SearchSpec, tmp_path: Path) -> None:
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    record = Record(directory.record)
    record.write(make_trial(0, value=60.0))
    record.file_of(0).write_bytes(b"damaged")
    changed = spec.model_copy(update={"cache_size": 7.0})
    with pytest.raises(InputError, match="^no Ray$"), spec_update_or_rollback(directory, changed):
        raise InputError("no Ray")
    assert read_spec(directory) == spec


def test_a_name_that_nobody_chose_gives_way_to_the_next(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    specs = [make_run_directory(spec, storage, rename=True)[0] for _ in range(3)]
    assert [each.name for each in specs] == ["digits-ita-lora-1", "digits-ita-lora-2", "digits-ita-lora-3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [each.name for each in specs]
    assert [read_spec(run) for run in storage.runs()] == specs


def test_code_that_changed_is_told_and_noted_and_code_that_is_new_is_noted(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = {"mine:Same": "1", "mine:Changed": "1", "mine:Gone": "1"}
    spec, directory = make_run_directory(spec.model_copy(update={"code_digests": then}), Storage(tmp_path))
    now = {"mine:Same": "1", "mine:Changed": "2", "mine:New": "1", "mine:Sampler": "of the file"}
    imported = {"mine:Sampler": "of the import"}  # it runs in this process
    monkeypatch.setattr(
        "tausearch.runs.creation.digests_of", lambda _, in_workers=False: dict(now if in_workers else imported)
    )
    (line,) = note_code(spec, directory)
    assert line.startswith("the code of mine:Changed has changed")
    assert read_spec(directory).code_digests == {**then, **now, **imported}


def test_a_text_that_cannot_be_replaced_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    replace_text(file, "before")

    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left", str(source))

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="No space left: '.*/file'$"):  # not the name of a temporary file
        replace_text(file, "after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and file.read_text() == "before"

    def refuse_all(path: Path, *_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "write_text", refuse_all)
    monkeypatch.setattr(Path, "unlink", refuse_all)
    with pytest.raises(OSError, match="Read-only file system: '.*/file'$"):
        replace_text(file, "after")


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    """As root, /dev/full would be exchanged for a file."""
    pipe, said = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: said.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    replace_text(pipe, "all of it")
    reader.join(60)
    assert said == ["all of it"] and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]
    with pytest.raises(IsADirectoryError):
        replace_text(tmp_path, "no")
    assert list(tmp_path.iterdir()) == [pipe]
