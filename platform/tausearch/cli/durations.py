"""Durations on the command line: `90s`, `45m`, `12h`, `2d`."""

from __future__ import annotations

import re

from search_spaces.text_files import shown
from trainables.errors import InputError

_NUMBER = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str | None) -> float | None:
    """Read the duration of `--time-budget`, in seconds; None stays None.

    Returns:
        The seconds.

    Raises:
        InputError: If it is not a positive number with a unit.
    """
    if text is None:
        return None
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not _NUMBER.fullmatch(number):
        raise InputError(f"--time-budget must be a number and s, m, h or d, such as 90m, got {shown(text)}")
    return float(number) * unit
