"""The end of a command that Ctrl-C stopped."""

import sys
from typing import NoReturn


def end_interrupted() -> NoReturn:
    """End the process with a line, and with the exit code by which a shell reports Ctrl-C."""
    print("interrupted", file=sys.stderr)
    sys.exit(130)
