"""Pages whose tables a command writes have a place for each of its tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.curvature import page as curvature
from benchmarks.curvature.measuring import read_all
from benchmarks.embedded import page as embedded
from benchmarks.planning import page as planning
from benchmarks.results.page import filled, places
from benchmarks.soak import command
from tests.mutants import page as mutants
from tests.support.written_pages import kept_and_written


@pytest.mark.parametrize(
    ("page", "names"),
    [(mutants.PAGE, {"mutants"}), (command._PAGE, {f"soak {name}" for name in ("summary", "phase", "target", "kind")})],
)
def test_it_has_a_place_for_each_table(page: Path, names: set[str]) -> None:
    assert names <= set(places(page.read_text(encoding="utf-8")))


def test_pages_of_the_embedded_benchmarks_are_what_the_kept_files_say(tmp_path: Path) -> None:
    texts, written = kept_and_written(embedded.PAGES, embedded.DOCS, embedded.write_pages, tmp_path)
    assert written == texts
    assert {file.stem for file in embedded.MEASURED.iterdir()} == set(embedded.tables())


def test_the_page_of_kronecker_factors_is_what_the_kept_files_say(tmp_path: Path) -> None:
    page = Path(shutil.copy(curvature.KRONECKER, tmp_path))
    curvature.write_kronecker(page)
    assert page.read_text(encoding="utf-8") == curvature.KRONECKER.read_text(encoding="utf-8")


def test_the_page_of_curvature_is_what_the_kept_files_say() -> None:
    text = curvature.PAGE.read_text(encoding="utf-8")
    assert filled(text, curvature.tables(curvature.sorted_rows(read_all()))) == text


def test_the_page_of_the_simulation_has_what_the_kept_files_say() -> None:
    (held,) = planning.held().values()
    text = planning.PAGE.read_text(encoding="utf-8")
    assert held in text and planning.work() in text


@pytest.mark.parametrize("folder", ["explanation", "reference"])
def test_no_page_has_a_mean_and_a_deviation_that_is_typed(folder: str) -> None:
    pages = sorted((embedded.DOCS / folder).rglob("*.md"))
    written = re.compile(r"<!-- table: .*?<!-- end -->|```.*?```", re.DOTALL)
    rest = {page.name: written.sub("", page.read_text(encoding="utf-8")) for page in pages}
    assert len(rest) > 9 and not [name for name, text in rest.items() if re.search(r"\d ?(±|\+-) ?\d", text)]


def test_the_scores_are_of_the_mutants_tried() -> None:
    parts = {"science": mutants.Score(4, [_result("killed"), _result("survived")]), "platform": mutants.Score(3)}
    rows = mutants.summary(parts).splitlines()
    assert rows[2] == "| science | 4 | 2 | 1 | 0 | 50 % | 90 % |"
    assert rows[3] == "| platform | 3 | 0 | 0 | 0 | not tried | 85 % |"
    assert rows[-1] == "Results of 2026-01-02."


def _result(outcome: str) -> mutants.Result:
    told = {"key": "", "module": "m", "function": "f", "before": "a = 1", "after": "a = 2"}
    return mutants.Result(**told, outcome=outcome, by="", seconds=0.0, commit="", day="2026-01-02")
