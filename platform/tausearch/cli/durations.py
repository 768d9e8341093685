"""Durations on the command line: `90s`, `45m`, `12h`, `2d`."""

from __future__ import annotations

import math

from trainables.errors import InputError

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
    try:
        found = float(number) * (unit or math.nan)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise InputError(f"--time-budget must be a number and s, m, h or d, such as 90m, got {text!r}")
    return found
