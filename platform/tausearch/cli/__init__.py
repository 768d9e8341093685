"""The command line: parse, call, print."""

from tausearch.cli.exit_codes import end_interrupted, run_as_process
from tausearch.execution import Interrupt


def main() -> None:
    """Run the command line; Ctrl-C ends it with a line, from the first import on.

    A command that drives a run handles Ctrl-C itself.
    """
    try:
        from tausearch.cli.application import main as run  # takes half a second to import

        run()
    except KeyboardInterrupt:
        end_interrupted()


def process() -> None:
    """Be the process `tausearch`: run the command line, and end."""
    Interrupt.alone = True
    run_as_process(main)


__all__ = ["main", "process"]
