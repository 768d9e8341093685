"""The wrong decisions of `decisions.csv` and the reasons of survivors fit the code: else a change would lose them."""

from __future__ import annotations

import csv

import yaml

from tests.mutants.decisions import FILE
from tests.mutants.targets import ROOMS, ROOT


def test_each_wrong_decision_that_a_test_notices_fits_the_code() -> None:
    with FILE.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["by"]]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in {row["file"] for row in rows}}
    tests = {name: (ROOT / name).exists() for name in {row["by"].partition("::")[0] for row in rows}}
    misfits = [f"{row['file']}: {row['wrong']}" for row in rows if texts[row["file"]].count(row["before"]) != 1]
    assert misfits == [] and [name for name, there in tests.items() if not there] == []


def test_each_reason_of_a_survivor_names_what_is_mutated() -> None:
    reasons = yaml.safe_load((ROOT / "tests/mutants/reasons.yaml").read_text(encoding="utf-8"))
    texts = {f"{name}.": file.read_text("utf-8") for room in ROOMS for name, file in room.sources().items()}

    def has(module: str, place: str) -> bool:
        names = filter(None, place.removeprefix(module).split("."))
        found = all(f"def {name}(" in texts[module] or f"class {name}" in texts[module] for name in names)
        return module.startswith(place) or (place.startswith(module) and found)

    places = [each["where"].partition("*")[0] for each in reasons]
    assert [place for place in places if not any(has(module, place) for module in texts)] == []
