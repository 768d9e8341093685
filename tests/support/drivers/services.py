"""Real servers for tests, on loopback and free ports: a tracking server, and PostgreSQL from Debian's packages."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.1)


class TrackingServer:
    """A `mlflow server` process that can be killed and started again on the same port."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        stores = ["--backend-store-uri", self.store, "--artifacts-destination", str(self.folder / "artifacts")]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "server.txt", "a") as log:
            self.process = subprocess.Popen(
                [*command, "--workers", "1", *stores],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        wait_until(self._answers, 240, f"{self.uri}; see {self.folder / 'server.txt'}")

    def start_again(self) -> None:
        """Start it unless it answers: one that was killed may not have come up at the first attempt."""
        if self.process is None or self.process.poll() is not None or not self._answers():
            self.start()

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        assert self.process is not None
        os.killpg(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(120)

    def _answers(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.folder / "server.txt").read_text()
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def tracking_server(folder: Path, store: str | None = None) -> Iterator[TrackingServer]:
    server = TrackingServer(folder, store or f"sqlite:///{folder / 'server.db'}")
    server.start()
    try:
        yield server
    finally:
        server.signal(signal.SIGKILL)


@contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL of its own with an empty database `mlflow`; yields its URI."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if not programs:
        pytest.skip("PostgreSQL is not installed; .ci/setup installs it where it may use apt")
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed; `make setup` installs it")
    folder, port = tempfile.mkdtemp(prefix="pg-"), free_port()
    data, bin_ = f"{folder}/data", os.path.dirname(programs[-1])
    as_owner: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]

    def run(*command: str) -> None:
        done = subprocess.run([*as_owner, *command], cwd="/", capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(f"{bin_}/initdb", "-D", data, "-U", "mlflow", "--auth=trust", "--encoding=UTF8", "--no-sync")
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
        run(f"{bin_}/pg_ctl", "-D", data, "-w", "-l", f"{folder}/log.txt", "-o", options, "start")
        try:
            run(f"{bin_}/createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow")
            yield f"postgresql+psycopg2://mlflow@127.0.0.1:{port}/mlflow"
        finally:
            run(f"{bin_}/pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
