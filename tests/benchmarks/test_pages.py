"""Pages whose tables a command writes have a place for each of its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.results.page import places
from benchmarks.soak import command
from tests.mutants import page as mutants


@pytest.mark.parametrize(
    ("page", "names"),
    [(mutants.PAGE, {"mutants"}), (command._PAGE, {f"soak {name}" for name in ("summary", "phase", "target", "kind")})],
)
def test_it_has_a_place_for_each_table(page: Path, names: set[str]) -> None:
    assert names <= set(places(page.read_text(encoding="utf-8")))


def test_the_scores_are_of_the_mutants_tried() -> None:
    parts = {"science": mutants.Score(4, [_result("killed"), _result("survived")]), "platform": mutants.Score(3)}
    rows = mutants.summary(parts).splitlines()
    assert rows[2] == "| science | 4 | 2 | 1 | 0 | 50 % | 90 % |"
    assert rows[3] == "| platform | 3 | 0 | 0 | 0 | not tried | 85 % |"
    assert rows[-1] == "Results of 2026-01-02."


def _result(outcome: str) -> mutants.Result:
    told = {"key": "", "module": "m", "function": "f", "before": "a = 1", "after": "a = 2"}
    return mutants.Result(**told, outcome=outcome, by="", seconds=0.0, commit="", day="2026-01-02")
