"""What is only shown is shown at once: importing torch and Ray takes seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tausearch.runs import Record, RunSpec, Storage
from tests.support.trials import make_trial


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
    assert not {"peft", "sklearn", "optuna", "mlflow"} & imported_after("import trainables.trial")


def test_who_starts_a_search_on_an_embedded_benchmark_builds_no_network() -> None:
    code = "import tausearch; tausearch.search; from trainables.backbones import Backbone as B; B().digest, B().input"
    assert not {"timm", "torchvision", "torch._dynamo", "matplotlib", "mlflow"} & imported_after(code)


def imported_by(*arguments: str) -> set[str]:
    """Modules that a command has imported when it ends."""
    run = "from tausearch.cli import main\ntry: main()\nexcept SystemExit as end: assert not end.code"
    return imported_after(run, *arguments)


def imported_after(code: str, *arguments: str) -> set[str]:
    """Modules that a process has imported when it has run `code`."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print('|'.join(sys.modules))", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split("|"))
