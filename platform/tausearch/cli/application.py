"""The application: its commands, and what every error becomes."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from checked_input.text_files import printable
from tausearch.cli import compose, export, launch, look  # noqa: F401  # their commands register themselves
from tausearch.cli.campaign import campaign_app
from tausearch.cli.data import data_app, list_app
from tausearch.cli.options import app
from tausearch.cli.runs import runs_app
from tausearch.presentation import released_stdout
from tausearch.runs import RunError
from trainables.errors import InputError

_NUMBERS = ("--seeds", "--class-orders", "--keep", "--drop", "--weights")
_NUMBER = re.compile(r"-?[0-9.,]+")

for name, group in {"campaign": campaign_app, "data": data_app, "list": list_app, "runs": runs_app}.items():
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line; every error that the user can mend is one line and exit code 2."""
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be no text, and a terminal may lack letters
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.simplefilter("ignore", FutureWarning)  # libraries tell them to callers, not to users
    try:
        require_commas(sys.argv[1:])
        refuse_dry_campaign(sys.argv[1:])
        _require_working_folder()
        with released_stdout():
            app(prog_name="tausearch", standalone_mode=True)
    except RunError as error:
        _end(error, 1)
    except InputError as error:
        _end(error, 2)
    except OSError as error:  # a folder or file that cannot be read or written, or has just gone
        where = "" if error.filename is None else f"{error.filename}: "
        # No name of ours is too long, or a loop of links.
        given = error.errno in (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
        _end(OSError(f"{where}{error.strerror or error}"), 2 if given else 1)


def _open_closed() -> None:
    """Open the null device for outputs that are closed, because libraries ask outputs what they are."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # until the process ends


def _require_working_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError("the folder that this was started in no longer exists") from error


def _end(error: Exception, code: int) -> NoReturn:
    for fault in error.args:
        print("tausearch:", printable(" ".join(str(fault).split())), file=sys.stderr)  # file names may have line breaks
    sys.exit(code)


def require_commas(arguments: Sequence[str]) -> None:
    """Refuse lists with blanks: of `--seeds 0 1`, the parser would take the 1 as a run."""
    for place, option in enumerate(arguments):
        after = list(takewhile(lambda word: not word.startswith("--"), arguments[place + 1 :]))
        if option in _NUMBERS:
            after = list(takewhile(_NUMBER.fullmatch, after))
        elif option != "--warm-start" or any(word.startswith("-") for word in arguments[:3]):
            continue  # the words after it may be the benchmark and the method
        if len(after) > 1:
            one = ",".join(word.strip(",") for word in after)
            raise InputError(f"{option} {' '.join(after)}: write several values with commas: {option} {one}")


def refuse_dry_campaign(arguments: Sequence[str]) -> None:
    """Refuse `campaign run --dry-run`, which other commands have, with the command that says what would run."""
    if list(arguments[:2]) == ["campaign", "run"] and "--dry-run" in arguments:
        raise InputError("campaign run: has no --dry-run; tausearch campaign plan FILE says what would run")
