"""A person at a terminal: commands in this process, and all that they print and leave behind, as text.

What differs from one machine or minute to the next is left out: paths, times, versions and the last digits of numbers.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

from tausearch.cli import main
from tausearch.runs import Storage
from tests.support.command_line import get_command
from tests.support.described_figures import patch_figures

_LEFT_OUT = (
    (r"mlflow\.(user|source\.git\.commit) = .*", r"mlflow.\1"),
    (r"\d+:\d\d elapsed(, about \d+:\d\d left)?", "TIME elapsed"),
    (r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:\d\d|Z)?( UTC)?", "DATE"),
    (r"\d+\.\d [kM]B", "SIZE"),
    (r"created: [\d.]+", "created: TIME"),
    (r'"disk": \d+', '"disk": SIZE'),  # has the digits of that time
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"(tausearch|torch|timm|peft|version)(\"?: \"?| )\d+\.\d+\.\d+[\w.+]*", r"\1\2VERSION"),
    (r"\b[0-9a-f]{40}\b|\b[0-9a-f]{64}\b", "DIGEST"),
)


class Terminal:
    """Commands in a folder of their own, which becomes the working folder.

    Attributes:
        transcript: Each command with what it printed; lines of stderr begin with `! `.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.storage = Storage(folder / "runs")
        self.transcript = ""
        patch.chdir(folder)
        patch_figures(patch)
        patch.setattr("tausearch.reports.html.page._packed_plotly", lambda: "plotly.js")
        patch.setattr("tausearch.runs.search_analysis._RESAMPLES", 3)
        patch.setattr("typer.main.get_command", get_command)
        patch.setattr(sys, "argv", ["tausearch"])
        patch.setattr("tausearch.presentation.terminal.commands.shutil.which", lambda name: name)
        for name, value in {"COLUMNS": "180", "TAUSEARCH_STORAGE": "runs", "NO_COLOR": "1"}.items():
            patch.setenv(name, value)
        for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "TAUSEARCH_DATA", "TAUSEARCH_EXPORT"):
            patch.delenv(name, raising=False)

    def __call__(self, command: str, code: int = 0) -> str:
        """Call `tausearch` with the words of a command; returns stdout."""
        sys.argv[1:] = shlex.split(command)
        with TemporaryFile() as out, TemporaryFile() as err:
            with _written_to((out, err)):
                got = _exit_code()
            printed, said = (_text(file) for file in (out, err))
        self.add(f"$ tausearch {command}\n{printed}{_marked(said)}\n")
        assert got == code, printed + said
        return printed

    def add(self, text: str) -> None:
        """Add a text to the transcript."""
        self.transcript += self._settled(text)

    def add_files(self, name: str, folder: Path) -> None:
        """Add the names of all files in a folder."""
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        self.add("\n".join([f"files of {name}:", *files]) + "\n\n")

    def add_text_of(self, files: Iterable[Path]) -> None:
        """Add the texts of files. A figure is one, too."""
        for file in files:
            self.add(f"{file.relative_to(self.folder)}:\n{file.read_text(encoding='utf-8')}\n")

    def add_run(self, name: str) -> None:
        """Add what a run has left behind: the names of its files, its specification, its choice and its figures."""
        directory = self.storage.run(name)
        self.add_files(name, directory.path)
        texts = (directory.spec_file, directory.best_file, directory.results_file)
        texts = (*texts, directory.tasks_file, *sorted(directory.figures.glob("*.png")))
        self.add_text_of(file for file in texts if file.exists())

    def _settled(self, text: str) -> str:
        text = re.sub(r"/\S*/unfinished-\w+", "HERE", text.replace(str(self.folder), "HERE"))
        for pattern, word in _LEFT_OUT:
            text = re.sub(pattern, word, text)
        lines = (line.rstrip() for line in re.sub(r"\d+\.\d{6,}(e-?\d+)?", _rounded, text).splitlines())
        return "\n".join(lines) + "\n"


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.5g}"


def _exit_code() -> int:
    try:
        main()
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


@contextmanager
def _written_to(files: Sequence[IO[bytes]]) -> Iterator[None]:
    """Send stdout and stderr to two files, also what is written to their file descriptors, as progress is."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for number, (name, file) in enumerate(zip(("stdout", "stderr"), files, strict=True), start=1):
            stack.callback(_put_back, os.dup(number), number)
            os.dup2(file.fileno(), number)
            stream = stack.enter_context(open(number, "w", encoding="utf-8", closefd=False))
            patch.setattr(sys, name, stream)
        yield


def _put_back(kept: int, number: int) -> None:
    os.dup2(kept, number)
    os.close(kept)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _marked(text: str) -> str:
    return "".join(f"! {line}\n" for line in text.splitlines())
