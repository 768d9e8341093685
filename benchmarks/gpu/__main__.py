"""Run one benchmark of a GPU where Ray is not installed: `python -m benchmarks.gpu NAME`.

It is the benchmark that `python -m benchmarks NAME` runs, and keeps the same file. `--folder` keeps it elsewhere, and
`--commit` says the commit where the files have come without git's folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.gpu.named import BENCHMARKS, measured


def main() -> None:
    """Read the command line, run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("name", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--folder", type=Path, help="keep the figures there")
    parser.add_argument("--commit", help="the commit that runs (default: what git says)")
    arguments = parser.parse_args()
    for row in measured(arguments.name, arguments.folder, arguments.commit):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
