"""Which tests reach which function, and how long they take: measured once for each file of tests."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from tests.mutants.forks import OUT_OF_TIME, in_fork
from tests.mutants.sources import CACHE
from tests.mutants.targets import CONTRACT, ROOT, Room

OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-m", "not slow and not system")


@dataclass
class Reached:
    """The functions that one test reaches, by mutmut's names, and the CPU seconds that it takes."""

    functions: list[str]
    seconds: float
    failed: bool = False


class _Watch:
    """A plugin of pytest. Functions that a shared fixture reaches count for every test that uses it."""

    def __init__(self) -> None:
        self.tests: dict[str, Reached] = {}
        self._by_fixture: dict[str, set[str]] = defaultdict(set)
        self._began = 0.0
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        hits = state()._stats
        before = set(hits)
        hits.clear()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._by_fixture[fixturedef.argname] |= hits
            hits |= before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        _forget_shared_runs()
        state()._stats.clear()
        self._began = time.process_time()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        hits = set(state()._stats).union(*(self._by_fixture[name] for name in getattr(item, "fixturenames", ())))
        seconds = time.process_time() - self._began
        self.tests[item.nodeid] = Reached(sorted(hits), seconds, item.nodeid in self._failed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)


def _forget_shared_runs() -> None:
    """Clear the caches of `tests.support`; with them only the first of several tests would reach a function."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.support"):
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


def reach_of(room: Room, sources: str) -> dict[str, Reached]:
    """Return what the tests of a room reach, by the tests' ids; tests that fail without a mutant are left out.

    `sources` is a digest of the mutated modules; another digest measures everything again.
    """
    found = {}
    for file in room.test_files():
        cases = ["-k", " or ".join(room.methods)] if file == CONTRACT else []
        tests = _reach_of_file(file, cases, sources)
        found.update({test: reached for test, reached in tests.items() if not reached.failed})
    return found


def _reach_of_file(file: str, cases: list[str], sources: str) -> dict[str, Reached]:
    digest = hashlib.sha256(f"{sources}\n{cases}\n{(ROOT / file).read_text()}".encode()).hexdigest()[:16]
    kept = CACHE / "reach" / f"{file.replace('/', '.')}-{digest}.json"
    if not kept.exists():
        tests = in_fork(lambda: _watched(file, cases))
        if tests == OUT_OF_TIME:
            raise RuntimeError(f"{file} did not come to its end")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({test: vars(reached) for test, reached in tests.items()}))
        failed = [test for test, reached in tests.items() if reached.failed]
        print(f"{file}: {len(tests)} tests, {sum(t.seconds for t in tests.values()):.0f} s", *failed, flush=True)
    return {test: Reached(**values) for test, values in json.loads(kept.read_text()).items()}


def _watched(file: str, cases: list[str]) -> dict[str, Reached]:
    set_mutant_under_test("stats")
    watch = _Watch()
    pytest.main([*OPTIONS, *cases, file], plugins=[watch])
    return watch.tests
