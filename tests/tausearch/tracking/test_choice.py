"""Trackers by the names of `--tracking`, and callbacks by the names of `--callback`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tausearch
from tausearch.api import SearchRequest, plan_search
from tausearch.tracking import (
    callbacks_of,
    checked_tracking,
    choice,
    require_installed,
    tracking_options,
    tracking_text,
)
from tests.support.command_line import Ask
from trainables.errors import InputError

MODULE = """
class Good:
    def on_event(self, event):
        pass

class Lacks:
    pass

class Fails(Good):
    def __init__(self):
        raise RuntimeError("no server")

class Impatient(Good):
    patience = "long"

def made():
    return Good()

def wrong():
    return 7

class Both(Good):
    def __call__(self):
        return 7

one = Good()
both = Both()
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the working folder."""
    (tmp_path / "my_callbacks.py").write_text(MODULE)
    (tmp_path / "my_broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(tmp_path)
    for name in ("my_callbacks", "my_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "my_callbacks"


@pytest.mark.parametrize(
    ("text", "trackers"),
    [
        (None, None),
        ("none", ()),
        ("mlflow", ("mlflow",)),
        ("tensorboard,mlflow", ("mlflow", "tensorboard")),
        ("mlflow, mlflow", ("mlflow",)),
    ],
)
def test_trackers_are_named(text: str | None, trackers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: object())
    assert checked_tracking(text) == trackers
    assert checked_tracking(tracking_text(trackers)) == trackers


def test_a_command_repeats_trackers_and_callbacks_without_passwords() -> None:
    assert tracking_options((), None, None) == ""
    given = tracking_options(["m:A", object(), "my tally"], "none", "postgresql://me:secret@host/db")
    assert given == " --callback m:A --callback 'my tally' --tracking none --tracking-uri postgresql://me@host/db"


@pytest.mark.parametrize("text", ["", "None", "wandb", "none,mlflow", "mlflow,", "mlflow tensorboard"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--tracking must be none, or one or more of mlflow, tensorboard with commas"):
        checked_tracking(text)


def test_a_tracker_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    require_installed(("mlflow",))
    with pytest.raises(InputError, match="needs a package"):
        require_installed(("mlflow", "tensorboard"))
    words = ["search", "digits", "finetune", "--tracking", "tensorboard", "--storage", str(tmp_path / "runs")]
    code, out, err = ask(*words)
    advice = "--tracking tensorboard: needs a package: pip install 'tausearch[tensorboard]'"
    assert (code, out, err) == (2, "", f"tausearch: {advice}\n") and not (tmp_path / "runs").exists()


def test_a_run_that_goes_on_is_tracked_as_before_unless_told_otherwise(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"storage": tmp_path, "name": "s", "resume_if_exists": True}

    def plan(**more: str) -> Any:
        return plan_search(SearchRequest("digits", "finetune", **asked, **more))

    assert plan().spec.trackers == ("mlflow",)
    with plan(tracking="none").open_locked() as (spec, _):
        assert spec.trackers == ()
    assert [plan().continued().trackers, plan(tracking="mlflow").continued().trackers] == [(), ("mlflow",)]


def test_callbacks_are_objects_or_names_of_what_makes_them(module: str) -> None:
    class Mine:
        patience = 3

        def on_event(self, event: tausearch.Event) -> None:
            pass

    mine = Mine()
    found = callbacks_of([mine, f"{module}:Good", f"{module}:made", f"{module}:one", f"{module}:Good"])
    assert found[0] is mine and [type(each).__name__ for each in found[1:]] == ["Good"] * 4
    assert found[1] is not found[4] and found[3] is sys.modules[module].one  # type: ignore[attr-defined]


def test_a_callback_that_can_be_called_is_taken_as_it_is(module: str) -> None:
    assert callbacks_of([f"{module}:both"]) == [sys.modules[module].both]  # type: ignore[attr-defined]


@pytest.mark.parametrize("patience", [True, float("nan"), -1.0, "1"])
def test_patience_is_a_number_of_seconds(patience: Any) -> None:
    callback = SimpleNamespace(on_event=lambda event: None, patience=patience)
    with pytest.raises(InputError, match="patience must be a number of seconds, got"):
        callbacks_of([callback])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("my_callbacks:Lacks", "the class Lacks lacks on_event() of the protocol Callback"),
        ("my_callbacks:Fails", "callback 'my_callbacks:Fails' failed (RuntimeError: no server in "),
        ("my_callbacks:Impatient", "patience must be a number of seconds, got 'long'"),
        (
            "my_callbacks:Nothing",
            "callback 'my_callbacks:Nothing': 'Nothing' must be an object, got nothing of that ",
        ),
        ("my_callbacks:wrong", "int lacks on_event() of the protocol Callback"),
        ("my_callbacks:number", "int lacks on_event() of the protocol Callback"),
        ("my_broken:X", "module 'my_broken' cannot be imported (ModuleNotFoundError: No module named 'nothing_of"),
        ("nobody", "unknown callback 'nobody'; allowed: MODULE:NAME"),
    ],
)
def test_a_name_of_no_callback_is_one_line_and_nothing_starts(
    given: str, words: str, module: str, tmp_path: Path, ask: Ask
) -> None:
    for command in (["search", "digits", "finetune"], ["search", "digits", "finetune", "--dry-run"], ["resume", "s"]):
        arguments = [*command, "--callback", given, "--storage", str(tmp_path / "runs")]
        code, out, err = ask(*arguments)
        assert (code, out) == (2, "") and words in err and len(err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([int], "is a class; give an object of it"),
        ([7], "callback 7: int lacks on_event"),
        ("my_callbacks:Good", "--callback must be a list of callbacks"),
    ],
)
def test_what_is_no_callback_is_refused_in_python(given: Sequence[Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        tausearch.search("digits", "finetune", callbacks=given, storage=tmp_path)
    assert words in str(refused.value)
