"""Run the study, or write its page: `python -m benchmarks.curvature run --storage DIR [--benchmarks digits ...]`.

`run` searches, trains and measures; it continues what was begun, and a cell that has its file under
`benchmarks/curvature/measured` is left out of the measuring. `page` writes docs/explanation/curvature.md from these
files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.curvature.measuring import measure_all
from benchmarks.curvature.page import write_page
from benchmarks.curvature.running import BENCHMARKS, run_all


def main() -> None:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curvature", description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    run = parts.add_parser("run", help="search, train and measure what is missing")
    run.add_argument("--storage", type=Path, default=Path("tausearch-runs/curvature"), help="folder of the runs")
    run.add_argument("--benchmarks", nargs="+", choices=BENCHMARKS, default=BENCHMARKS, help="by default all")
    parts.add_parser("page", help="write docs/explanation/curvature.md")
    chosen = parser.parse_args()
    if chosen.part == "page":
        write_page()
        return
    for benchmark in chosen.benchmarks:
        run_all(chosen.storage, [benchmark])
        measure_all(chosen.storage, [benchmark])


if __name__ == "__main__":
    main()
