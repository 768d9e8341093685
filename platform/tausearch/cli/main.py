"""The application: its commands, and what every error becomes."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tausearch.cli import compose, launch, look, manage  # noqa: F401  # their commands register themselves
from tausearch.cli.campaign import campaign_app
from tausearch.cli.data import data_app
from tausearch.cli.options import app
from tausearch.runs import StorageError
from trainables.errors import InputError

app.add_typer(campaign_app, name="campaign")
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command line; every error that the user can mend is one line and exit code 2."""
    sys.argv[1:] = _join_seeds(sys.argv[1:])
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where MODULE:NAME is found; Ray hands the path on to its workers
    try:
        app(standalone_mode=True)
    except StorageError as error:
        _end(error, 1)
    except InputError as error:
        _end(error, 2)
    except ValueError as error:
        from search_spaces import SpaceError  # pydantic takes a moment to import

        if not isinstance(error, SpaceError):
            raise
        _end(error, 2)


def _end(error: Exception, code: int) -> NoReturn:
    print(f"tausearch: {error}", file=sys.stderr)
    sys.exit(code)


def _join_seeds(arguments: list[str]) -> list[str]:
    """Let `--seeds 0 1 2` take several values, which the option parser does not."""
    if "--seeds" not in arguments:
        return arguments
    start = arguments.index("--seeds") + 1
    end = start
    while end < len(arguments) and arguments[end].lstrip("-").isdigit():
        end += 1
    return [*arguments[:start], " ".join(arguments[start:end]), *arguments[end:]] if end > start else arguments
