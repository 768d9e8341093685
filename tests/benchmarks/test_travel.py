"""The benchmark of one configuration for all: what is kept, and the table that is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.choosing import travel


def row(benchmark: str, one: list[float], each: list[float], left_out: float | None) -> dict[str, Any]:
    return {"benchmark": benchmark, "one for all": one, "one for each": each, "left out": left_out}


def test_a_system_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(system: str, **_: object) -> list[dict[str, Any]]:
        asked.append(system)
        return [row("digits", [90.0], [91.0], None)]

    monkeypatch.setattr(travel, "measure", measure)
    for systems in (["ita-fft"], ["ita-fft", "iel-ia3"]):
        travel.measure_all(systems, kept=tmp_path / "kept")
    assert asked == ["ita-fft", "iel-ia3"]
    assert sorted(file.stem for file in (tmp_path / "kept").iterdir()) == ["iel-ia3", "ita-fft"]


def test_the_table_pairs_by_seed_and_has_the_order_of_the_systems(tmp_path: Path) -> None:
    kept, page = tmp_path / "kept", tmp_path / "page.md"
    kept.mkdir()
    page.write_text("before\n<!-- table: travel -->\nold\n<!-- end -->\nafter\n")
    rows = {
        "iel-fft": [row("digits", [90.0, 80.0], [91.0, 82.0], 1.5), row("letters", [70.0, 70.0], [69.0, 69.0], None)],
        "ita-lora": [row("digits", [50.0, 50.0], [50.0, 50.0], 0.5)],
    }
    for system, found in rows.items():
        (kept / f"{system}.json").write_text(json.dumps(found))
    travel.write_page(kept, page)
    lines = page.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert lines[4:8] == [
        "| `ita-lora` | `digits` | 50.00 ± 0.00 | 50.00 ± 0.00 | +0.00 ± 0.00 | 0.50 |",
        "| `iel-fft` | `digits` | 85.00 ± 7.07 | 86.50 ± 6.36 | +1.50 ± 0.71 | 1.50 |",
        "| `iel-fft` | `letters` | 70.00 ± 0.00 | 69.00 ± 0.00 | -1.00 ± 0.00 |  |",
        "| mean |  |  |  | +0.17 | 1.00 |",
    ]
