"""Call the command line in this process, for commands that are refused or only read."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import pytest
import typer

from tausearch.cli import main

Ask = Callable[..., tuple[int, str, str]]  # words of a command to exit code, stdout and stderr
Command = Callable[..., tuple[str, str]]  # words, and `code=` the expected exit code, to stdout and stderr
get_command = functools.cache(typer.main.get_command)  # typer builds all commands anew for each call, in 50 ms


def run(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """Call the command line in this process; Ray must not be started."""
    monkeypatch.setattr(sys, "argv", ["tausearch", *arguments])
    monkeypatch.setattr("typer.main.get_command", get_command)
    monkeypatch.setattr("ray.init", lambda *a, **k: pytest.fail("Ray was started"))
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    return code, out, err
