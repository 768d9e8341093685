"""Ctrl-C and SIGTERM, which a search answers with one line, a run that can be resumed and no process left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tausearch.runs import Record, Storage
from tests.support.drivers.searches import run_here

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.mark.parametrize(
    ("number", "said", "slots"),
    [
        (signal.SIGINT, "interrupted", 1),
        pytest.param(signal.SIGTERM, "stopped by SIGTERM", 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, "stopped by SIGUSR1", 1, marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_or_sigterm_leaves_a_readable_run_and_no_process(
    number: int, said: str, slots: int, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = f"stopped-{number}"
    process = _start(
        "finetune",
        "--trials",
        "50",
        "--max-concurrent-trials",
        str(slots),
        "--name",
        name,
        folder=folder,
    )
    record = Record(_storage(folder).run(name).record)
    deadline = time.monotonic() + 400
    while not any(trial.rows for trial in record.trials()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.5)
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)  # as a terminal and Slurm do: to every process of the job
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 128 + number, out
    assert "Traceback" not in out and said in out and f"resume {name}" in out
    psutil.wait_procs(children, timeout=60)
    assert [child for child in children if _alive(child)] == []
    found: dict[str, Any] = json.loads(run_here("status", name, "--format", "json", cwd=folder, capture=capfd))
    assert found["state"] == "stopped"
    assert found["counts"]["pending"] >= 48 and sum(found["counts"].values()) == 50


EARLY = [
    ("log.txt", signal.SIGINT),
    ("driver.lock", signal.SIGINT),
    ("log.txt", signal.SIGTERM),
    ("ray", signal.SIGTERM),
]


@pytest.mark.parametrize(
    ("moment", "number"),
    [("ray", signal.SIGINT), *(pytest.param(*moment, marks=pytest.mark.slow) for moment in EARLY)],
)
def test_ctrl_c_or_sigterm_at_the_start_is_one_line(
    moment: str, number: int, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = f"early-{moment.replace('.', '-')}-{number}"
    process = _start("joint", "--trials", "4", "--max-concurrent-trials", "1", "--name", name, folder=folder)
    deadline = time.monotonic() + 400
    while not (_storage(folder).run(name).path / moment).exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    # A terminal sends Ctrl-C to every process in the foreground; Kubernetes sends SIGTERM to the driver.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 128 + number, out
    said = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    stuck = "" if number == signal.SIGINT else r"( Ray did not answer.*;)?"  # on a busy machine it may take too long
    early = "( while Ray started; nothing that was finished is lost)?"
    assert "Traceback" not in out
    assert re.search(rf"{said}{early};{stuck} continue with: \S*tausearch resume {name}\n", out), out
    psutil.wait_procs(children, timeout=60)
    assert [child for child in children if _alive(child)] == []
    found = json.loads(run_here("status", name, "--format", "json", cwd=folder, capture=capfd))
    assert found["counts"]["pending"] == 4


def _start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Start a search on digits in a process group of its own."""
    command = [sys.executable, "-m", "tausearch", "search", "digits", *arguments]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=both, text=True, start_new_session=True)


def _storage(folder: Path) -> Storage:
    return Storage(folder / "tausearch-runs")


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
