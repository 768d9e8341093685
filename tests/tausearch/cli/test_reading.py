"""How texts of options are read, what an error becomes, and what a command hands on."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.api.synchronisation import Synced
from tausearch.cli import application, completion, compose, options
from tausearch.cli.application import app
from tausearch.models import ModelOptions
from tausearch.runs import DEFAULT_CACHE_SIZE, RunDirectory, SearchSpec, Storage, StorageError
from tausearch.runs.creation import make_run_directory
from tests.support.command_line import Ask, get_command
from trainables.errors import InputError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("wrong\nvalue"), 2, "wrong value"),
        (StorageError("the disk is full"), 1, "the disk is full"),
        (InputError("space.lr: wrong"), 2, "space.lr: wrong"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 2, "x: File name too long"),
        (OSError(errno.EISDIR, "Is a directory", "x"), 2, "x: Is a directory"),
        (OSError(errno.ENOTDIR, "Not a directory", "x"), 2, "x: Not a directory"),
        (OSError(errno.ELOOP, "Too many levels", "x"), 2, "x: Too many levels"),
        (OSError(errno.EACCES, "Permission denied", "x"), 1, "x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
        (InputError("one", "two"), 2, "one\ntausearch: two"),
        (OSError("odd"), 1, "odd"),
    ],
)
def test_an_error_is_a_line_and_its_code_says_who_can_mend_it(
    error: Exception, code: int, said: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(application, "app", fail)
    assert ask("status") == (code, "", f"tausearch: {said}\n")


def test_an_error_of_ours_keeps_its_traceback(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr(application, "app", fail)
    with pytest.raises(ValueError, match="a mistake"):
        ask("status")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("label", "label"),
        (None, None),
        ("3", 3),
        ("0", 0),
        ("a,b", "a,b"),
        ("-1", "-1"),
        ("1" * 31, "1" * 31),
        ("classes.txt", "classes.txt"),
    ],
)
def test_a_class_order_is_a_seed_a_text_or_none(text: str | None, read: object) -> None:
    assert options.class_order(text) == read


@pytest.mark.parametrize(
    ("text", "read"), [("auto", "auto"), ("1/4", 0.25), (".5", 0.5), ("0", 0), ("1/0", None), ("1e3", None), ("", None)]
)
def test_a_share_of_a_gpu(text: str, read: object) -> None:
    if read is None:
        with pytest.raises(InputError, match="--gpus-per-trial must be a number"):
            options.gpu_share(text)
    else:
        assert options.gpu_share(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [(None, None), ("90s", 90), ("1.5m", 90), (".5h", 1800), ("2d", 172800), ("2D", 0), ("m", 0), ("1e3s", 0)],
)
def test_a_duration_has_one_of_four_units(text: str | None, read: float | None) -> None:
    if read == 0:
        with pytest.raises(InputError, match="--time-budget must be a number and s, m, h or d"):
            options.seconds(text)
    else:
        assert options.seconds(text) == read


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        (None, None),
        ("3, 1", [3, 1]),
        ("birds, 2", ["birds", 2]),
        ("big birds,owls", ["big birds", "owls"]),
        ("1 5", ["1 5"]),
        ("1234567890", ["1234567890"]),  # no number of a task has ten digits
        ("a,,b", "refused"),
        (" ", "refused"),
    ],
)
def test_tasks_are_numbers_or_names(text: str | None, tasks: list[Any] | str | None) -> None:
    if tasks == "refused":
        with pytest.raises(InputError, match="--keep must be tasks, numbers or names, with commas between them"):
            compose._tasks("keep", text)
    else:
        assert compose._tasks("keep", text) == tasks


@pytest.mark.parametrize(
    ("text", "whole", "real"),
    [("3, 1", [3, 1], [3.0, 1.0]), ("0.5,-1", None, [0.5, -1.0]), ("1 5", None, None), ("1,", None, None)],
)
def test_numbers_have_commas_between_them(text: str, whole: list[int] | None, real: list[float] | None) -> None:
    read: list[tuple[Callable[[str, str], Any], Any]] = [(options.whole_numbers, whole), (options.numbers, real)]
    for read_text, expected in read:
        if expected is None:
            with pytest.raises(InputError, match="--seeds must be .*numbers with commas between them, got"):
                read_text("--seeds", text)
        else:
            assert read_text("--seeds", text) == expected


def test_names_have_commas_between_them_and_no_blanks_around() -> None:
    assert (options.names(" paper, a b"), options.names(None)) == (["paper", "a b"], None)


def test_every_option_of_a_folder_or_server_has_an_environment_variable() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    below = [each for group in commands.values() for each in getattr(group, "commands", {"": group}).values()]
    found = {(each.name, each.envvar) for command in below for each in command.params}
    named = {"storage": "TAUSEARCH_STORAGE", "data_root": "TAUSEARCH_DATA", "address": "RAY_ADDRESS"}
    named |= {"tracking_uri": "MLFLOW_TRACKING_URI", "export": "TAUSEARCH_EXPORT", "output": "TAUSEARCH_FIGURES"}
    assert {pair for pair in found if pair[1] is not None} == set(named.items())
    files = {("output", None)}  # best files and pages
    as_before = {("data_root", None), ("tracking_uri", None)}  # where a run is continued, or what it has left is used
    assert {pair for pair in found if pair[0] in named} == set(named.items()) | as_before | files
    options = [each for command in below for each in command.params if each.param_type_name == "option"]
    lacks = {each.name for each in options if re.search("^(Empty f|F)older", each.help or "") and each.envvar is None}
    assert lacks == {"data_root"}  # where a run is continued, that of its start is used


def test_the_storage_folder_of_the_environment_is_used_on_the_command_line_and_in_python(
    spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run_directory(spec, Storage(tmp_path))
    monkeypatch.setenv("TAUSEARCH_STORAGE", str(tmp_path))
    code, out, _ = ask("status")
    assert code == 0 and spec.name in out
    asked = [sys.executable, "-c", "from tausearch.runs import DEFAULT_STORAGE as root; print(root)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == f"{tmp_path}\n"


def test_the_shell_is_offered_the_newest_run_first(spec: SearchSpec, tmp_path: Path) -> None:
    for name in ("b-old", "a-new", "b-new"):
        make_run_directory(spec.model_copy(update={"name": name, "id": name}), Storage(tmp_path))
    context: Any = SimpleNamespace(params={"storage": str(tmp_path)})
    assert completion.runs(context, "") == ["b-new", "a-new", "b-old"]
    assert completion.runs(context, "b") == ["b-new", "b-old"] and completion.runs(context, "new") == []
    (tmp_path / "file").touch()
    for lacks in ("none", "file"):
        context.params["storage"] = str(tmp_path / lacks)
        assert completion.runs(context, "") == []


@pytest.mark.parametrize(
    ("words", "cache_size", "screen"),
    [
        ([], DEFAULT_CACHE_SIZE, "stdout"),
        (["--no-cache", "--cache-size", "3"], 0.0, "stdout"),
        (["--cache-size", "3", "--format", "json"], 3.0, "stderr"),
    ],
)
def test_a_search_hands_on_the_cache_and_where_progress_is_shown(
    words: list[str], cache_size: float, screen: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("tausearch.cli.launch._show_preview", lambda *_: None)
    monkeypatch.setattr("tausearch.api.preview_search_with", lambda request: given.update(vars(request)))
    code, _, err = ask("search", "digits", "ita-lora", "--dry-run", *words)
    assert code == 0, err
    assert (given["cache_size"], given["progress_to"]) == (cache_size, screen)


def test_a_prediction_is_made_with_the_options_of_the_command(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def predict(paths: list[Path], **options: Any) -> list[object]:
        given.update(options)
        options["left_out"].append("b.png: is broken")
        return ["a prediction"]

    def open_model(*asked: Any) -> SimpleNamespace:
        given["asked"] = asked
        return SimpleNamespace(notes=["a note"], predict=predict)

    monkeypatch.setattr("tausearch.models.image_paths", lambda images, said: said.append("3 files") or images)
    monkeypatch.setattr("tausearch.models.open_model", open_model)
    monkeypatch.setattr("tausearch.cli.output.show_predictions", lambda *_: None)
    words = ["--seed", "3", "--keep", "1,animals", "--device", "cpu", "--backbone-weights", "w", "--storage", "s"]
    code, _, err = ask("predict", "m", "a.png", *words, "--max-image-bytes", "5")
    assert code == 0 and all(line in err for line in ("a note", "3 files", "b.png: is broken"))
    assert given["asked"] == ("m", ModelOptions(3, [1, "animals"], Path("w"), "cpu"), "s")
    assert (given["max_image_bytes"], given["skip_broken"]) == (5, False)
    ask("predict", "m", "a.png", "--skip-broken", "--max-image-bytes", "6")
    assert (given["max_image_bytes"], given["skip_broken"]) == (6, True)


def test_sync_goes_on_after_a_run_that_fails_and_leaves_driven_ones_alone(
    spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        make_run_directory(spec.model_copy(update={"name": name, "id": name}), Storage(tmp_path))

    def sync_run(_: Storage, directory: RunDirectory, uri: str | None, tracking: str | None) -> Synced:
        if directory.name == "a":
            raise StorageError("its server does not answer")
        where, written = {"d": ("u", 0), "e": (None, 0)}.get(directory.name, ("u", 2))
        return Synced(directory.name, where, trials=1, tasks=5, written=written)

    monkeypatch.setattr("tausearch.api.sync_run", sync_run)
    monkeypatch.setattr("tausearch.runs.is_driven", lambda directory: directory.name == "b")
    done = ("c: 1 trial, 5 tasks in MLflow, 2 of them new", "d: 1 trial, 5 tasks in MLflow, 0 of them new")
    assert ask("runs", "sync", "--storage", str(tmp_path)) == (
        *(1, "\n".join([*done, "e: 1 trial, 5 tasks, not in MLflow\n"])),
        "tausearch: run 'a': its server does not answer\n",
    )
    alone = ask("runs", "sync", "a", "--storage", str(tmp_path))
    assert alone == (1, "", "tausearch: its server does not answer\n")
    assert ask("runs", "sync", "b", "--storage", str(tmp_path))[0] == 0  # it is asked for by name
