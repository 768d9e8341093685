"""What is only shown is shown at once: importing torch and Ray takes seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tausearch.files import Storage
from tausearch.record import Record
from tausearch.spec import RunSpec
from tests.tausearch.conftest import make_trial


def test_help_needs_neither_torch_nor_ray() -> None:
    assert not {"torch", "ray"} & imported_by("--help")


def test_status_needs_neither_torch_nor_ray(tmp_path: Path, spec: RunSpec) -> None:
    storage = Storage(tmp_path)
    directory = storage.run(spec.name)
    directory.path.mkdir()
    spec.save(directory)
    Record(directory.record).write(make_trial(0, value=70.0))
    assert not {"torch", "ray", "optuna", "scipy"} & imported_by("status", spec.name, "--storage", str(tmp_path))


def test_a_trial_needs_no_peft() -> None:
    code = "import sys, trainables.trial; print('|'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"peft", "sklearn", "optuna", "mlflow"} & set(done.stdout.split("|"))


def imported_by(*arguments: str) -> set[str]:
    """Modules that a command has imported when it ends."""
    code = (
        "import sys; from tausearch.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print('|'.join(sys.modules))"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split("|"))
