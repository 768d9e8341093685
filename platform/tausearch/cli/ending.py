"""End a command that was stopped or failed: a line on stderr, and the exit code."""

import signal
import sys
from typing import NoReturn


def end_interrupted() -> NoReturn:
    """Print a line and exit with the code that shells use for Ctrl-C."""
    print("interrupted", file=sys.stderr)
    sys.exit(128 + signal.SIGINT)


def leave(number: int | None, out_of_time: bool, resume_command: str, succeeded: bool) -> None:
    """End a command whose runs were stopped or failed.

    Args:
        number: The signal that stopped the runs, if one did.
        out_of_time: Whether the time budget stopped them.
        resume_command: The command that continues them.
        succeeded: Whether the runs have the results that were asked for.
    """
    if number is not None:
        how = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
        print(f"{how}; continue with: {resume_command}", file=sys.stderr)
        sys.exit(128 + number)  # as a shell reports a process that a signal has ended
    if out_of_time:
        print(f"the time budget is used up; continue with: {resume_command}", file=sys.stderr)
    if not succeeded:
        sys.exit(1)
