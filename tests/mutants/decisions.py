"""Try the wrong decisions of `decisions.csv`, each with its test: `python -m tests.mutants.decisions`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from unittest import mock

import pytest

from tests.mutants.forks import in_fork
from tests.mutants.reach import OPTIONS
from tests.mutants.targets import ROOT

FILE = Path(__file__).with_name("decisions.csv")
LIBRARIES = (
    *("torch", "optuna", "pandas", "pyarrow.parquet", "ray.tune", "mlflow"),
    *("matplotlib.pyplot", "plotly", "timm"),
)
"""What takes seconds to import, and starts no thread that a fork would lack."""


def main(pattern: str = "*") -> None:
    """Print of each change in the files that fit a pattern whether its test notices it now."""
    with FILE.open(newline="", encoding="utf-8") as file:
        changes = [row for row in csv.DictReader(file) if row["by"] and fnmatch(row["file"], pattern)]
    for name in LIBRARIES:
        import_module(name)
    for change in changes:
        print(f"{_outcome(change)}: {change['file']}: {change['wrong']}", flush=True)


def _outcome(change: Mapping[str, str]) -> str:
    path = ROOT / change["file"]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(change["before"]) != 1:
        return "does not fit the code any more"
    changed = text.replace(change["before"], change["after"])
    code = in_fork(lambda: _run(change["by"], path, changed))
    return "noticed" if code == pytest.ExitCode.TESTS_FAILED else f"MISSED (pytest ended with {code!s})"


def _run(test: str, path: Path, changed: str) -> int:
    """Run a test while a module has a changed text; nothing of the project is imported before."""
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if Path(loader.path).resolve() == path.resolve():
            return compile(changed, path, "exec", dont_inherit=True)
        return plain(loader, name)

    with mock.patch.object(SourceFileLoader, "get_code", get_code):
        return int(pytest.main(["-x", *OPTIONS, test]))


if __name__ == "__main__":
    main(*sys.argv[1:])
