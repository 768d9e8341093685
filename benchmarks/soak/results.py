"""What the rounds came to: one line of JSON each, and the tables of the page that sum them up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.results.page import as_table
from benchmarks.soak.plan import KINDS, TARGETS

_COUNTS = ("doubled", "missing", "different", "stuck", "processes", "locks", "files")
PHASES = ("before the first task is recorded", "while a driver starts again", "between tasks", "after the last task")


@dataclass(frozen=True)
class Kill:
    """One kill and what it cost."""

    target: str  # what was killed
    phase: str  # when, of `PHASES`
    tasks: int  # number of tasks that were recorded then, over all trials
    lost: int  # trials that had ended and are gone or changed afterwards
    repeated: int  # tasks that running trials had done and did again
    most: int  # the most of them in one trial


@dataclass(frozen=True)
class RoundResult:
    """One round."""

    number: int  # its number
    seed: int  # the seed of the soak
    kind: str  # what was run
    commit: str  # the commit that ran
    day: str  # when, as YYYY-MM-DD
    seconds: float  # how long it took
    kills: tuple[Kill, ...]  # the kills, in order
    doubled: int = 0  # what MLflow or the study file have twice
    missing: int = 0  # what MLflow lacks at the end
    different: int = 0  # runs whose numbers are not those of the undisturbed one
    stuck: int = 0  # drivers that had to be ended by hand, or that ended with an error of their own
    processes: int = 0  # processes that were still there at the end
    locks: int = 0  # locks that were still held
    files: int = 0  # temporary files that were left
    left: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with it."""
        return not any(getattr(self, name) for name in _COUNTS) and all(
            kill.lost == 0 and kill.most <= 1 for kill in self.kills
        )


def read_rounds(path: Path) -> list[RoundResult]:
    """Return the rounds that a file holds; none if there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [
        RoundResult(**{**each, "kills": tuple(Kill(**kill) for kill in each["kills"])})
        for each in map(json.loads, lines)
    ]


def keep(path: Path, result: RoundResult) -> None:
    """Add a round to the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def tables(rounds: Sequence[RoundResult]) -> dict[str, str]:
    """Return the summary, and the kills by their moment, by what was killed and by what was run, by name."""
    return {
        "summary": summary(rounds),
        "phase": _table("killed", rounds, PHASES, lambda kill, _: kill.phase),
        "target": _table("what was killed", rounds, TARGETS, lambda kill, _: kill.target),
        "kind": _table("in a", rounds, KINDS, lambda _, found: found.kind),
    }


def summary(rounds: Sequence[RoundResult]) -> str:
    """Return in a few lines what all rounds came to, with dates and commits."""
    kills = [kill for found in rounds for kill in found.kills]
    after = sum(kill.phase != PHASES[0] for kill in kills)
    days, commits, seeds = (
        ", ".join(dict.fromkeys(str(getattr(found, name)) for found in rounds)) for name in ("day", "commit", "seed")
    )
    total = {each: sum(getattr(found, each) for found in rounds) for each in _COUNTS}
    lines = [
        f"**{len(kills)} kills** in {len(rounds)} rounds, {after} of them ({_percent(after, len(kills))}) after the"
        " first task was recorded",
        f"**lost**: {sum(kill.lost for kill in kills)} trials that had ended, {total['missing']} entries of MLflow",
        f"**doubled**: {total['doubled']} entries, in MLflow and in study files",
        f"**repeated**: {sum(kill.repeated for kill in kills)} tasks, of a running trial at most"
        f" {max((kill.most for kill in kills), default=0)} at a kill",
        f"**other numbers** than undisturbed: {total['different']} runs",
        f"**stuck**, or ended with an error of their own: {total['stuck']} drivers",
        f"**left behind**: {total['processes']} processes, {total['locks']} held locks, {total['files']} files",
        f"seed {seeds}; {days}; commit {commits}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _table(
    title: str, rounds: Sequence[RoundResult], names: Sequence[str], name_of: Callable[[Kill, RoundResult], str]
) -> str:
    rows = []
    kills = [(name_of(kill, found), kill) for found in rounds for kill in found.kills]
    for name in (*names, "**all**"):
        own = [kill for each, kill in kills if name in (each, "**all**")]
        lost, repeated = (sum(getattr(kill, count) for kill in own) for count in ("lost", "repeated"))
        rows.append((name, *map(str, (len(own), lost, repeated, max((kill.most for kill in own), default=0)))))
    return as_table((title, "kills", "lost", "repeated", "most of a trial"), rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"
