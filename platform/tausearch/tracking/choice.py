"""Which trackers and callbacks a run has: the options `--tracking`, `--tracking-uri` and `--callback`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from typing import get_args

from checked_input.text_files import shown
from tausearch.runs import TrackerName
from tausearch.tracking.secrets import without_secrets
from trainables.errors import InputError

NO_TRACKERS = "none"
TRACKERS: tuple[TrackerName, ...] = get_args(TrackerName)


def checked_tracking(text: str | None) -> tuple[TrackerName, ...] | None:
    """Return the trackers that `--tracking` names, which must be installed; None where it is not given."""
    if text is None:
        return None
    names = [] if text == NO_TRACKERS else [each.strip() for each in text.split(",")]
    if any(name not in TRACKERS for name in names):
        raise InputError(
            f"--tracking must be {NO_TRACKERS}, or one or more of {', '.join(TRACKERS)} with commas between them,"
            f" got {shown(text)}"
        )
    chosen = tuple(name for name in TRACKERS if name in names)
    require_installed(chosen)
    return chosen


def require_installed(trackers: Sequence[TrackerName]) -> None:
    """Refuse trackers whose packages are not installed, and say how to get them."""
    if "tensorboard" in trackers and find_spec("tensorboard") is None:
        raise InputError("--tracking tensorboard: needs a package: pip install 'tausearch[tensorboard]'")


def tracking_text(trackers: Sequence[TrackerName] | None) -> str | None:
    """Return the text from which `checked_tracking` reads trackers; None for None."""
    return None if trackers is None else ",".join(trackers) or NO_TRACKERS


def tracking_options(callbacks: Sequence[object], tracking: str | None, uri: str | None) -> str:
    """Return the options of a command for the command that continues its runs, such as ` --tracking none`.

    Callbacks that have a name are repeated; an object of a Python session has none. A password is not.
    """
    given = [("callback", each) for each in callbacks if isinstance(each, str)]
    given += [("tracking", tracking)] if tracking is not None else []
    given += [("tracking-uri", without_secrets(uri))] if uri is not None else []
    return "".join(f" --{option} {shlex.quote(value)}" for option, value in given)
