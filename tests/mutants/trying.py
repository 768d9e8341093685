"""Try one mutant: run the tests that reach its function until one fails. The results are kept, one line each."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test

from tests.mutants.forks import in_fork
from tests.mutants.reach import OPTIONS, Reached
from tests.mutants.sources import CACHE, Mutant
from tests.mutants.targets import ROOT

LIMIT = 30.0  # seconds of CPU time that the tests of one mutant take together, as long as none fails
KILLED, SURVIVED, UNREACHED = "killed", "survived", "reached by no test"
FILE = CACHE / "results.jsonl"


@dataclass(frozen=True)
class Result:
    """The outcome of a trial of a mutant: the test that noticed it (or that time ran out), seconds, commit and day."""

    key: str
    module: str
    function: str
    before: str
    after: str
    outcome: str
    by: str
    seconds: float
    commit: str
    day: str

    @property
    def killed(self) -> bool:
        return self.outcome == KILLED


def results() -> dict[str, Result]:
    """Return the last result of each mutant by the mutant's key."""
    lines = FILE.read_text().splitlines() if FILE.exists() else ()
    found = (Result(**json.loads(line)) for line in lines)
    return {result.key: result for result in found}


def keep(result: Result) -> None:
    """Add one result; several processes may do so at once."""
    FILE.parent.mkdir(exist_ok=True)
    with FILE.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")


class _FirstFailure:
    """A plugin of pytest."""

    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    pytest_collectreport = pytest_runtest_logreport


def tests_for(mutant: Mutant, reach: dict[str, Reached], files: list[str]) -> dict[str, float]:
    """Return the tests that reach a mutant and their seconds: files in the room's order, in each the fastest first.

    The last are left out where all together take longer than `LIMIT`.
    """
    function = f"{mutant.module}.{mutant.name.partition('__mutmut_')[0]}"
    reaching = [
        (files.index(test.partition("::")[0]), r.seconds, test) for test, r in reach.items() if function in r.functions
    ]
    chosen: dict[str, float] = {}
    for _, seconds, test in sorted(reaching):
        if not chosen or sum(chosen.values()) + seconds <= LIMIT:
            chosen[test] = seconds
    return chosen


def try_mutant(mutant: Mutant, tests: dict[str, float]) -> Result:
    """Run the tests on a mutant."""
    outcome, by, began = UNREACHED, "", time.monotonic()
    if tests:
        by = in_fork(lambda: _first_failure(mutant, list(tests)), cpu_seconds=30 + 5 * sum(tests.values()))
        outcome = KILLED if by else SURVIVED
    told = {name: getattr(mutant, name) for name in ("key", "module", "function", "before", "after")}
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    seconds = round(time.monotonic() - began, 1) if tests else 0.0
    return Result(**told, outcome=outcome, by=by, seconds=seconds, commit=commit, day=date.today().isoformat())


def _first_failure(mutant: Mutant, tests: list[str]) -> str:
    set_mutant_under_test(f"{mutant.module}.{mutant.name}")
    first = _FirstFailure()
    code = pytest.main(["-x", *OPTIONS, *tests], plugins=[first])
    return first.test or ("" if code == pytest.ExitCode.OK else f"pytest ended with {code!s}")
