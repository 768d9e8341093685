"""Write the tables of docs/explanation/gpu.md that have a kept file. Before the file is there, its table says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu.named import COST, MEASURED
from benchmarks.performance import kept
from benchmarks.performance.kept import Kept
from benchmarks.planning.table import DATASETS
from benchmarks.results.page import as_table, filled

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "gpu.md"
OTHERWISE = "cost otherwise"
COLUMNS = ("a trial, min", "shared, min", "24 trials, GPU h", "`asha`", "no cache", "no cache, `asha`", "peak, GiB")
NOT_YET = f"Not measured yet: `python -m benchmarks.gpu {COST}` measures it on a machine with a GPU."


def write_page(page: Path = PAGE, folder: Path = MEASURED) -> None:
    """Write all tables of the page."""
    page.write_text(filled(page.read_text(encoding="utf-8"), tables(folder)), encoding="utf-8")
    print(f"written: {page}")


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the page, by place."""
    found = kept.read([COST], folder).get(COST)
    if found is None:
        return {"cost": NOT_YET, OTHERWISE: NOT_YET}
    usual = [row for row in found.rows if _is_usual(row)]
    others = [row for row in found.rows if not _is_usual(row)]
    beside = [row for row in usual if any(_same(row, other) for other in others)]
    return {
        "cost": f"{_table(('dataset', 'method'), usual)}\n\n{_when(found)}",
        OTHERWISE: _table(("dataset", "method", "precision", "threads"), [*beside, *others]),
    }


def _is_usual(row: Mapping[str, Any]) -> bool:
    return row["precision"] == "bf16" and row["threads"] == 1


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (row["dataset"], row["method"]) == (other["dataset"], other["method"])


def _table(about: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    lines = (
        (*(f"`{row[each]}`" if each in ("dataset", "method") else str(row[each]) for each in about), *_cells(row))
        for row in sorted(rows, key=lambda row: [*DATASETS].index(row["dataset"]))
    )
    return as_table((*about, *COLUMNS), lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "fault" in row:
        return row["fault"], *("" for _ in COLUMNS[1:])
    own = sum(row[f"trial: {part}"] for part in ("beginning", "training", "evaluation"))
    shared = row["trial: pre-consolidation"]
    hours = ("", ", early stopping", ", not shared", ", early stopping, not shared")
    return (
        f"{own / 60:.1f}",
        f"{shared / 60:.1f}" if shared else "none",
        *(f"{row[f'GPU hours{which}']:.2f}" if shared or "not" not in which else "" for which in hours),
        f"{row['peak']:.1f}",
    )


def _when(found: Kept) -> str:
    """Return where and when the figures were measured, as a sentence."""
    machine = found.machine
    card = f"one {machine.gpu or 'GPU whose model was not noted'}"
    driver = "" if machine.driver is None else f" with driver {machine.driver}"
    where = f"{card}{driver}, {machine.cores} cores, PyTorch {machine.torch}"
    return f"Figures of {found.day}, commit {found.commit}: {where}."
