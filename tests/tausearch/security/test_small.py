"""Small faults that a stranger's input, a closed folder or an early Ctrl-C brought out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tausearch.execution import bytes_of
from tausearch.runs import SearchSpec, Storage
from tests.support.runs.trials import make_trial
from tests.tausearch.runs.test_status import write_run
from tests.tausearch.security.conftest import Refused


@pytest.fixture
def storage(tmp_path: Path, spec: SearchSpec, no_insight: None) -> Storage:
    """A storage root where the command line looks, with one search in it."""
    made = Storage(tmp_path / "tausearch-runs")
    write_run(made, spec, [make_trial(0, value=70.0)])
    return made


def closed_to_us(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a folder unreadable and unwritable for this process, even for root."""
    listdir, access = os.listdir, os.access

    def list_folder(path: str | Path = ".") -> list[str]:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr("os.listdir", list_folder)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != folder and access(path, mode))


def test_an_unreadable_record_is_not_an_empty_one(
    storage: Storage, spec: SearchSpec, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = storage.run(spec.name).record
    closed_to_us(monkeypatch, record)
    for command in (["status"], ["report"], ["runs", "sync"], ["resume"]):
        assert (
            refused(*command, spec.name, code=1) == f"tausearch: record {record}: cannot be read (Permission denied)\n"
        )


def test_an_unreadable_file_of_it_is_not_a_damaged_one(
    storage: Storage, spec: SearchSpec, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_path = Path.open

    def open_or_deny(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.suffix == ".parquet":
            raise PermissionError(13, "Permission denied", str(path))
        return open_path(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_or_deny)
    assert "cannot be read (Permission denied)" in refused("status", spec.name, code=1)


def test_what_cannot_be_deleted_whole_is_not_touched(
    storage: Storage, spec: SearchSpec, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = storage.run(spec.name)
    (directory.path / "figures" / "closed").mkdir(parents=True)
    before = sorted(directory.path.rglob("*"))
    closed_to_us(monkeypatch, directory.path / "figures" / "closed")
    err = refused("runs", "delete", spec.name, "--yes")
    assert "closed in it cannot be changed; nothing was deleted" in err
    assert sorted(directory.path.rglob("*")) == before and bytes_of(directory.path) > 0


def test_a_run_of_a_campaign_is_not_deleted(
    storage: Storage, spec: SearchSpec, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.campaigns.campaign_of", lambda *_: "table")
    assert "belongs to campaign 'table'" in refused("runs", "delete", spec.name, "--yes")
    assert storage.run(spec.name).spec_file.exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["predict", "folder", "image.png", "--keep", ""], "--keep must be tasks, numbers or names"),
        (["compose", "run", "--keep", ""], "--keep must be tasks, numbers or names"),
        (["compare", "--figure", "x.exe"], "--figure x.exe: must end in .png"),
        (["status", "--storage", "loop"], "is a link that leads nowhere"),
        (["data", "check", "folder:loop?tasks=2"], "loop: no such folder"),
        (["search", "digits", "ita-lora", "--constraint", "seconds <= -1"], "no trial can keep it"),
        (["search", "digits", "ita-lora", "--constraint", "final_accuracy >= 100.5"], "goes from 0 to 100"),
        (["search", "digits", "ita-lora", "--constraint", "forgetting <= -101"], "goes from -100 to 100"),
        (["search", "digits", "ita-lora", "--warm-start", "paper,paper"], "--warm-start paper: is given twice"),
    ],
)
def test_refused_with_exit_code_2(words: list[str], why: str, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert why in refused(*words)


INTERRUPTED = """
import os, signal, sys
from tausearch.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins with the signal ignored

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            sys.argv.pop()
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""


@pytest.mark.parametrize("module", ["tausearch.cli.application", "typer", "tausearch.cli.look", "yaml"])
def test_ctrl_c_during_any_import_is_a_line_and_no_traceback(module: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", INTERRUPTED, "list", "spaces", module]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
