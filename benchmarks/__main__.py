"""Run the benchmarks and print a table for each: `python -m benchmarks [NAME ...]`.

What is measured for a page of the documents is kept in the folder `measured` beside its benchmark, and the page is
written from there; `python -m benchmarks page` writes all pages without measuring. Tables beside the authors' code are
measured if their checkouts are named, and `python -m benchmarks.gpu NAME` measures those of a GPU where Ray is not
installed. `python -m benchmarks soak` kills runs on their way for an hour, and is no part of `make bench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import (
    arithmetic,
    commands,
    fisher,
    growth,
    overhead,
    processors,
    sharing,
    stages,
    tracking,
    vit_b16,
    waiting,
    writers,
)
from benchmarks.authors import comparison, page as authors
from benchmarks.authors.parity import parts, trials
from benchmarks.choosing import measuring, patience
from benchmarks.curvature import page as curvature, steps
from benchmarks.embedded import distance, page as embedded, probe, settings
from benchmarks.gpu import named as gpu, page as gpu_page
from benchmarks.many_trials import scale, slots, thousands
from benchmarks.own_pictures import measuring as measuring_own_pictures, page as own_pictures, removability
from benchmarks.performance import kept
from benchmarks.performance.lines import HEADER, Rows
from benchmarks.performance.page import LINES, write_page
from benchmarks.planning import estimates, held, page as planning
from benchmarks.soak.command import main as soak

BENCHMARKS: dict[str, Callable[[], Rows]] = {
    "probe": probe.run,
    "distance": distance.run,
    settings.NAME: settings.run,
    settings.RATES: settings.run_rates,
    "sharing": sharing.run,
    "fisher": fisher.run,
    "waiting": waiting.run,
    "overhead": overhead.run,
    "scale": scale.run,
    "short-trials": slots.run_short,
    "slots": slots.run_busy,
    "commands": commands.run,
    "thousands": thousands.run,
    "writers": writers.run,
    "tracking": tracking.run,
    planning.HELD: held.run,
    planning.ESTIMATES: estimates.run,
    "stages": stages.run,
    "arithmetic": arithmetic.run,
    curvature.STEPS: steps.run,
    "growth": growth.run,
    "processors": processors.run,
    "choosing": measuring.run,
    "patience": patience.run,
    own_pictures.NAME: measuring_own_pictures.run,
    **{name: partial(removability.run, number) for name, number in removability.BENCHMARKS.items()},
    "vit-b16": vit_b16.run,
    **gpu.BENCHMARKS,
    "trials": trials.run,
    "trial-parts": parts.run,
    "authors": comparison.run,
    **{name: program.compare for name, program in authors.PROGRAMS.items()},
}
PAGES: tuple[tuple[set[str], Callable[[], None]], ...] = (  # what is measured for pages, and what writes them
    (set(LINES), write_page),
    (set(own_pictures.NAMES), own_pictures.write_pages),
    (set(authors.measurable()), authors.write_pages),
    (set(gpu.ON_GPUS), gpu_page.write_pages),
    (set(embedded.NAMES), embedded.write_pages),
    ({curvature.STEPS}, curvature.write_kronecker),
    ({planning.HELD, planning.ESTIMATES, *planning.TAKEN}, planning.write_page),
)


def main() -> None:
    """Read the command line, run, print and write."""
    if sys.argv[1:2] == ["soak"]:
        sys.exit(soak(sys.argv[2:]))
    if sys.argv[1:] == ["page"]:
        for _, write in PAGES:
            write()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run, of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; allowed: {', '.join(BENCHMARKS)}")
    figures = {name: measured(name) for name in arguments.names or BENCHMARKS}
    for name, rows in figures.items():
        _print(name, list(rows[0]), [list(row.values()) for row in rows])
        if lines := LINES.get(name):
            _print(f"{name}, on the page", HEADER, [line.cells(rows) for line in lines])
    for names, write in PAGES:
        if names & set(figures):
            write()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def measured(name: str) -> Rows:
    """Run a benchmark; keep what it measured if it is one of a page."""
    if name in gpu.BENCHMARKS:
        return gpu.measured(name)
    run = BENCHMARKS[name]
    folders = {
        **dict.fromkeys(LINES, kept.MEASURED),
        **dict.fromkeys(own_pictures.NAMES, own_pictures.MEASURED),
        **dict.fromkeys(authors.measurable(), authors.MEASURED),
        **dict.fromkeys(embedded.NAMES, embedded.MEASURED),
        curvature.STEPS: curvature.TIMED,
        **dict.fromkeys((planning.HELD, planning.ESTIMATES), planning.MEASURED),
    }
    return kept.measure(name, run, folders[name]).rows if name in folders else run()


def _print(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row))
    Console().print(table)


if __name__ == "__main__":
    main()
