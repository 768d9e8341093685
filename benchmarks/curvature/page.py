"""Write the table and the picture of docs/explanation/curvature.md from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.curvature.measuring import read_all
from benchmarks.curvature.picture import draw
from benchmarks.curvature.running import BENCHMARKS, COMPARED
from benchmarks.results.page import as_table, replaced

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "explanation" / "curvature.md", DOCS / "images" / "curvature.png"
CURVATURES = ("diagonal", "kronecker", "none", "tak-past", "tak-generic")
HEADER = (
    *("benchmark", "system", "curvature", "validation: start, best", "test", "incremental"),
    *("specialised: target, control", "unlearned: target, control", "risk, bound", "cosine"),
)
Row = dict[str, Any]


def write_page() -> None:
    """Write the page's tables and its picture."""
    found = sorted(read_all(), key=_place)
    table = as_table(HEADER, map(_cells, found))
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "cells", table), encoding="utf-8")
    draw(found, PICTURE)
    print(f"written: {PAGE} and {PICTURE}")


def _place(row: Row) -> tuple[int, ...]:
    systems = (*COMPARED, "tak")
    places = systems.index(row["method"]), CURVATURES.index(row["curvature"])
    return BENCHMARKS.index(row["benchmark"]), *places


def _cells(row: Row) -> tuple[str, ...]:
    test, searched, risk = row["test"], row["searched"], row["risk"]
    specialised, unlearned = row["specialisation"], row["unlearning"]
    return (
        row["benchmark"],
        f"`{row['method']}`",
        row["curvature"],
        f"{searched['start']:.1f}, {searched['best']:.1f}",
        "{:.1f} ± {:.1f}".format(*test["test/final_accuracy"]),
        "{:.1f}".format(test["test/average_incremental_accuracy"][0]),
        f"{specialised['target_gain'][0]:+.1f}, {specialised['control'][0]:.1f}",
        f"{unlearned['target_gain'][0]:+.1f}, {unlearned['control_gain'][0]:+.1f}",
        f"{risk['composed']:.2f}, {risk['individuals']:.2f}",
        f"{row['cosine']:.2f}",
    )
