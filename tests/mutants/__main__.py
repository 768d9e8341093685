"""Try mutants for a while, then write docs/explanation/how-we-know.md: `python -m tests.mutants --minutes 60`."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import time
from collections.abc import Iterator
from fnmatch import fnmatch

import pytest
import torch
from mutmut.configuration import config

from tests.mutants import page
from tests.mutants.reach import OPTIONS, Reached, reach_of
from tests.mutants.sources import Mutant, import_mutated, mutants_of
from tests.mutants.targets import ROOMS, Room
from tests.mutants.trying import keep, results, tests_for, try_mutant


def main() -> None:
    """Read the command line, try, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no mutant later")
    parser.add_argument("--modules", default="*", help="only modules whose name fits this pattern")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each module to try (0: all)")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    arguments = parser.parse_args()
    os.nice(5)
    torch.set_num_threads(1)
    config()  # of mutmut, read from pyproject.toml before a test changes the directory
    _try_all(arguments)
    page.write()


def _try_all(arguments: argparse.Namespace) -> None:
    ends = time.monotonic() + 60 * arguments.minutes
    import_mutated({module for room in ROOMS for module in room.sources()})
    for room in ROOMS:
        mutants = list(_wanted(room, arguments))
        if mutants and time.monotonic() < ends:
            reach = _prepare(room)
            _share(mutants, reach, room.test_files(), arguments.jobs, ends)


def _wanted(room: Room, arguments: argparse.Namespace) -> Iterator[Mutant]:
    """Yield the mutants of each module's fixed sample that have no result."""
    known = results()
    for module, source in room.sources().items():
        if not fnmatch(module, arguments.modules):
            continue
        mutants = mutants_of(module, source)
        random.Random(module).shuffle(mutants)
        for mutant in mutants[: arguments.sample or None]:
            if mutant.key not in known or (arguments.again and not known[mutant.key].killed):
                yield mutant


def _prepare(room: Room) -> dict[str, Reached]:
    """Import the tests of a room for all forks, and return what they reach."""
    pytest.main([*OPTIONS, "-qq", "--collect-only", *room.test_files()])
    text = "\n".join(file.read_text() for room in ROOMS for file in room.sources().values())
    return reach_of(room, hashlib.sha256(text.encode()).hexdigest())


def _share(mutants: list[Mutant], reach: dict[str, Reached], files: list[str], jobs: int, ends: float) -> None:
    """Share mutants among forks that run at the same time."""
    children = []
    for job in range(jobs):
        child = os.fork()
        if child == 0:
            try:
                _try_some(mutants[job::jobs], reach, files, ends)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _try_some(mutants: list[Mutant], reach: dict[str, Reached], files: list[str], ends: float) -> None:
    for n, mutant in enumerate(mutants, 1):
        if time.monotonic() > ends:
            print(f"time is up; {len(mutants) - n + 1} mutants left here", flush=True)
            return
        result = try_mutant(mutant, tests_for(mutant, reach, files))
        keep(result)
        change = f"{mutant.module}.{mutant.function}: {mutant.before} -> {mutant.after}"
        print(f"{n}/{len(mutants)} {result.outcome} {change} [{result.by}, {result.seconds} s]", flush=True)


if __name__ == "__main__":
    main()
