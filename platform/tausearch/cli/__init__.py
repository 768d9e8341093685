"""The command line: parse, call, print."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with a line, from the first import on.

    A command that drives a run handles Ctrl-C itself.
    """
    try:
        from tausearch.cli.application import main as run  # takes half a second to import

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)  # as a shell reports a process that Ctrl-C has ended


__all__ = ["main"]
