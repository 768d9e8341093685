"""What all comparisons share: which runs there are, which benchmarks can be named, and the forms of printing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal, get_args

from tausearch.comparison.paper import paper_results
from tausearch.comparison.runs import FinalRun, read_final_runs
from tausearch.presentation import Table, as_latex, as_markdown, say_unreadable, tool
from tausearch.runs import Storage
from trainables.data import BENCHMARKS
from trainables.errors import InputError

Form = Literal["table", "json", "csv", "markdown", "latex"]
FORMS: tuple[Form, ...] = get_args(Form)


def final_runs(storage: Storage, benchmarks: Sequence[str]) -> tuple[list[FinalRun], list[str]]:
    """Read all final runs; those that cannot be read are named on stderr and left out.

    Args:
        storage: Storage root that holds the runs.
        benchmarks: The benchmarks that somebody wants to see.

    Returns:
        The runs, and the names of those without results yet.

    Raises:
        InputError: If a benchmark is neither the paper's, nor embedded, nor a run's.
    """
    runs, without, faults = read_final_runs(storage)
    say_unreadable(*faults)
    known = [*dict.fromkeys([*paper_results().benchmarks, *BENCHMARKS, *(run.spec.benchmark for run in runs)])]
    for name in benchmarks:
        if name not in known:
            raise InputError(f"unknown benchmark {name!r}; allowed: {', '.join(known)}")
    return runs, without


def nothing(storage: Storage, without: Sequence[str], form: Form) -> None:
    """Say that there is no final run to compare."""
    unfinished = f" ({', '.join(without)} without results yet)" if without else ""
    say(f"no final runs in {storage.root} to compare{unfinished}; make one with: {tool()} train BEST.yaml", form)


def say(line: str, form: Form) -> None:
    """Print a line for a person: on stderr where stdout is for a program."""
    print(line, file=sys.stdout if form == "table" else sys.stderr)


def print_text(sheets: Sequence[Table], form: Form) -> None:
    """Print tables as Markdown or LaTeX."""
    print(as_markdown(sheets) if form == "markdown" else as_latex(sheets), end="")
