"""The soak: what it does is drawn from a seed alone, and what it counts is what was lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from benchmarks.results.page import replaced
from benchmarks.soak.command import _PAGE
from benchmarks.soak.leftovers import held_locks, temporary_files
from benchmarks.soak.plan import KINDS, TARGETS, plan_round
from benchmarks.soak.results import PHASES, Kill, RoundResult, keep, read_rounds, tables
from benchmarks.soak.work import cost, different
from tests.support.runs.trials import make_trial

KILL = Kill("driver", PHASES[2], tasks=7, lost=0, repeated=1, most=1)
ROUND = RoundResult(3, 0, "search", "abc1234", "2026-11-22", 60.0, (KILL, replace(KILL, phase=PHASES[0], repeated=0)))


def test_what_is_killed_and_when_is_drawn_from_seed_and_number_alone() -> None:
    plans = [plan_round(0, number) for number in range(60)]
    assert plans == [plan_round(0, number) for number in range(60)] != [plan_round(1, number) for number in range(60)]
    strikes = [strike for plan in plans for strike in plan.strikes]
    counts = Counter(strike.target for strike in strikes)
    assert set(counts) == set(TARGETS) and {plan.kind for plan in plans} == set(KINDS)
    first = sum(plan.strikes[0].share is None for plan in plans)
    assert 0 < first < len(strikes) / 5, "of the kills four in five must fall after the first task"
    for plan in plans:
        shares = [strike.share for strike in plan.strikes if strike.share is not None]
        assert shares == sorted(shares)
        assert "worker worker worker" not in " ".join(strike.target for strike in plan.strikes)
        assert plan.needs_server == any(strike.target == "tracking server" for strike in plan.strikes)


def test_what_a_kill_costs() -> None:
    ended, running = make_trial(0, value=70.0), make_trial(1, tasks=2)
    again = replace(running, rows=[running.rows[0], running.rows[1] | {"seconds/training": 9.0}])
    further = make_trial(1, value=60.0)
    before = {"": [ended, running]}
    assert cost(before, {"": [ended, running]}) == cost(before, {"": [ended, further]}) == (0, 0, 0)
    assert cost(before, {"": [ended, again]}) == (0, 1, 1)
    assert cost(before, {"": [ended, replace(running, rows=[])]}) == (0, 2, 2)
    assert cost(before, {"": [ended]}) == cost(before, {"": [replace(ended, value=1.0), running]}) == (1, 0, 0)
    assert cost(before, {}) == (2, 0, 0)
    assert different({"": [ended, again]}, before) == 0 and different({"": [ended]}, before) == 1
    assert different({"": [ended, replace(running, seed=1)]}, before) == different({}, before) == 1


def test_a_round_that_costs_more_than_a_task_is_not_clean() -> None:
    assert ROUND.is_clean
    for name in ("doubled", "missing", "different", "stuck", "processes", "locks", "files"):
        assert not replace(ROUND, **{name: 1}).is_clean, name
    for kill in (replace(KILL, lost=1), replace(KILL, most=2)):
        assert not replace(ROUND, kills=(kill,)).is_clean


def test_rounds_are_kept_and_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    assert read_rounds(path) == []
    for number in (3, 4):
        keep(path, replace(ROUND, number=number, files=number))
    rounds = read_rounds(path)
    assert rounds == [replace(ROUND, number=number, files=number) for number in (3, 4)]
    found = tables(rounds)
    said = found["summary"]
    assert "**4 kills** in 2 rounds, 2 of them (50 %)" in said and "2 tasks, of a running trial at most 1" in said
    assert "7 files" in said and "seed 0; 2026-11-22; commit abc1234" in said
    assert f"| {PHASES[2]} | 2 | 0 | 2 | 1 |" in found["phase"] and "| **all** | 4 | 0 | 2 | 1 |" in found["phase"]
    assert "| driver | 4 | 0 | 2 | 1 |" in found["target"] and "| search | 4 | 0 | 2 | 1 |" in found["kind"]


@pytest.mark.parametrize("name", ["summary", "phase", "target", "kind"])
def test_the_page_has_a_place_for_each_table(name: str) -> None:
    assert "| 4 |" in replaced(_PAGE.read_text(encoding="utf-8"), f"soak {name}", "| 4 |")


def test_what_is_left_behind_is_found(tmp_path: Path) -> None:
    for name in ("a.lock", "driver.lock", "record/.t.parquet.7.tmp", "state.safetensors", ".write-probe-7"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".run.7.tmp").mkdir()
    left = sorted(path.name for path in temporary_files(tmp_path))
    assert left == [".run.7.tmp", ".t.parquet.7.tmp", ".write-probe-7"]
    assert held_locks(tmp_path) == []
    with FileLock(tmp_path / "driver.lock"):
        assert held_locks(tmp_path) == [tmp_path / "driver.lock"]
