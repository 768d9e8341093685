"""Read the commands and the Python of a tutorial from its page, and run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.imports import ROOT

ONE_AT_A_TIME = ("--max-concurrent-trials", "1")  # a process less imports torch; tests/test_notebooks.py has several

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(name: str) -> list[tuple[str, str]]:
    """The kind and the text of each block of a page that is to be run, in order."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    return [(kind or "shell", text) for kind, text in _BLOCK.findall(page) if kind != "text"]


def run(command: list[str], cwd: Path) -> str:
    own = {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])}
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def follow(line: str, cwd: Path, call: Callable[..., str], *more: str) -> str:
    """Run a line of a shell block, of Python or of the tool, which `call` calls, with more arguments than it has."""
    program, *arguments = shlex.split(line)
    return run([sys.executable, *arguments], cwd) if program == "python" else call(*arguments, *more)
