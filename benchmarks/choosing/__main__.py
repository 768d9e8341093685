"""Make the tables that choosing is measured on, or write docs/explanation/what-helps.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.choosing.making import SPLITS, TEST_SEEDS, Wanted, collect, cores, make_table


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
    table.add_argument("--cores", type=int, default=cores())
    table.add_argument("--gpu", action="store_true", help="all processes share one GPU")
    table.add_argument("--collect", action="store_true", help="run nothing more, write what there is")
    commands.add_parser("page", help="replay on all tables, and write table and figure of the page")
    commands.add_parser("patience", help="replay with `--patience`, and write the table of what-helps.md")
    commands.add_parser(
        "travel", help="one configuration for several benchmarks or one for each, in several-benchmarks.md"
    )
    commands.add_parser("replays", help="record a search, and write what its record tells, in replay.md")
    given = parser.parse_args()
    if given.command == "page":
        from benchmarks.choosing.page import write_page

        write_page()
        return
    if given.command == "patience":
        from benchmarks.choosing import patience

        patience.write_page()
        return
    if given.command == "travel":
        from benchmarks.choosing import travel

        travel.measure_all()
        travel.write_page()
        return
    if given.command == "replays":
        from benchmarks.choosing import replays

        replays.write_page()
        return
    seeds = tuple(given.splits), tuple(given.test_seeds)
    share = 1 / given.cores if given.gpu else 0
    wanted = Wanted(given.benchmark, given.method, given.configurations, *seeds, given.work.absolute(), share)
    print(collect(wanted) if given.collect else make_table(wanted, given.cores))


if __name__ == "__main__":
    main()
