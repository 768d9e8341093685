"""The soak as a command: rounds until so many kills have fallen or time is over; a second soak adds to the first."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from benchmarks.performance.kept import commit_here
from benchmarks.results.page import replaced
from benchmarks.soak.plan import Kind, plan_round
from benchmarks.soak.results import RoundResult, keep, read_rounds, tables
from benchmarks.soak.rounds import Round
from benchmarks.soak.work import Tables, Work
from tests.support.drivers.searches import run
from tests.support.drivers.services import TrackingServer

_ROOT = Path(__file__).parents[2]
_ROUNDS = Path(__file__).with_name("rounds.jsonl")
_PAGE = _ROOT / "docs" / "explanation" / "how-we-know.md"


def main(arguments: Sequence[str]) -> int:
    """Read the command line and play rounds; returns 1 if one of them was not clean."""
    options = _options(arguments)
    before = read_rounds(options.results)
    played = [] if options.page_only else _play(options, before)
    _show(options, [*before, *played])
    return 0 if all(found.is_clean for found in played) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="begin no round after so many kills of this soak")
    parser.add_argument("--minutes", type=float, default=60, help="begin no round after so many minutes")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn of it: what is killed, and when")
    parser.add_argument(
        "--folder", type=Path, default=_ROOT / ".soak", help="where runs lie; undisturbed ones are kept"
    )
    parser.add_argument("--results", type=Path, default=_ROUNDS, help="file with a line for each round, added to")
    parser.add_argument("--page", type=Path, default=_PAGE, help="page whose tables are written")
    parser.add_argument("--page-only", action="store_true", help="play no round, write the page")
    return parser.parse_args(arguments)


def _play(options: argparse.Namespace, before: Sequence[RoundResult]) -> list[RoundResult]:
    commit = commit_here()
    folder = options.folder.absolute() / commit
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    # Ray keeps a folder for every session that there ever was in RAY_TMPDIR; the rest must be gone at the end.
    os.environ |= {"RAY_TMPDIR": os.environ.get("RAY_TMPDIR", "/tmp"), "TMPDIR": str(temporary)}
    session = time.strftime("%H%M%S")  # MLflow remembers names of earlier soaks
    deadline, played, killed = time.monotonic() + 60 * options.minutes, list[RoundResult](), 0
    numbers = [found.number for found in before if found.seed == options.seed]
    number = max(numbers, default=-1) + 1
    _undisturbed("search", folder)  # whose best configuration the final runs train
    with _server(folder) as server:
        while killed < options.kills and time.monotonic() < deadline:
            plan = plan_round(options.seed, number)
            tracking = ("--tracking-uri", server.uri) if plan.needs_server else ()
            work = Work(plan.kind, f"{plan.kind.replace(' ', '-')}-{number}-{session}", folder, tracking)
            each = Round(plan, work, _undisturbed(plan.kind, folder), server if plan.needs_server else None, temporary)
            result = each.play(options.seed, commit)
            keep(options.results, result)
            print(_line(result), flush=True)
            if result.is_clean:
                each.clear()
            played.append(result)
            killed += len(result.kills)
            number += 1
    return played


def _undisturbed(kind: Kind, folder: Path) -> Tables:
    """Return what the same run comes to when nothing is killed; it is run once for a commit."""
    work = Work(kind, f"calm-{kind.replace(' ', '-')}", folder)
    done = folder / f"{work.name}.done"
    if not done.exists():
        run(*work.go_on, cwd=folder)
        done.touch()
    return work.tables()


@contextmanager
def _server(folder: Path) -> Iterator[TrackingServer]:
    """A tracking server of the soak's own."""
    server = TrackingServer(folder, f"sqlite:///{folder / 'server.db'}")
    server.start()
    try:
        yield server
    finally:
        server.signal(signal.SIGKILL)


def _line(result: RoundResult) -> str:
    kills = ", ".join(f"{kill.target} at task {kill.tasks} ({kill.phase})" for kill in result.kills)
    faults = "" if result.is_clean else f"; NOT CLEAN: {result}"
    return f"round {result.number}, {result.kind}, {result.seconds:.0f} s: {kills}{faults}"


def _show(options: argparse.Namespace, rounds: Sequence[RoundResult]) -> None:
    found = tables(rounds)
    for table in found.values():
        Console().print(Markdown(table))
    if options.page.exists():
        text = options.page.read_text(encoding="utf-8")
        for name, table in found.items():
            text = replaced(text, f"soak {name}", table)
        options.page.write_text(text, encoding="utf-8")
