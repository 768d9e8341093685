"""The wrong decisions of `decisions.csv` fit the code: else a change of the code would leave them untried."""

from __future__ import annotations

import csv

from tests.mutants.decisions import FILE
from tests.mutants.targets import ROOT


def test_each_wrong_decision_that_a_test_notices_fits_the_code() -> None:
    with FILE.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["by"]]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in {row["file"] for row in rows}}
    tests = {name: (ROOT / name).exists() for name in {row["by"].partition("::")[0] for row in rows}}
    misfits = [f"{row['file']}: {row['wrong']}" for row in rows if texts[row["file"]].count(row["before"]) != 1]
    assert misfits == [] and [name for name, there in tests.items() if not there] == []
