"""What is wrong with a campaign's cells, in words of the campaign's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checked_input.names import counted
from tausearch.cluster import AddressFault
from trainables.errors import InputError

_OPTION = re.compile(r"--([a-z][a-z-]*)")
_OF_THE_COMMAND = ("tracking", "tracking-uri", "callbacks", "max-concurrent-trials", "time-budget")  # not of the file


def of_cells(fault: str, file: str | Path, titles: Sequence[str]) -> str:
    """Return the message of a fault that some cells of a file have; one of the command's own options is not theirs."""
    option = _OPTION.match(fault)
    if isinstance(fault, AddressFault) or (option and option[1] in _OF_THE_COMMAND):
        return fault
    more = f" (and {counted(len(titles) - 1, 'more cell')})" if len(titles) > 1 else ""
    return f"campaign file {file}: {titles[0]}: {fault}{more}"


@contextmanager
def at_place(section: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Say of the options that a file gives where they stand in it: `search.trials 500` for `--trials 500`."""

    def placed(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return f"{section}.{name}" if name in given else option[0]

    def in_file(fault: str) -> str:
        if isinstance(fault, AddressFault) or not _OPTION.match(fault):
            return fault
        head, *rest = fault.partition(": ")
        return "".join([_OPTION.sub(placed, head), *rest])

    try:
        yield
    except InputError as error:
        raise InputError(*map(in_file, error.args)) from error
