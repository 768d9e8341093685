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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import vit_b16
from benchmarks.authors import page as authors
from benchmarks.choosing import measuring, patience
from benchmarks.curvature import page as curvature, steps
from benchmarks.embedded import page as embedded
from benchmarks.gpu import named as gpu, page as gpu_page
from benchmarks.own_pictures import page as own_pictures
from benchmarks.performance import kept
from benchmarks.performance.lines import HEADER, Rows
from benchmarks.performance.page import BENCHMARKS as PERFORMANCE, LINES, write_page
from benchmarks.planning import estimates, held, page as planning
from benchmarks.soak.command import main as soak

GROUPS: tuple[tuple[Mapping[str, Callable[[], Rows]], Path, Callable[[], None]], ...] = (  # kept where, and written how
    (PERFORMANCE, kept.MEASURED, write_page),
    (own_pictures.BENCHMARKS, own_pictures.MEASURED, own_pictures.write_pages),
    (authors.BENCHMARKS, authors.MEASURED, authors.write_pages),
    (gpu.ON_GPUS, gpu.MEASURED, gpu_page.write_pages),
    (embedded.BENCHMARKS, embedded.MEASURED, embedded.write_pages),
    ({curvature.STEPS: steps.run}, curvature.TIMED, curvature.write_kronecker),
    ({planning.HELD: held.run, planning.ESTIMATES: estimates.run}, planning.MEASURED, planning.write_page),
)
FOLDERS = {name: folder for runs, folder, _ in GROUPS for name in runs}
BENCHMARKS: dict[str, Callable[[], Rows]] = {
    **{name: run for runs, _, _ in GROUPS for name, run in runs.items()},
    **{"choosing": measuring.run, "patience": patience.run, "vit-b16": vit_b16.run},
}


def main() -> None:
    """Read the command line, run, print and write."""
    if sys.argv[1:2] == ["soak"]:
        sys.exit(soak(sys.argv[2:]))
    if sys.argv[1:] == ["page"]:
        write_pages()
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
        columns = list(dict.fromkeys(column for row in rows for column in row))
        _print(name, columns, [[row.get(column, "") for column in columns] for row in rows])
        if lines := LINES.get(name):
            _print(f"{name}, on the page", HEADER, [line.cells(rows) for line in lines])
    write_pages()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def measured(name: str) -> Rows:
    """Run a benchmark; keep what it measured if it is one of a page."""
    if name in gpu.BENCHMARKS:
        return gpu.measured(name)
    if name not in FOLDERS or name in authors.unmeasurable():
        return BENCHMARKS[name]()
    return kept.measure(name, BENCHMARKS[name], FOLDERS[name]).rows


def write_pages() -> None:
    """Write all pages from what is kept."""
    for _, _, write in GROUPS:
        write()


def _print(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row))
    Console().print(table)


if __name__ == "__main__":
    main()
