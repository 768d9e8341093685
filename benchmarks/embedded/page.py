"""Write the tables of docs/reference/benchmarks.md and docs/explanation/same-numbers.md from `measured/NAME.json`.

`rates` and `seen-elsewhere` were carried over from the pages: no command measures them as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.performance.kept import Measured
from benchmarks.results.page import as_table, filled, of_columns

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("reference/benchmarks.md", "explanation/same-numbers.md")
MEASURED = Path(__file__).parent / "measured"
NAMES = ("probe", "distance", "processors")  # what commands measure
RATES, SEEN = "rates", "seen-elsewhere"


def write_pages(docs: Path = DOCS, folder: Path = MEASURED) -> None:
    """Write the tables of both pages."""
    for page in (docs / name for name in PAGES):
        page.write_text(filled(page.read_text(encoding="utf-8"), tables(folder)), encoding="utf-8")
        print(f"written: {page}")


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the pages, by place; each is followed by the day and the commit of its figures."""
    read = {name: Measured.of(name, folder) for name in (*NAMES, RATES, SEEN)}
    made = {
        "probe": as_table(
            ("benchmark", "test accuracy"),
            ((f"`{row['benchmark']}`", f"{row['accuracy in percent']:.1f} %") for row in read["probe"].rows),
        ),
        "distance": as_table(
            ("benchmark", "classifiers on theta_0", "joint fine-tuning", "difference"),
            map(_distance, read["distance"].rows),
        ),
        "processors": as_table(_HEADER, map(_processors, read["processors"].rows)),
        RATES: as_table(("lr", "all regularised", "nothing regularised", "difference"), map(_rates, read[RATES].rows)),
    }
    return {name: f"{table}\n\n{read[name].when}" for name, table in made.items()} | {
        SEEN: of_columns(read[SEEN].rows, ("what", "found", "written at"))
    }


def _distance(row: Mapping[str, Any]) -> tuple[str, ...]:
    means = row["theta_0, percent"], row["joint, percent"]
    cells = (f"{row[f'{name}, percent']:.1f} ± {row[f'{name}, deviation']:.1f} %" for name in ("theta_0", "joint"))
    return f"`{row['benchmark']}`", *cells, f"{means[1] - means[0]:.1f}"


def _rates(row: Mapping[str, Any]) -> tuple[str, ...]:
    both = row["all regularised"], row["nothing regularised"]
    return str(row["lr"]), *(f"{each:.2f}" for each in (*both, both[0] - both[1]))


_HEADER = ("method", "accuracy, `default`", "`avx2`", "`avx512`", "moved", "state, `avx2`", "state, moved")


def _processors(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a method; an accuracy that is that of `default` is "="."""
    first = row["accuracy, default"]
    return row["method"], f"{first:.2f}", *_elsewhere(row, first)


def _elsewhere(row: Mapping[str, Any], first: float) -> Iterator[str]:
    for way in ("avx2", "avx512", "moved"):
        accuracy = row.get(f"accuracy, {way}")
        yield "" if accuracy is None else "=" if accuracy == first else f"{accuracy:.2f}"
    for way in ("avx2", "moved"):
        yield f"{float(row.get(f'state, {way}', 'nan')):.1e}"
