"""What a single command takes from its call to the prompt: in a fresh process, on runs made by hand.

The storages have 20 runs, 500 runs, and a search of 5,000 trials of ten tasks. Commands take turns. Seconds that passed
and CPU seconds are medians; the first call of each does not count, because it fills the caches of Python and of the
disk.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.many_trials.recorded import SEARCH, recorded_search
from benchmarks.performance.lines import Line, column
from tausearch.runs import open_storage
from tests.support.runs.final_runs import make_final_run

CALLS = 5
FEW, MANY, TRIALS = 20, 500, 5000
COMMANDS = {  # name to words, and the storage that it reads
    "--help": (["--help"], None),
    "list spaces": (["list", "spaces"], None),
    "a refused search": (["search", "digits", "nothing"], None),
    "compare": (["compare"], "few"),
    "status": (["status"], "few"),
    "status, 500 runs": (["status"], "many"),
    "status, 5,000 trials": (["status", SEARCH], SEARCH),
    "report, 5,000 trials": (["report", SEARCH], SEARCH),
}
TAUSEARCH = str(Path(sys.executable).with_name("tausearch"))
_PANDAS = "import pandas, sys; assert len(pandas.read_parquet(sys.argv[1]).columns) > 20"


def _line(command: str, what: str, at_most: float | None = None) -> Line:
    return Line(what=what, values=column("seconds", command=command), unit=" s", at_most=at_most)


LINES = (
    _line("--help", "`tausearch --help`"),
    _line("list spaces", "`list spaces`"),
    _line("a refused search", "`search` with an unknown method, until it is refused"),
    _line("compare", f"`compare` of {FEW} final runs"),
    _line("status", f"`status` of {FEW} runs"),
    _line("status, 500 runs", f"`status` of {MANY} runs", 2),
    _line("status, 5,000 trials", f"`status NAME` of a search of {TRIALS:,} trials", 2),
    _line("report, 5,000 trials", f"`report NAME` of a search of {TRIALS:,} trials", 20),
    _line("pandas, 5,000 trials", f"the record of {TRIALS:,} trials in pandas, with its import", 2),
)


def run() -> list[dict[str, Any]]:
    """Time all commands, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        roots = _storages(Path(folder))
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in (*COMMANDS, "pandas, 5,000 trials")}
        for _ in range(CALLS + 1):
            for name, (words, root) in COMMANDS.items():
                place = [] if root is None else ["--storage", str(roots[root])]
                taken[name].append(_call([TAUSEARCH, *words, *place], Path(folder)))
            record = str(roots[SEARCH] / SEARCH / "record")
            taken["pandas, 5,000 trials"].append(_call([sys.executable, "-c", _PANDAS, record], Path(folder)))
    return [{"command": name, "calls": CALLS, **_medians(calls[1:])} for name, calls in taken.items()]


def _call(words: list[str], folder: Path) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of a command."""
    before, start = _cpu_seconds(), time.perf_counter()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return time.perf_counter() - start, _cpu_seconds() - before


def _cpu_seconds() -> float:
    """Return the CPU seconds of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _medians(calls: list[tuple[float, float]]) -> dict[str, float]:
    seconds, cpu = (statistics.median(each) for each in zip(*calls, strict=True))
    return {"seconds": seconds, "CPU seconds": cpu}


def _storages(folder: Path) -> dict[str, Path]:
    """Make the storages."""
    roots = {name: folder / name for name in ("few", "many", SEARCH)}
    for name, runs in (("few", FEW), ("many", MANY)):
        storage = open_storage(roots[name], write=True)
        for number in range(runs):
            make_final_run(storage, f"run-{number}", [80.0, 81.0, 82.0])
    recorded_search(open_storage(roots[SEARCH], write=True), TRIALS)
    return roots
