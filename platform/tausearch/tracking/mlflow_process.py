"""A process that writes to MLflow for a driver: in the driver's own interpreter MLflow would delay the trials."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from tausearch.runs import Conclusion, RunSpec, Storage, TrialSummary
from tausearch.tracking.benchmark_tags import log_benchmark_table
from tausearch.tracking.mlflow_run import MlflowRun
from tausearch.tracking.mlflow_store import reason
from tausearch.tracking.secrets import LOGIN, remember, with_secrets

_SERVE = f"from {__name__} import serve; serve()"
_logging_in = threading.Lock()  # the driver sets the login of one server, and then that of another
_writing = threading.Lock()  # SQLite takes one writer at a time, and those who wait in it wait longer than here


class MlflowProcess:
    """Starts the process, which imports MLflow at once. It ends with this object, or with the process that made it.

    It is for one tracking store: MLflow reads the login of a server from variables of the whole process.
    """

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # the first run that is opened says why
            self._start()

    def open(self, spec: RunSpec, storage: Storage, uri: str) -> RemoteRun:
        """Open a run as `MlflowRun` does, for one thread. After an `OSError` the next call starts another process."""
        run = self._connected(uri)
        run.ask("open", spec, storage, uri)
        return run

    def log_benchmark_table(self, storage: Storage, uri: str, *table: Any) -> str:
        """Call the function of this name there; the driver need not import MLflow. For errors see `open`."""
        return str(self._connected(uri).ask("log_benchmark_table", storage, uri, *table))

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            # In a session of its own, as the driver may write after a signal of the terminal.
            command = [sys.executable, "-P", "-c", _SERVE]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)
        weakref.finalize(self, _end, self._process)

    def _connected(self, uri: str) -> RemoteRun:
        """Return a new connection to the process, which has been given the driver's variables and the whole address."""
        with _logging_in:
            full_uri = with_secrets(uri)
            variables = dict(os.environ)
        run = RemoteRun(self._connection())
        run.ask("take_over", variables, full_uri, uri)
        return run

    def _connection(self) -> Connection:
        """Send the process one end of a new connection; returns the other."""
        ours, theirs = socket.socketpair()
        with theirs, self._opening:
            if self._process is None or self._process.poll() is not None:
                self._start()
            socket.send_fds(self._socket, [b"."], [theirs.fileno()])
        return Connection(ours.detach())


class RemoteRun:
    """An `MlflowRun` in the other process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.changes = 0

    def write(self, trial: TrialSummary) -> None:
        """Write what MLflow lacks of a trial."""
        self.ask("write", trial)

    def conclude(self, status: str, conclusion: Conclusion) -> None:
        """End the parent run, as `MlflowRun` does."""
        self.ask("conclude", status, conclusion)

    def ask(self, name: str, *arguments: object) -> object:
        """Call a method there. Raises `ConnectionError` if the process was killed, `RuntimeError` if MLflow refuses."""
        try:
            self._connection.send((name, arguments))
            answer, self.changes, error = self._connection.recv()
        except (EOFError, ConnectionError):
            raise ConnectionError("the process that writes to MLflow was killed") from None
        if error is not None:
            raise RuntimeError(error)
        return answer


def serve() -> None:
    """Open and write runs for the process that started this one, until it ends."""
    for number in (signal.SIGTERM, signal.SIGUSR1):  # a scheduler sends them to all processes of a job
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=import_module, args=("mlflow",), daemon=True).start()
    driver = socket.socket(fileno=sys.stdin.fileno())
    while received := socket.recv_fds(driver, 1, 1)[1]:
        threading.Thread(target=_serve_run, args=(Connection(received[0]),), daemon=True).start()
    os._exit(0)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _serve_run(connection: Connection) -> None:
    served = _ServedRun()
    with suppress(EOFError, ConnectionError):  # the driver needs the run no longer
        while True:
            connection.send(served.answer(*connection.recv()))


class _ServedRun:
    def __init__(self) -> None:
        self._run: MlflowRun | None = None
        self._turn: AbstractContextManager[object] = nullcontext()

    def answer(self, name: str, arguments: tuple[Any, ...]) -> tuple[object, int, str | None]:
        """Call a method; returns its answer, the number of changes so far, and why MLflow refused, None if not."""
        answer, error = None, None
        with self._turn:
            try:
                answer = getattr(self._run or self, name)(*arguments)
            except Exception as raised:
                error = reason(raised)
            return answer, (0 if self._run is None else self._run.changes), error

    def take_over(self, variables: dict[str, str], full_uri: str, uri: str) -> None:
        for name in set(LOGIN) - variables.keys():
            os.environ.pop(name, None)
        os.environ.update(variables)  # those of the driver may have changed
        remember(full_uri, uri)
        self._turn = _writing if uri.startswith("sqlite") else nullcontext()

    def open(self, spec: RunSpec, storage: Storage, uri: str) -> None:
        self._run = MlflowRun(spec, storage, uri)

    def log_benchmark_table(self, storage: Storage, uri: str, *table: Any) -> str:
        return log_benchmark_table(storage, uri, *table)
