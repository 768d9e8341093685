"""What the rounds came to: one line of JSON each, and the tables of the page that sum them up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.soak.plan import KINDS, TARGETS

_COUNTS = ("doubled", "missing", "different", "stuck", "processes", "locks", "files")
PHASES = ("before the first task is recorded", "while a driver starts again", "between tasks", "after the last task")


@dataclass(frozen=True)
class Kill:
    """One kill and what it cost.

    Attributes:
        target: What was killed.
        phase: When, of `PHASES`.
        tasks: Number of tasks that were recorded then, over all trials.
        lost: Trials that had ended and are gone or changed afterwards.
        repeated: Tasks that running trials had done and did again.
        most: The most of them in one trial.
    """

    target: str
    phase: str
    tasks: int
    lost: int
    repeated: int
    most: int


@dataclass(frozen=True)
class RoundResult:
    """One round.

    Attributes:
        number: Its number.
        seed: The seed of the soak.
        kind: What was run.
        commit: The commit that ran.
        day: When, as YYYY-MM-DD.
        seconds: How long it took.
        kills: The kills, in order.
        doubled: What MLflow or the study file have twice.
        missing: What MLflow lacks at the end.
        different: Runs whose numbers are not those of the undisturbed one.
        stuck: Drivers that had to be ended by hand, or that ended with an error of their own.
        processes: Processes that were still there at the end.
        locks: Locks that were still held.
        files: Temporary files that were left.
    """

    number: int
    seed: int
    kind: str
    commit: str
    day: str
    seconds: float
    kills: tuple[Kill, ...]
    doubled: int = 0
    missing: int = 0
    different: int = 0
    stuck: int = 0
    processes: int = 0
    locks: int = 0
    files: int = 0
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


def by_phase(rounds: Sequence[RoundResult]) -> str:
    """Return the table of kills by the moment at which they fell."""
    return _table("killed", rounds, PHASES, lambda kill, _: kill.phase)


def by_target(rounds: Sequence[RoundResult]) -> str:
    """Return the table of kills by what was killed."""
    return _table("what was killed", rounds, TARGETS, lambda kill, _: kill.target)


def by_kind(rounds: Sequence[RoundResult]) -> str:
    """Return the table of kills by what was run."""
    return _table("in a", rounds, KINDS, lambda _, found: found.kind)


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
    lines = [f"| {title} | kills | lost | repeated | most of a trial |", "|---|---|---|---|---|"]
    kills = [(name_of(kill, found), kill) for found in rounds for kill in found.kills]
    for name in (*names, "**all**"):
        own = [kill for each, kill in kills if name in (each, "**all**")]
        lost, repeated = (sum(getattr(kill, count) for kill in own) for count in ("lost", "repeated"))
        lines.append(f"| {name} | {len(own)} | {lost} | {repeated} | {max((kill.most for kill in own), default=0)} |")
    return "\n".join(lines)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"
