"""End a command: a line on stderr where it was stopped or failed, the exit code, and the process."""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

_UNREAD = 128 + signal.SIGPIPE  # as a shell reports a process that wrote to an output that nobody reads any more


def run_as_process(command: Callable[[], None]) -> None:
    """Run a command as the only work of this process, which ends soon after it.

    At its end Python takes every imported module apart. With torch, Ray and MLflow this takes two seconds, in which
    the user waits for the prompt. The process ends before that, after everything registered with `atexit`.

    Raises:
        SystemExit: If the command raises it, or writes to an output that nobody reads any more, as after `| head`.
    """
    code = 1  # of an error that nobody caught
    atexit.register(lambda: _end_process(code))  # the first that is registered is the last that is called
    try:
        command()
        code = 0
    except BrokenPipeError:
        code = _UNREAD
        raise SystemExit(code) from None
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer and rich end with 1
            code = _UNREAD
            raise SystemExit(code) from None
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise


def _end_process(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        os._exit(code or _UNREAD)
    except OSError:  # a full disk, which Python reports as it ends
        return
    os._exit(code)


def end_interrupted() -> NoReturn:
    """Print a line and exit with the code that shells use for Ctrl-C."""
    print("interrupted", file=sys.stderr)
    sys.exit(128 + signal.SIGINT)


def leave(number: int | None, out_of_time: bool, resume_command: str, succeeded: bool) -> None:
    """End a command whose runs were stopped or failed; `succeeded` says whether they have what was asked for.

    `number` is the signal that stopped the runs, `resume_command` continues them.
    """
    if number is not None:
        from tausearch.presentation import stopped_words  # rich takes a while to import; --help must not

        print(f"{stopped_words(number)}; continue with: {resume_command}", file=sys.stderr)
        sys.exit(128 + number)  # as a shell reports a process that a signal has ended
    if out_of_time:
        print(f"the time budget is used up; continue with: {resume_command}", file=sys.stderr)
    if not succeeded:
        sys.exit(1)
