"""What one recorded search tells: replays, and what its first tasks would have chosen, for docs/how-to/replay.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tausearch
from benchmarks.performance.kept import today
from benchmarks.results.page import as_table, write
from tausearch.runs import EarlyChoice, Storage, early_choices, eligible
from tausearch.studies import ReplayComparison, ReplayedSetting, replays_of

RUN, TRIALS = "letters-ita-lora-1", 20
STORAGE = Path("tausearch-runs/replays")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "replay.md"
REPLAYS, PROTOCOLS = "replays", "protocols"  # the tables of the page


def write_page() -> None:
    """Search at random, or go on with that search, and write both tables of the page from its record."""
    how: dict[str, Any] = {"storage": STORAGE, "tracking": "none", "resume_if_exists": True}
    tausearch.search("letters", "ita-lora", name=RUN, algorithm="random", trials=TRIALS, reevaluate=0, **how)
    write(tables(Storage(STORAGE)), PAGE)


def tables(storage: Storage) -> dict[str, str]:
    """Return the tables of the page, by place."""
    found = replays_of(storage, RUN)
    spec = found.spec
    chosen = early_choices(eligible(found.recorded.trials, spec.aim), spec.steps, spec.metrics)
    return {REPLAYS: _replays(found), PROTOCOLS: _protocols(chosen)}


def _replays(found: ReplayComparison) -> str:
    """Return a line for each algorithm and scheduler, and what was replayed when."""
    header = ("algorithm", "scheduler", "chosen, validation", "regret", "finds the best", "tasks")
    rows = (_replay(found, outcome) for outcome in found.outcomes)
    tasks = sum(trial.tasks_done for trial in found.recorded.trials)
    said = f"{found.trials} of {len(found.recorded.trials)} trials each; {tasks} tasks are recorded. {today()}"
    return f"{as_table(header, rows)}\n\n{said}"


def _replay(found: ReplayComparison, outcome: ReplayedSetting) -> tuple[str, ...]:
    accuracy = outcome.accuracy
    assert accuracy is not None, "every replay finishes a trial"
    return (
        f"`{outcome.algorithm}`",
        outcome.scheduler,
        accuracy.text(),
        f"{found.recorded.regret(accuracy.mean):.2f}",
        f"{outcome.found(found.recorded.best)} of {len(outcome.replays)}",
        f"{outcome.tasks.mean:.0f}",
    )


def _protocols(choices: list[EarlyChoice]) -> str:
    """Return a line for each number of tasks that a search sees."""
    best = max(each.value for each in choices)
    header = ("tasks", "trial", "accuracy after them", "final accuracy", "lost", f"rank of {choices[0].finished}")
    rows = (
        (
            str(each.tasks),
            str(each.trial),
            f"{each.accuracy:.2f}",
            f"{each.value:.2f}",
            f"{best - each.value:.2f}",
            str(each.rank),
        )
        for each in choices
    )
    return as_table(header, rows)
