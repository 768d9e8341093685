"""The example that makes the page of results: all that runs, and a page with a place for each table."""

from __future__ import annotations

import pytest

from benchmarks.results.__main__ import DOCS, PAGES
from benchmarks.results.page import filled, places, replaced
from tausearch.campaigns import read_campaign
from tests.support.imports import ROOT
from trainables.data import BENCHMARKS
from trainables.methods import METHODS


def test_it_has_every_method_that_runs_on_the_embedded_benchmarks() -> None:
    cells = read_campaign(ROOT / "examples" / "embedded.yaml").cells
    systems = set(METHODS) - {"probe", "tak"}  # a bound, and a system that is not the paper's
    assert {cell.method for cell in cells} == systems and len(cells) == len(BENCHMARKS) * len(systems)
    assert {cell.benchmark for cell in cells} == set(BENCHMARKS)
    assert all(cell.search == {"trials": 12, "reevaluate": 0} and cell.train == {"seeds": [0, 1, 2]} for cell in cells)


def test_a_table_goes_between_its_markers_and_nowhere_else() -> None:
    page = "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    changed = replaced(page, "x", "| new \\1 |\n")
    assert changed == page.replace("old", "| new \\1 |")
    assert replaced(changed, "y", "z").endswith("<!-- table: y -->\nz\n<!-- end -->\n")
    assert places(page) == ["x", "y"]
    assert filled(page, {"y": "2", "x": "1", "w": "0"}) == replaced(replaced(page, "x", "1"), "y", "2")
    with pytest.raises(KeyError, match="y"):
        filled(page, {"x": "1"})
    for text in (page.replace("x -->", "w -->"), page + page):
        with pytest.raises(ValueError, match="places for the table 'x', needs one"):
            replaced(text, "x", "new")


CELLS = [f"{name}{what}" for name in BENCHMARKS for what in ("", " searches")]
COMPOSED = ["evaluation", "readings", "rules", "risk", "alignment"]


def test_the_pages_have_a_place_for_every_table() -> None:
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES]
    assert sorted(name for text in texts for name in places(text)) == sorted(
        ["provenance", *CELLS, "ablations", *COMPOSED]
    )
