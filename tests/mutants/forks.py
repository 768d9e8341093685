"""Work in a fork of this process, which has everything imported already."""

from __future__ import annotations

import os
import pickle
import resource
import signal
from collections.abc import Callable
from typing import Any

OUT_OF_TIME = "out of time"


def in_fork(work: Callable[[], Any], cpu_seconds: float | None = None) -> Any:
    """Return the result of `work` from a fork without standard output, or `OUT_OF_TIME` after the CPU seconds.

    Raises:
        RuntimeError: If the fork ended without an answer.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _work_and_exit(work, write, cpu_seconds)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}:
        return OUT_OF_TIME
    if not answer:
        raise RuntimeError(f"a fork ended with status {status} and no answer")
    return pickle.loads(answer)


def _work_and_exit(work: Callable[[], Any], write: int, cpu_seconds: float | None) -> None:
    try:
        if cpu_seconds is not None:
            limit = int(cpu_seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(work(), pipe)
    finally:
        os._exit(0)
