"""The tables of docs/explanation/results.md, as far as they need no campaign."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from benchmarks.results.tables import HEADER, _cells
from tausearch.runs import Score
from trainables.metrics import TEST


def test_a_row_has_each_measure_in_its_column_and_nothing_where_it_was_not_measured() -> None:
    names = (TEST.final_accuracy, TEST.average_incremental_accuracy, TEST.pooled_accuracy, TEST.forgetting)
    scores = {name: Score(mean=10.0 * place, std=1.0, seeds=3) for place, name in enumerate(names, start=1)}
    common: dict[str, Any] = {"accuracy": scores[TEST.final_accuracy], "search": None, "best": None, "reason": None}
    cells = [
        SimpleNamespace(runs=SimpleNamespace(method="new"), scores=scores, **common),
        SimpleNamespace(runs=SimpleNamespace(method="old"), scores={names[0]: scores[names[0]]}, **common),
    ]
    _, _, *rows = _cells(cells).splitlines()  # type: ignore[arg-type]
    new, old = (dict(zip(HEADER, [part.strip() for part in row.split("|")[1:-1]], strict=True)) for row in rows)
    wanted = ("test", "10.00 ± 1.00"), ("incremental", "20.00 ± 1.00"), ("pooled", "30.00 ± 1.00")
    assert new.items() >= {*wanted, ("forgetting", "40.00 ± 1.00")}
    assert old["test"] and not any(old[name] for name in ("incremental", "pooled", "forgetting"))
