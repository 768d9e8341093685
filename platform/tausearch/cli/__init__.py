"""The command line: parse, call, print."""

from tausearch.cli.main import main

__all__ = ["main"]
