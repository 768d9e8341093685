"""Runs that tests share are built once; each test has a copy that names no other folder and can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.runs import Storage
from tests.support.runs.built_runs import BuiltRuns
from tests.support.runs.composable_runs import make_composable_run
from tests.support.runs.final_runs import make_final_run


def test_each_run_is_built_once_and_copies_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BuiltRuns, "folder", tmp_path / "built")
    built = []

    def build(storage: Storage, name: str, text: str) -> None:
        built.append(text)
        storage.run(name).path.mkdir()
        storage.run(name).spec_file.write_text(f"{text}\n")

    first, second = (Storage(tmp_path / name) for name in ("first", "second"))
    for storage in (first, second):
        for name in ("b", "a"):
            BuiltRuns.copy(build, storage, name, "x")
        assert [run.name for run in storage.runs()] == ["b", "a"]  # oldest first
        storage.run("a").spec_file.write_text("changed")
    assert built == ["x", "x"] and second.run("b").spec_file.read_text().startswith("x")
    BuiltRuns.copy(build, Storage(tmp_path / "third"), "a", "y")
    BuiltRuns.cache_clear()
    BuiltRuns.copy(build, Storage(tmp_path / "fourth"), "a", "x")
    assert built == ["x", "x", "y", "x"]


def test_no_file_of_a_run_names_the_folder_that_it_was_built_in(tmp_path: Path) -> None:
    make_final_run(Storage(tmp_path), "final", [70.0, 72.0])
    make_composable_run(Storage(tmp_path), "ita")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20 and BuiltRuns.folder is not None
    for file in files:
        assert str(BuiltRuns.folder).encode() not in file.read_bytes(), file
