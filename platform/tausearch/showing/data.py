"""Datasets and what a check of them found, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from tausearch.api import CheckResult, DataState
from tausearch.screen import console
from trainables.data.dataset import DATA_VARIABLE, data_root


def show_states(states: Sequence[DataState], root: str | None) -> None:
    """Print a table of all benchmarks, and where to get what is not there."""
    out = console()
    table = Table()
    for column in ("benchmark", "state", "classes", "train (per class)", "test (per class)", "layout"):
        table.add_column(column, overflow="fold")
    for state in states:
        classes = "" if state.classes is None else str(len(state.classes))
        table.add_row(state.name, state.state, classes, state.count("train"), state.count("test"), state.layout or "")
    out.print(table)
    out.print(f"looked for in {data_root(root)}/<benchmark> (--data-root, or {DATA_VARIABLE})", soft_wrap=True)
    for state in states:
        if not state.whole:
            out.print(f"{state.name}: needs {state.looks_for}\n  in {state.home}; from {state.source}", soft_wrap=True)


def show_check(found: CheckResult) -> None:
    """Print every fault, and how many there are of how many images."""
    out = console()
    for fault in found.faults:
        out.print(fault, soft_wrap=True)
    verdict = f"{len(found.faults)} faults" if found.faults else "all of them readable"
    out.print(
        f"{found.name}: {found.images:,} images in {Path(found.home)} ({found.layout}), {verdict}", soft_wrap=True
    )
