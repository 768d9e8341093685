"""Write the scores to docs/explanation/how-we-know.md, and each module and survivor to CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from os.path import commonprefix
from pathlib import Path

import yaml

from benchmarks.results.page import as_table, replaced
from tests.mutants.sources import mutants_of
from tests.mutants.targets import FLOORS, PLATFORM, ROOMS, ROOT, SCIENCE
from tests.mutants.trying import UNREACHED, Result, results

PAGE = ROOT / "docs" / "explanation" / "how-we-know.md"
REASONS = Path(__file__).with_name("reasons.yaml")
SCORES, SURVIVORS = (Path(__file__).with_name(f"{name}.csv") for name in ("scores", "survivors"))
EQUIVALENT = "equivalent"
COUNTS = ("mutants", "tried", "killed", "equivalent", "score")


@dataclass
class Score:
    """The mutants of a module or a part: their number, and the results of those tried."""

    mutants: int = 0
    tried: list[Result] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(self.mutants + other.mutants, self.tried + other.tried)

    @property
    def survivors(self) -> list[Result]:
        return [result for result in self.tried if not result.killed]

    @property
    def killed(self) -> int:
        return len(self.tried) - len(self.survivors)

    @property
    def equivalent(self) -> int:
        return sum(_reason(result)[0] == EQUIVALENT for result in self.survivors)

    @property
    def percent(self) -> float:
        counted = len(self.tried) - self.equivalent
        return 100.0 * self.killed / counted if counted else float("nan")

    def counts(self) -> tuple[str, ...]:
        """Return the numbers under `COUNTS`."""
        score = f"{self.percent:.0f}" if self.tried else ""
        return (*map(str, (self.mutants, len(self.tried), self.killed, self.equivalent)), score)


def write() -> None:
    """Write table and data from all results of mutants that the sources still have."""
    modules = {SCIENCE: _scores(SCIENCE), PLATFORM: _scores(PLATFORM)}
    parts = {part: sum(scores.values(), Score()) for part, scores in modules.items()}
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "mutants", summary(parts)), encoding="utf-8")
    by_module = ((part, name, *score.counts()) for part, scores in modules.items() for name, score in scores.items())
    _write_csv(SCORES, ("part", "module", *COUNTS), by_module)
    survivors = (_survivor(each) for score in parts.values() for each in score.survivors)
    _write_csv(SURVIVORS, ("module", "function", "before", "after", "kind", "why", "reached"), survivors)
    for part, score in parts.items():
        print(f"{part}: {score.percent:.1f} %, must be {FLOORS[part]:g} % or more")


def summary(parts: dict[str, Score]) -> str:
    """Return the scores of the parts, and the days on which they were measured, as Markdown."""
    rows = []
    for part, score in parts.items():
        *counts, percent = score.counts()
        rows.append((part, *counts, f"{percent} %" if percent else "not tried", f"{FLOORS[part]:g} %"))
    days = sorted({result.day for score in parts.values() for result in score.tried})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "no day"
    return f"{as_table(('part', *COUNTS, 'limit'), rows)}\n\nResults of {when}."


def _write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, lineterminator="\n").writerows([header, *rows])


def _scores(part: str) -> dict[str, Score]:
    known, scores = results(), {}
    for room in ROOMS:
        for module, source in room.sources().items() if room.part == part else ():
            if mutants := mutants_of(module, source):
                tried = [known[mutant.key] for mutant in mutants if mutant.key in known]
                scores[module] = Score(len(mutants), tried)
    return scores


@cache
def _reason(result: Result) -> tuple[str, str]:
    """Return the kind and the text of the first reason that fits a survivor."""
    where, change = f"{result.module}.{result.function}", f"{result.before} -> {result.after}"
    for entry in yaml.safe_load(REASONS.read_text()):
        if fnmatchcase(where, _literal(entry["where"])) and fnmatchcase(change, f"*{_literal(entry['change'])}*"):
            return entry["kind"], entry["why"]
    return "open", "not yet looked at"


def _literal(pattern: str) -> str:
    """Return a pattern in which only `*` has a meaning: brackets are common in code."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def _survivor(result: Result) -> tuple[str, ...]:
    """Return the row of a survivor: its lines without their common beginning and end."""
    kind, why = _reason(result)
    module = result.module.removeprefix("trainables.").removeprefix("tausearch.")
    reached = "no" if result.outcome == UNREACHED else "yes"
    return module, result.function, *_change(result), kind, why, reached


def _change(result: Result) -> tuple[str, str]:
    before, after = result.before, result.after
    if not before or not after:
        return before, after
    start = len(commonprefix([before, after]))
    end = min(len(commonprefix([before[::-1], after[::-1]])), len(before) - start, len(after) - start)
    left, right = max(0, start - 30), min(30, end)
    return before[left : len(before) - end + right], after[left : len(after) - end + right]
