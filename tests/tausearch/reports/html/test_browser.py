"""The page in a browser: nothing leaves it, nothing fails in it, and it fits a phone, a desk, paper and the dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tausearch.reports import ReportCell, write_report
from tausearch.runs import Storage
from tests.tausearch.reports.html.browser import CHROMIUM, Page, browser
from tests.tausearch.reports.html.runs import add_compositions, make_final, make_search

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; .ci/setup installs one"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    storage = Storage(folder / "runs")
    search, final = make_search(storage), make_final(storage)
    add_compositions(final)
    done = ReportCell("digits", "ita-lora", search, final, "done")
    return write_report("In a browser", [done, ReportCell("digits", "joint", None, None, "waiting")], folder / "r.html")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_leaves_the_page_and_it_fits(report: Path, page: Page, tmp_path: Path, width: int, dark: bool) -> None:
    page.open(report, width, dark=dark)
    page.screenshot(tmp_path / "page.png")
    assert [url for url in page.requests if not url.startswith("data:")] == [report.as_uri()]
    assert page.complaints == []
    assert page.value("plots.length") == 9 and page.value("document.querySelectorAll('.main-svg').length") >= 9
    assert page.value("document.documentElement.scrollWidth") == width  # wide tables scroll by themselves
    with Image.open(tmp_path / "page.png") as picture:
        assert picture.width == width and picture.height > 2000
        corner = picture.convert("L").getpixel((2, 2))
        assert corner < 60 if dark else corner > 240


def test_text_of_plots_follows_the_readers_colours(report: Path, page: Page) -> None:
    colour = "getComputedStyle(document.querySelector('.xtick text')).fill"
    page.open(report, 1280)
    light = page.value(colour)
    page.open(report, 1280, dark=True)
    assert light == "rgb(26, 32, 43)" and page.value(colour) == "rgb(228, 232, 238)"


def test_a_plot_is_drawn_when_it_comes_near(report: Path, page: Page) -> None:
    page.navigate(report, 360)
    assert page.value("document.querySelectorAll('.main-svg').length") == 0  # the cells are closed
    page.value("location.hash = '#cell-1'")
    page.until("document.getElementById('cell-1').open")
    page.value("plots[0].scrollIntoView()")
    page.until("plots[0].querySelector('.main-svg') !== null")
    assert page.value("[...plots].at(-1).querySelector('.main-svg')") is None  # far below


def test_the_pointer_finds_a_trial_and_its_hyperparameters(report: Path, page: Page) -> None:
    page.open(report, 1280)
    history = "[...plots].find((each) => each.textContent.includes('History')).querySelector('.canvas')"
    page.value(f"Plotly.Fx.hover({history}, [{{curveNumber: 1, pointNumber: 5}}])")
    page.until(f"{history}.querySelector('.hoverlayer text') !== null")
    shown = page.value(f"{history}.querySelector('.hoverlayer').textContent")
    assert "trial 5: 89.20 %" in shown and "alpha = 5.2" in shown


def test_it_prints_every_cell(report: Path, page: Page, tmp_path: Path) -> None:
    page.navigate(report, 1280)
    page.print(tmp_path / "page.pdf")
    assert page.value("[...document.querySelectorAll('details')].every((each) => each.open)") is True
    assert page.value("[...plots].every((each) => each.querySelector('.main-svg'))") is True
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") > 2 and page.complaints == []
