"""Keep what libraries print off the screen: while a search runs, it goes to the run's log file."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Literal, TextIO

from tausearch.presentation.terminal.text import in_notebook

_GONE = (errno.EPIPE, errno.EIO)  # a pipe that nobody reads any more, a terminal that was closed

Stream = Literal["stdout", "stderr", "nowhere"]


def stream_of(name: Stream) -> TextIO:
    """Return the stream of that name as it is now; what goes `nowhere` is not kept."""
    return {"stdout": sys.stdout, "stderr": sys.stderr}.get(name) or io.StringIO()


class _Screen(io.TextIOWrapper):
    """A stream for people that calls `lost` where nobody reads it any more, as after `| head`, and then goes on."""

    def __init__(self, fd: int, lost: Callable[[OSError], None]) -> None:
        super().__init__(os.fdopen(fd, "wb"), encoding="utf-8", errors="replace", line_buffering=os.isatty(fd))
        self._lost = lost

    def write(self, text: str) -> int:
        """Write a text."""
        try:
            return super().write(text)
        except OSError as error:
            self._lost(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            super().flush()
        except OSError as error:
            self._lost(error)
            super().flush()


@contextmanager
def output_to(
    log_file: Path, screen_is: Stream = "stdout", closed: Callable[[], None] = lambda: None
) -> Iterator[TextIO]:
    """Send everything that this process and its children write to stdout and stderr to a file.

    Ray's C++ parts write to the file descriptors themselves, so those are redirected, not only Python's streams.

    Args:
        log_file: The file that the output is appended to.
        screen_is: The stream that a person looks at.
        closed: Called once that stream is a pipe that nobody reads any more. What is written to it then goes nowhere,
            as does what is written to a terminal that was closed.

    Yields:
        A stream to the real stdout or stderr, or to nowhere.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(fd) for fd in (1, 2)]
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)  # less the umask
    seen = os.open(os.devnull, os.O_WRONLY) if screen_is == "nowhere" else os.dup(saved[screen_is == "stderr"])

    def lost(error: OSError) -> None:
        if error.errno not in _GONE:
            raise error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for fd in [fd for fd in (*saved, seen) if os.path.sameopenfile(fd, seen)]:
            os.dup2(nowhere, fd)
        os.close(nowhere)
        if error.errno == errno.EPIPE:  # who closes a terminal and lets the process live wants it to go on
            closed()

    screen = _Screen(seen, lost)
    try:
        for fd in (1, 2):
            os.dup2(log, fd)
        logging.captureWarnings(True)
        # It misses Tune's own result files after every run; ours is the record.
        logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.ERROR)
        with _kernel_streams_to(log_file):
            yield screen
    finally:
        logging.captureWarnings(False)
        for stream in (sys.stdout, sys.stderr, screen):
            with suppress(OSError):  # with a full disk beneath the log, too, what follows is said on the screen
                stream.flush()
        for fd, original in zip((1, 2), saved, strict=True):
            os.dup2(original, fd)
            os.close(original)
        os.close(log)
        screen.close()


@contextmanager
def _kernel_streams_to(log_file: Path) -> Iterator[None]:
    """Send to a file what goes to Python's streams in a notebook: they lead to the notebook by themselves."""
    if not in_notebook():
        yield
        return
    kernel = sys.stderr
    with log_file.open("a", encoding="utf-8", errors="replace") as log, redirect_stdout(log), redirect_stderr(log):
        _redirect_ray(log)
        try:
            yield
        finally:
            _redirect_ray(kernel)


def _redirect_ray(stream: TextIO) -> None:
    """Let Ray's log of this process go to a stream; its handler keeps the one that it was made with."""
    for handler in logging.getLogger("ray").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(stream)
