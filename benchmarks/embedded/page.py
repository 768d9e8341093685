"""Write the tables of pages about the embedded benchmarks, and about methods on them, from `measured/NAME.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import processors
from benchmarks.embedded import distance, probe, settings
from benchmarks.embedded.settings import FIGURES, NAME, RATES
from benchmarks.performance.kept import Measured
from benchmarks.results.page import as_table, write

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("reference/benchmarks.md", "explanation/same-numbers.md", "explanation/settings.md")
MEASURED = Path(__file__).parent / "measured"
BENCHMARKS = {
    "probe": probe.run,
    "distance": distance.run,
    "processors": processors.run,
    NAME: settings.run,
    RATES: settings.run_rates,
}


def write_pages(docs: Path = DOCS, folder: Path = MEASURED) -> None:
    """Write the tables of all pages."""
    write(tables(folder), *(docs / name for name in PAGES))


def tables(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of the pages, by place; each is followed by the day and the commit of its figures."""
    read = {name: Measured.of(name, folder) for name in BENCHMARKS}
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
        RATES: as_table(("lr", "all regularised", "nothing regularised", "difference"), _rates(read[RATES].rows)),
        NAME: as_table(("method", "setting", "judged by", *FIGURES), map(_setting, read[NAME].rows)),
    }
    return {name: f"{table}\n\n{read[name].when}" for name, table in made.items()}


def _distance(row: Mapping[str, Any]) -> tuple[str, ...]:
    means = row["theta_0, percent"], row["joint, percent"]
    cells = (f"{row[f'{name}, percent']:.1f} ± {row[f'{name}, deviation']:.1f} %" for name in ("theta_0", "joint"))
    return f"`{row['benchmark']}`", *cells, f"{means[1] - means[0]:.1f}"


def _rates(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each learning rate from its two rows."""
    for both in zip(rows[::2], rows[1::2], strict=True):
        regularised, free = (row["accuracy"] for row in both)
        yield str(both[0]["lr"]), *(f"{value:.2f}" for value in (regularised, free, regularised - free))


def _setting(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a setting, with a figure for each seed that has one."""
    accuracy, *others = FIGURES
    first = ", ".join("diverged" if value is None else f"{value:.1f}" for value in row[accuracy])
    rest = (", ".join(f"{value:.1f}" for value in row[name] if value is not None) for name in others)
    return f"`{row['method']}`", row["setting"], row["judged by"], first, *rest


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
