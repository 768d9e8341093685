"""Write docs/explanation/curvature.md with its picture, and the tables of kronecker.md, from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.curvature.measuring import read_all
from benchmarks.curvature.picture import NAMES, draw, shares
from benchmarks.curvature.running import BENCHMARKS, COMPARED
from benchmarks.curvature.views import VIEWS, correlations
from benchmarks.performance.kept import Measured
from benchmarks.results.page import as_table, write
from trainables.backbones import EMBEDDED

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "explanation" / "curvature.md", DOCS / "images" / "curvature.png"
KRONECKER, TIMED = DOCS / "explanation" / "kronecker.md", Path(__file__).parent / "timed"
STEPS = "curvature-steps"
CURVATURES = ("diagonal", "kronecker", "none", "tak-past", "tak-generic")
HEADER = (
    *("benchmark", "system", "curvature", "validation: start, best", "test", "incremental"),
    *("specialised: target, control", "unlearned: target, control", "risk, bound", "cosine"),
)
Row = dict[str, Any]


def write_page() -> None:
    """Write the page's tables and its picture."""
    found = sorted_rows(read_all())
    write(tables(found), PAGE)
    draw(found, PICTURE)
    write_kronecker()


def write_kronecker(page: Path = KRONECKER, folder: Path = TIMED) -> None:
    """Write the tables of kronecker.md."""
    steps = Measured.of(STEPS, folder)
    table = as_table(("backbone", "CPU seconds, diagonal", "Kronecker / diagonal"), _steps(steps.rows))
    write({STEPS: f"{table}\n\n{steps.when}"}, page)


def _steps(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        backbone = "embedded ViT" if row["backbone"] == EMBEDDED else "ViT-B/16"
        yield backbone, f"{row['diagonal, CPU seconds']:.2g}", f"{row['kronecker over diagonal']:.2f}"


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Return the tables of the page, by place."""
    return {"cells": as_table(HEADER, map(_cells, rows)), "gains": _gains(rows), "views": _views(rows)}


def _gains(rows: Sequence[Row]) -> str:
    """Return what each penalty gains over none: a line for each system, a column for each benchmark and penalty."""
    accuracy = {
        (row["method"], row["benchmark"], row["curvature"]): row["test"]["test/final_accuracy"][0] for row in rows
    }
    columns = [(benchmark, curvature) for benchmark in BENCHMARKS for curvature in CURVATURES[:2]]
    lines = (
        (f"`{method}`", *(f"{accuracy[method, *each] - accuracy[method, each[0], 'none']:+.1f}" for each in columns))
        for method in COMPARED
    )
    return as_table(("", *(", ".join(each) for each in columns)), lines)


def _views(rows: Sequence[Row]) -> str:
    """Return medians over runs: what each view keeps of Gauss-Newton's, and its correlation with the true rise."""
    lines = []
    for benchmark in BENCHMARKS:
        runs = [row["views"] for row in rows if row["benchmark"] == benchmark and row["views"]]
        kept, ordered = [shares(run) for run in runs], [correlations(run) for run in runs]
        lines.append((f"{benchmark}: kept", *(f"{100 * median(each[view] for each in kept):.1f} %" for view in VIEWS)))
        lines.append(
            (f"{benchmark}: correlation", *(f"{median(each[view] for each in ordered):.2f}" for view in VIEWS))
        )
    return as_table(("", *NAMES), lines)


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in the order of the page."""
    orders = {"benchmark": BENCHMARKS, "method": (*COMPARED, "tak"), "curvature": CURVATURES}
    return sorted(rows, key=lambda row: [order.index(row[name]) for name, order in orders.items()])


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
