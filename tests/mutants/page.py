"""Write docs/explanation/mutants.md from the results and the written reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from os.path import commonprefix
from pathlib import Path

import yaml

from tests.mutants.sources import mutants_of
from tests.mutants.targets import FLOORS, PLATFORM, ROOMS, ROOT, SCIENCE
from tests.mutants.trying import LIMIT, UNREACHED, Result, results

PAGE = ROOT / "docs" / "explanation" / "mutants.md"
REASONS = Path(__file__).with_name("reasons.yaml")
EQUIVALENT = "equivalent"

INTRODUCTION = """\
# Mutants

{summary}
A mutant is the code with one line changed: `*` to `/`, `<` to `<=`, 0 to 1, an argument to `None` or left out. It is
killed if a test fails on it. The scores show how much of the code the fast tests check.

    make mutants                 # an hour; another run continues this one
    make mutants MINUTES=10
    .venv/bin/python -m tests.mutants --help    # modules, size of the sample, survivors once more

Run it before a release; the gate does not. [mutmut](https://github.com/boxed/mutmut) makes the mutants, and
`tests/mutants` runs them. Each trial is a fork of a process that has imported everything. It runs the tests of the
module's room (its group of modules) that reach the changed function, until one fails or they have taken {limit:g} s of
CPU time. A fixed sample of each module is tried. The tests are those of `make check`, without the tests that run whole
searches.

Not mutated are constants of modules, defaults of dataclasses, texts of errors (`raise ...`), `len` and `isinstance`,
functions with a decorator other than `no_grad`, `property` and the like, and code in processes that a test starts. A
mutant that only another room's tests would kill counts as a survivor.

The score is killed / (tried - equivalent). An equivalent mutant computes the same; the survivors' table has the reason.
The score must be at least {science:g} % in the science and {platform:g} % in the platform's list.

`tests/mutants/page.py` writes this page from `tests/mutants/reasons.yaml` and the results of {days}.
"""


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

    def row(self, name: str) -> str:
        """Return the score as a row of a table."""
        score = f"{self.percent:.0f} %" if self.tried else "not tried"
        return f"| {name} | {self.mutants} | {len(self.tried)} | {self.killed} | {self.equivalent} | {score} |"


def write() -> None:
    """Write the page from all results of mutants that the sources still have."""
    modules = {SCIENCE: _scores(SCIENCE), PLATFORM: _scores(PLATFORM)}
    parts = {part: sum(scores.values(), Score()) for part, scores in modules.items()}
    lines = [_introduction(parts), "## Scores", "", "| module | mutants | tried | killed | equivalent | score |"]
    lines.append("|---|---|---|---|---|---|")
    for part, scores in modules.items():
        lines.append(parts[part].row(f"**{part}**"))
        lines += [score.row(f"`{module}`") for module, score in scores.items()]
    lines += ["", "## Survivors", "", "| where | mutant | kind | why |", "|---|---|---|---|"]
    for result in (each for score in parts.values() for each in score.survivors):
        kind, why = _reason(result)
        reached = "" if result.outcome != UNREACHED else f" ({UNREACHED} of its room)"
        lines.append(f"| {_where(result)} | {_change(result)} | {kind} | {why}{reached} |")
    PAGE.write_text("\n".join(lines) + "\n")
    for part, score in parts.items():
        print(f"{part}: {score.percent:.1f} %, must be {FLOORS[part]:g} % or more")


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


def _introduction(parts: dict[str, Score]) -> str:
    days = sorted({result.day for score in parts.values() for result in score.tried})
    summary = ", ".join(f"{score.killed} of {len(score.tried)} mutants in the {part}" for part, score in parts.items())
    return INTRODUCTION.format(
        summary=f"The fast tests kill {summary}.",
        limit=LIMIT,
        science=FLOORS[SCIENCE],
        platform=FLOORS[PLATFORM],
        days=" to ".join(dict.fromkeys((days[0], days[-1]))) if days else "no day",
    )


def _where(result: Result) -> str:
    return f"`{result.module.removeprefix('trainables.').removeprefix('tausearch.')}` `{result.function}`"


def _change(result: Result) -> str:
    """Return the change of a mutant, without the common beginning and end of both lines."""
    before, after = result.before, result.after
    if not before or not after:
        return _code(before) + " -> " + (_code(after) if after else "nothing")
    start = len(commonprefix([before, after]))
    end = min(len(commonprefix([before[::-1], after[::-1]])), len(before) - start, len(after) - start)
    left, right = max(0, start - 30), min(30, end)
    return " -> ".join(_code(text[left : len(text) - end + right]) for text in (before, after))


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"
