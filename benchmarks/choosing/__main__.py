"""Make the tables that choosing is measured on, or write docs/explanation/what-helps.md."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.choosing.making import SPLITS, TEST_SEEDS, Wanted, collect, make_table
from tausearch.cluster import local_cpus

PAGES = {  # module to what it writes
    "page": "replay on all tables, and write table and figure of the page",
    "patience": "replay with `--patience`, and write the table of what-helps.md",
    "travel": "one configuration for several benchmarks or one for each, in several-benchmarks.md",
    "replays": "record a search, and write what its record tells, in replay.md",
}


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table", help="run configurations, and write the table")
    table.add_argument("benchmark")
    table.add_argument("--method", default="ita-lora")
    table.add_argument("--configurations", type=int, default=200, help="random ones, beside start and paper")
    table.add_argument("--splits", type=int, nargs="+", default=SPLITS, help="seeds of validation splits")
    table.add_argument("--test-seeds", type=int, nargs="+", default=TEST_SEEDS)
    table.add_argument("--work", type=Path, default=Path("tausearch-runs/choosing"), help="folder of records and cache")
    table.add_argument("--cores", type=int, default=local_cpus())
    table.add_argument("--gpu", action="store_true", help="all processes share one GPU")
    table.add_argument("--collect", action="store_true", help="run nothing more, write what there is")
    for name, text in PAGES.items():
        commands.add_parser(name, help=text)
    given = parser.parse_args()
    if given.command in PAGES:
        module = import_module(f"benchmarks.choosing.{given.command}")
        if given.command == "travel":
            module.measure_all()
        module.write_page()
        return
    seeds = tuple(given.splits), tuple(given.test_seeds)
    share = 1 / given.cores if given.gpu else 0
    wanted = Wanted(given.benchmark, given.method, given.configurations, *seeds, given.work.absolute(), share)
    print(collect(wanted) if given.collect else make_table(wanted, given.cores))


if __name__ == "__main__":
    main()
