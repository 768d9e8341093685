"""The text of times, numbers and hyperparameters, the commands that messages advise, and where lines are printed."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch.presentation import brief, clock, output_to, print_json, stopped_words, stream_of, tool
from tausearch.presentation.terminal import bars, commands, text
from tausearch.presentation.terminal.text import SafeConsole, number, range_text
from tausearch.runs import storage_option
from tests.support.modes import umask
from trainables.user_code import allow_code, code_option


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.4, "0:00"),
        (42.4, "0:42"),
        (59.6, "1:00"),  # the nearest second
        (60, "1:00"),
        (725, "12:05"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (90061, "25:01:01"),
    ],
)
def test_a_duration_has_hours_only_where_there_are_some(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_a_number_that_is_not_finite_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"rows": [{"a": math.nan, "b": (1.5, -math.inf)}], "name": "NaN", "n": 2})
    said = capsys.readouterr().out
    assert json.loads(said) == {"rows": [{"a": None, "b": [1.5, None]}], "name": "NaN", "n": 2}


def test_chosen_hyperparameters_have_three_digits_and_their_own_order() -> None:
    values = {"lr": 0.0012345, "rank": 1234, "fixed": 1, "way": "plain", "alpha": 12345.6}
    assert brief(values, ["alpha", "lr", "rank", "way"]) == "lr=0.00123 rank=1234 way=plain alpha=1.23e+04"


def test_a_cell_has_three_digits_of_a_number_and_all_of_a_count() -> None:
    assert [number(value) for value in (0.123456, 12345, None, "x", 0.0)] == ["0.123", "12345", "", "x", "0"]
    assert (range_text([56, 42, 63]), range_text([1056, 1056])) == ("42 to 63", "1,056")


def test_a_command_is_one_that_the_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands.sys, "executable", str(tmp_path / "my bin" / "python"))
    monkeypatch.setattr(commands.shutil, "which", lambda _: None)
    assert tool() == "python -m tausearch"
    (tmp_path / "my bin").mkdir()
    (tmp_path / "my bin" / "tausearch").touch()
    assert tool() == "'my bin/tausearch'"
    monkeypatch.setattr(commands.shutil, "which", lambda _: "/usr/bin/tausearch")
    assert tool() == "tausearch"


def test_a_command_names_another_storage_and_code_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_option("tausearch-runs") == storage_option(tmp_path / "tausearch-runs") == ""
    assert storage_option("my runs") == " --storage 'my runs'"
    for name in ("b.c:D", "a:B"):
        allow_code(name)
    assert (
        code_option("b.c:D?tasks=2", "digits", "folder:/x:y", "a:B", "b.c:D") == " --allow-code b.c:D --allow-code a:B"
    )


def test_commands_that_are_advised_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "tool", lambda: "tausearch")
    assert commands.address_option("my head:6379") == " --address 'my head:6379'"
    assert commands.campaign_command("my file.yaml", " --storage s", ["a:B", "digits"], " -q") == (
        "tausearch campaign run 'my file.yaml' --storage s --allow-code a:B -q"
    )
    said = [commands.sync_advice("x-1", "no answer", " --storage s", is_run=is_run) for is_run in (True, False)]
    assert said[0].endswith("(no answer); once MLflow answers: tausearch runs sync x-1 --storage s")
    assert said[1].endswith(": tausearch runs sync --storage s")  # of a campaign all runs, then its tables


@pytest.mark.parametrize(
    ("loaded", "terminal", "said"),
    [({"torch": None}, True, ""), ({}, True, "loading torch and Ray ...\n"), ({}, False, "")],
)
def test_libraries_are_said_to_be_loaded_where_they_are_not(
    loaded: dict[str, None], terminal: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(text, "sys", SimpleNamespace(stderr=screen, modules=loaded))
    text.say_loading()
    assert screen.getvalue() == said


def test_a_bar_counts_every_image_and_has_no_end_where_none_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(bars, "SafeConsole", lambda file: SafeConsole(file=screen, force_terminal=True, width=80))
    with bars.LongWork() as work:
        for total in (40, 0):
            work.start("images of [/b]", total)(32)
        assert [(task.completed, task.total) for task in work._bars.tasks] == [(32, 40), (32, None)]
    assert "images of [/b] " in screen.getvalue()


@pytest.mark.parametrize(("total", "shown"), [(40, "10/40 | 0:20 elapsed, 1:00 left"), (0, "10 | 0:20 elapsed")])
def test_long_work_is_a_line_now_and_then(
    total: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    with bars.LongWork() as work:
        tick = work.start("files", total)
        for after, count in ((114.0, 4), (120.0, 6), (134.0, 7), (135.0, 1)):
            now[0] = after
            tick(count)
    assert capsys.readouterr().err.splitlines()[0] == f"files: {shown}"
    now[0] = 136.0
    tick(1)
    assert capsys.readouterr().err == ""  # the last line was a second ago


def test_a_notebook_shows_nothing_of_long_work_and_what_is_written_to_a_file_is_in_that_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)  # as a kernel's says
    monkeypatch.setattr(bars.time, "monotonic", iter(range(0, 1000, 100)).__next__)
    with bars.LongWork() as work:
        work.start("files", 2)(1)
    SafeConsole(file=sys.stdout).print("ours")
    assert capsys.readouterr() == ("ours\n", "")


@pytest.mark.parametrize(("screen_is", "other"), [("stdout", "err"), ("stderr", "out")])
def test_what_libraries_print_goes_to_the_log_and_ours_to_the_screen(
    screen_is: str, other: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with output_to(log, screen_is) as screen:  # type: ignore[arg-type]
        os.write(1, b"one\n")
        os.write(2, b"two\n")
        screen.write("ours\n")
    os.write(1, b"after\n")
    printed = capfd.readouterr()
    assert log.read_text() == "before\none\ntwo\n"
    assert (printed.out, printed.err) == (("ours\nafter\n", "") if other == "err" else ("after\n", "ours\n"))


@pytest.mark.parametrize(("opened", "told"), [(os.pipe, [True]), (os.openpty, [])])
def test_a_screen_that_nobody_reads_any_more_goes_nowhere_and_a_pipe_is_told_once(
    opened: Callable[[], tuple[int, int]], told: list[bool], tmp_path: Path
) -> None:
    closed: list[bool] = []
    reading, writing = opened()
    before = [os.dup(fd) for fd in (1, 2)]
    for fd in (1, 2):
        os.dup2(writing, fd)
    os.close(writing)
    try:
        with output_to(tmp_path / "log", closed=lambda: closed.append(True)) as screen:
            os.close(reading)
            for _ in range(2):
                screen.write("ours\n")
                screen.flush()
        for fd in (1, 2):
            os.write(fd, b"after\n")
    finally:
        for fd, each in zip((1, 2), before, strict=True):
            os.dup2(each, fd)
            os.close(each)
    assert closed == told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_beneath_the_log_keeps_nothing_off_the_screen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(1, "w", closefd=False) as stdout:  # buffered, as in a process of its own
        monkeypatch.setattr(sys, "stdout", stdout)
        with output_to(Path("/dev/full")) as screen:
            screen.write("ours\n")
            print("a library's")
        os.write(1, b"after\n")
        stdout.flush()
    assert capfd.readouterr().out.startswith("ours\nafter\n")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "stopped by SIGTERM"),
        (signal.SIGUSR1, "stopped by SIGUSR1"),
        (signal.SIGPIPE, "stopped, as its output was closed"),
    ],
)
def test_the_signal_that_stopped_a_run_has_words(number: int, said: str) -> None:
    assert stopped_words(number) == said


def test_what_goes_nowhere_is_on_neither_stream(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with output_to(tmp_path / "log", "nowhere") as screen:
        screen.write("ours\n")
        os.write(1, b"one\n")
    print("ours", file=stream_of("nowhere"))
    assert capfd.readouterr() == ("", "") and (tmp_path / "log").read_text() == "one\n"
    assert (stream_of("stdout"), stream_of("stderr")) == (sys.stdout, sys.stderr)


def test_what_libraries_print_to_the_streams_of_a_notebook_goes_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.getLogger("ray"), "handlers", [handler])
    with output_to(tmp_path / "log", "nowhere"):
        print("out")
        print("err", file=sys.stderr)
        handler.emit(logging.makeLogRecord({"msg": "ray"}))
    assert capsys.readouterr() == ("", "") and (tmp_path / "log").read_text() == "out\nerr\nray\n"
    handler.emit(logging.makeLogRecord({"msg": "later"}))
    assert capsys.readouterr().err == "later\n"


def test_a_log_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    with umask(0o002), output_to(tmp_path / "log"):
        pass
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o664
