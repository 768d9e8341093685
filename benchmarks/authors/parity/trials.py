"""CPU seconds of one trial on digits, of every method, beside its authors' code where a checkout of that is named.

Methods that run in their authors' code as well have the hyperparameters of the first comparison with it, all others
those that a search starts with. A trial counts from its first task to its last evaluation, on one thread, with nothing
in the cache; both programs have a process to themselves and take turns.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.authors.parity import inflora, prompts, seed, sequential, tak, tmc
from benchmarks.authors.parity.shared import Program, Run, ours
from search_spaces import METHODS_WITH_SPACE, load_space

PROGRAMS = (sequential.PROGRAM, prompts.PROGRAM, inflora.PROGRAM, seed.PROGRAM, tmc.PROGRAM, tak.PROGRAM)
REPEATS = 3


def _starting_point(method: str) -> Run:
    space = load_space(method, "digits")
    return Run(method=method, hyperparameters={**space.start, **space.fixed})


def _row(run: Run, program: Program | None, code: Path | None) -> dict[str, Any]:
    rounds = [(ours(run), program.theirs(run, code) if program and code else None) for _ in range(REPEATS)]
    mine, theirs = zip(*rounds, strict=True)
    row: dict[str, Any] = {"method": run.method, "CPU seconds, ours": median(each.seconds for each in mine)}
    if code is not None:
        row |= {"theirs": (seconds := median(each.seconds for each in theirs))}
        row |= {"ours over theirs": row["CPU seconds, ours"] / seconds}
    print(row, file=sys.stderr, flush=True)
    return row


def first_runs(program: Program) -> list[Run]:
    """Return the first run of each method that a program has."""
    first: dict[str, Run] = {}
    for run in program.runs:
        first.setdefault(run.method, run)
    return list(first.values())


def _beside(program: Program) -> list[dict[str, Any]]:
    with program.code() as code:
        return [_row(run, program, code) for run in first_runs(program)]


def run() -> list[dict[str, Any]]:
    """Measure every method."""
    rows = [row for program in PROGRAMS for row in _beside(program)]
    measured = {row["method"] for row in rows}
    rows += [_row(_starting_point(method), None, None) for method in METHODS_WITH_SPACE if method not in measured]
    empty = dict.fromkeys(["method", "CPU seconds, ours", "theirs", "ours over theirs"], "")
    return [empty | row for row in rows]
