"""The page of a report: what stands in it, what happens to what cannot be read, and that texts stay texts."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Choices, Range
from tausearch.presentation import Axis, Column, Facet, Plot, Series, Table
from tausearch.reports import ReportCell, compare, paper_results, read_final_run, write_report
from tausearch.reports.comparison.tables import comparison_tables
from tausearch.reports.html.pairs import cell_of
from tausearch.reports.html.plots import PagePlot
from tausearch.reports.html.tables import task_accuracy_table
from tausearch.reports.html.views import RunPlots, read_cell
from tausearch.runs import Record, Reevaluate, RunDirectory, Storage, TrialSummary, read_spec, read_status
from tests.support.runs.trials import FIXED, final_spec, search_spec
from tests.tausearch.reports.html.runs import add_compositions, finished, make_final, make_search, write
from trainables.errors import InputError
from trainables.metrics import TEST

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>&amp;\'</title>'
PLOTS = ["History", "Task by task", "What accuracy costs", "Importances", "The two that matter most"]
PLOTS += ["Early stopping's trust", "alpha", "lr"]


class Page(HTMLParser):
    """What a browser makes of the page: its elements, its tables as text, its plots."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.plots: list[dict[str, Any]] = []
        self.says: list[dict[str, str]] = []
        self.rows: list[list[str]] = []
        self._inside: list[str] = []
        self.feed(
            re.sub(
                r"<script( type=.text/plain.*?)?>.*?</script>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL
            )
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            continue

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        if inside == "script":
            (self.says if self.tags[-1][1].get("class") == "trials" else self.plots).append(json.loads(data))
            return
        self.texts.append(data)
        if {"td", "th"} & set(self._inside):
            self.rows[-1][-1] += data

    def count(self, tag: str, **attributes: str) -> int:
        return sum(name == tag and attributes.items() <= had.items() for name, had in self.tags)

    @property
    def text(self) -> str:
        return "".join(self.texts)


pytestmark = pytest.mark.usefixtures("quick_report")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> ReportCell:
    """A search and its final run with compositions, which no test changes."""
    storage = Storage(tmp_path_factory.mktemp("done"))
    found = cell(make_search(storage), make_final(storage))
    add_compositions(found.final)
    return found


@pytest.fixture(scope="module")
def file(done: ReportCell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report("a report", [done], tmp_path_factory.mktemp("page") / "out" / "of it" / "report.html")


@pytest.fixture(scope="module")
def page(file: Path) -> Page:
    return Page(file)


def report(cells: list[ReportCell], tmp_path: Path, **more: Any) -> Page:
    return Page(write_report("a report", cells, tmp_path / "out" / "report.html", **more))


def cell(search: RunDirectory | None, final: RunDirectory | None = None) -> ReportCell:
    return ReportCell("digits", "ita-lora", search, final, "done")


def test_a_search_and_its_final_run_stand_in_the_page(page: Page, done: ReportCell) -> None:
    assert done.search is not None
    titles = [name for name, had in page.tags if name == "b"]
    assert len(titles) == len(page.plots) == 1 + len(PLOTS)
    assert all(title in page.text for title in PLOTS)
    assert done.search.best_file.read_text(encoding="utf-8") in page.text
    # Means over both seeds: 90, 80, 70 when learned, then 10 and 11 points less with every task.
    assert ["1", "90.00", "", ""] in page.rows and ["3", "69.00", "69.50", "70.00"] in page.rows
    assert ["forgetting", "21.00", "10.50", ""] in page.rows
    assert ["keep-1,3", "linear", "0, 1", "51.00 ± 1.41", "61.00 ± 1.41", "41.00 ± 1.41", "51.00 ± 1.41"] in page.rows
    # Unlearned: 10, 20, 30 on the task itself; the whole has 50.
    assert ["unlearned, drop", "20.00", "-30.00", "70.00", "+20.00"] in page.rows
    assert any(row[:2] == ["11", "failed"] and row[-1] == "out of memory" for row in page.rows)
    assert ["alpha", "5.2", "0.1 to 10, logarithmic"] in page.rows
    assert ["lr_pre", "0.1", "fixed"] in page.rows


def test_every_plot_has_a_text_and_every_table_headers(page: Page) -> None:
    pictures = [had for _, had in page.tags if had.get("role") == "img"]
    assert len(pictures) == len(page.plots) and all(len(had["aria-label"] or "") > 10 for had in pictures)
    assert page.count("table") == page.count("div", role="region", tabindex="0") > 3
    assert page.count("th", scope="col") > 10 and page.count("th", scope="row") > 10
    assert page.count("html", lang="en") == 1


def test_the_page_needs_no_network_and_is_small_enough(file: Path, page: Page) -> None:
    assert 1e6 < file.stat().st_size < 3e6  # plotly.js is in it once, packed
    asked = [had["href"] for _, had in page.tags if "href" in had and not (had["href"] or "").startswith("#")]
    assert asked == ["data:,"] and not [had for _, had in page.tags if "src" in had]  # an icon: browsers ask for one
    policy = next(had["content"] for _, had in page.tags if had.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'") and "http" not in policy


def test_many_cells_have_a_table_that_leads_to_them(done: ReportCell, tmp_path: Path) -> None:
    page = report([done, ReportCell("glyphs", "iel-fft", None, None, "waiting")], tmp_path)
    (first, second) = [row for row in page.rows if row[0] in ("ita-lora on digits", "iel-fft on glyphs")]
    assert first == ["ita-lora on digits", "done", "89.20", "69.50 ± 0.71", "77.50 ± 0.71", "15.00 ± 0.00"]
    assert second == ["iel-fft on glyphs", "waiting", "", "", "", ""]
    assert page.count("a", href="#cell-1") == page.count("details", id="cell-1") == 1
    assert "open" not in dict(page.tags)["details"] and "Nothing has run yet" in page.text


def test_plots_that_were_drawn_before_are_shown_in_place_of_others(done: ReportCell, tmp_path: Path) -> None:
    assert done.search is not None
    drawn = RunPlots([PagePlot("Drawn before", "a caption", "{}", 100)], faults=["one is missing"])
    page = report([done], tmp_path, drawn={done.search.name: drawn})
    assert "Drawn before" in page.text and "one is missing" in page.text and "History" not in page.text
    other = report([done], tmp_path, drawn={"another": drawn})
    assert "Drawn before" not in other.text and "History" in other.text


def test_a_single_run_has_no_such_table_and_is_open(storage: Storage, tmp_path: Path) -> None:
    page = report([cell(None, make_final(storage))], tmp_path)
    assert page.count("a") == 0 and "open" in dict(page.tags)["details"]


def test_forgetting_is_counted_from_the_highest_accuracy_of_a_task() -> None:
    """Task 1 improves while task 2 is learned, and then loses 25 points."""
    reached = [[70.0], [85.0, 80.0], [60.0, 75.0, 90.0]]
    rows = [
        {"task": float(now), **{TEST.accuracy(task): value for task, value in enumerate(row, 1)}}
        for now, row in enumerate(reached, 1)
    ]
    spec = final_spec(search_spec())
    trial = TrialSummary(0, 0, "complete", spec.fixed, rows, 75.0)
    table = task_accuracy_table(spec, [trial])
    assert table.rows[-1] == ("forgetting", "25.00", "5.00", "") and table.title.endswith("(rows), percent")
    assert task_accuracy_table(spec, [trial, trial]).title.endswith("(rows), percent, mean over 2 seeds")
    alone = TrialSummary(0, 0, "complete", spec.fixed, rows[:1], 70.0)
    assert len(task_accuracy_table(spec, [alone]).rows) == 1, "nothing can be forgotten of a single task"


def test_the_comparison_says_what_differs_in_protocol(storage: Storage, tmp_path: Path) -> None:
    final = make_final(storage, benchmark="cifar100")
    _, run = read_final_run(final)
    assert run is not None
    tables = [table for each in compare([run], paper_results()) for table in comparison_tables(each, paper_results())]
    page = report([cell(None, final)], tmp_path, comparison=tables)
    assert any(row[0] == "ita-lora" and "tasks 3, the paper's 10" in row[2] for row in page.rows)
    assert any(row[0] == "ewc" for row in page.rows)


def test_texts_stay_texts(storage: Storage, tmp_path: Path) -> None:
    space = {
        HOSTILE: Range(low=0.1, high=10, log=True, grid=(1,)),
        "lr": Range(low=0.001, high=0.1, log=True, grid=(0.01,)),
        "way": Choices(choices=(HOSTILE, "plain")),
    }
    start = {HOSTILE: 1, "lr": 0.01, "way": "plain"}
    directory = make_search(storage, space=space, start=start, method="ita-lora")
    spec = read_spec(directory)
    trials = [finished(number) for number in range(8)]
    for trial in trials:
        way = HOSTILE if trial.number % 2 else "plain"
        trial.hyperparameters = {HOSTILE: 0.2 + trial.number, "lr": 0.002 + 0.001 * trial.number, "way": way, **FIXED}
    for trial in trials[6:]:
        trial.status, trial.value, trial.error = "failed", None, HOSTILE
        trial.rows.pop()
    shutil.rmtree(directory.record)
    write(spec, directory, trials)
    directory.best_file.write_text(f"# {HOSTILE}\n", encoding="utf-8")
    page = report([ReportCell(HOSTILE, HOSTILE, directory, None, HOSTILE)], tmp_path)
    assert "cannot be" not in page.text and len(page.plots) == 9
    assert page.count("img") == 0 and page.count("script") == len(page.plots) + 1
    assert all(had["type"] == "application/json" for name, had in page.tags if name == "script")
    assert page.text.count(HOSTILE) > 8
    # Nor does plotly, which reads markup, get any of it.
    drawn = json.dumps([*page.plots, *page.says])
    assert "<img" not in drawn and "<script" not in drawn and "&lt;script" in drawn


def test_what_cannot_be_read_becomes_a_line(storage: Storage, tmp_path: Path) -> None:
    search, final = make_search(storage), make_final(storage)
    (final.record / "trial-00000.parquet").write_bytes(b"no parquet")
    search.best_file.write_bytes(b"\xff\xfe")
    page = report([cell(search, final)], tmp_path)
    faults = page.count("p", **{"class": "fault"})
    assert faults == 2 and "trial-00000.parquet: is damaged" in page.text
    assert "best.yaml: is not a text file" in page.text
    assert len(page.plots) == len(PLOTS)  # the search's are all there
    search.best_file.write_text("#" * 2**20 + "\n", encoding="utf-8")
    assert "best.yaml: cannot be read (has more than 1,048,576 bytes)" in report([cell(search, final)], tmp_path).text


@pytest.fixture(scope="module")
def tables(done: ReportCell, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many tables a final run has whose files are all sound."""
    return report([cell(None, done.final)], tmp_path_factory.mktemp("sound")).count("table")


@pytest.mark.parametrize(
    "name", ["run.yaml", "results.json", "compositions/evaluation.json", "compositions/keep-1,3.json"]
)
def test_each_file_of_a_final_run_may_be_damaged(name: str, tables: int, storage: Storage, tmp_path: Path) -> None:
    final = make_final(storage)
    add_compositions(final)
    (final.path / name).write_text("{", encoding="utf-8")
    page = report([cell(None, final)], tmp_path)
    assert page.count("p", **{"class": "fault"}) == 1 and name in page.text
    assert page.count("table") == (0 if name == "run.yaml" else tables - 1)


def test_a_damaged_composition_costs_no_other(tables: int, storage: Storage, tmp_path: Path) -> None:
    final = make_final(storage)
    add_compositions(final)
    (final.path / "compositions" / "drop-1.json").write_text("{", encoding="utf-8")
    page = report([cell(None, final)], tmp_path)
    assert page.count("p", **{"class": "fault"}) == 1 and page.count("table") == tables


def test_a_run_that_is_gone_becomes_a_line(storage: Storage, tmp_path: Path) -> None:
    page = report([cell(storage.run("gone"), None)], tmp_path)
    assert "no run named 'gone'" in page.text and "InputError" not in page.text


def test_a_plot_above_the_cells_is_as_high_as_its_methods_need(tmp_path: Path) -> None:
    lines = [Series([1, 2], [3, 4], name, kind="line") for name in ("ewc", "ita-lora", "iel-fft")]
    plots = [Plot("t", "c", Axis("y"), [Facet(Axis("x"), lines[:count])]) for count in (1, 3)]
    page = report([], tmp_path, plots=plots)
    assert [had["style"] for _, had in page.tags if had.get("role") == "img"] == ["height:332px", "height:356px"]


def test_every_table_of_a_comparison_stands_in_the_page(tmp_path: Path) -> None:
    tables = [Table(title, [Column("method")], [(title,)]) for title in ("one", "other")]
    page = report([], tmp_path, comparison=tables)
    assert "within 2 sd" not in page.text  # no table has the column
    beside = Table("beside", [Column("method"), Column("within 2 sd")], [("one", "yes")])
    assert "within 2 sd: in parentheses" in report([], tmp_path, comparison=[*tables, beside]).text
    assert ["one"] in page.rows and ["other"] in page.rows


def test_a_record_that_is_not_of_the_run_costs_no_more_than_its_plots(storage: Storage, tmp_path: Path) -> None:
    directory = make_search(storage)
    trial = finished(0)
    del trial.hyperparameters["alpha"]
    write(read_spec(directory), directory, [trial])
    page = report([cell(directory)], tmp_path)
    assert "trial 0 is not of this run: it has no 'alpha'" in page.text


def test_fresh_runs_stand_below_the_choice(storage: Storage, tmp_path: Path) -> None:
    search = make_search(storage, reevaluate=Reevaluate(best=2, runs=1))
    assert "fresh runs" not in report([cell(search)], tmp_path).text
    spec = read_status(search).reevaluation.spec  # type: ignore[union-attr]
    Record(search.reevaluation.record, metric_names=spec.metrics, tasks=3).write(
        TrialSummary(5 * 100, spec.seed_of(5 * 100), "running", finished(5).hyperparameters)
    )
    assert "fresh runs" in report([cell(search)], tmp_path).text


def test_a_search_without_a_finished_trial_has_a_page(storage: Storage, tmp_path: Path) -> None:
    directory = make_search(storage)
    for number in range(8):
        (directory.record / f"trial-{number:05d}.parquet").unlink()
    directory.best_file.unlink()
    page = report([cell(directory)], tmp_path)
    assert "cannot be" not in page.text and len(page.plots) == 1 and page.count("pre") == 0


def test_a_file_that_cannot_be_written_is_named(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"report .*file/report.html: cannot be written"):
        write_report("t", [], f"{tmp_path}/file/report.html")  # a text does as well as a path


def test_a_single_run_brings_the_other_along(storage: Storage) -> None:
    search = make_search(storage)
    assert cell_of(storage, "the-search").final is None
    final = make_final(storage)
    make_final(storage, "elsewhere", benchmark="glyphs")
    make_final(storage, "other-method", method="iel-lora")
    for name in ("the-search", "the-final"):
        found = cell_of(storage, name)
        assert (found.search, found.final, found.state) == (search, final, "search and final run")
    assert cell_of(storage, "elsewhere").search is None
    newer = make_final(storage, "a-newer")
    assert cell_of(storage, "the-search").final == newer
    make_final(storage, "with-lr", overrides={"lr": 0.002})
    found = cell_of(storage, "the-search")
    assert found.final == newer and [each.name for each in found.others] == ["with-lr", "the-final"]
    assert read_cell(found).final.facts["other final runs"] == "with-lr (lr=0.002), the-final"  # type: ignore[union-attr]
    assert read_cell(cell_of(storage, "with-lr")).final.facts["overridden"] == "lr=0.002"  # type: ignore[union-attr]
    protocol = search_spec().protocol.model_copy(update={"class_orders": (3,)})
    make_final(storage, "over-orders", protocol=protocol)
    make_final(storage, "damaged").spec_file.write_text("{")
    make_final(storage, "damaged-elsewhere", source="another").spec_file.write_text("purpose: final\nsource: another")
    view = read_cell(cell_of(storage, "the-search"))
    assert view.cell.final == newer, "the benchmark's own class order leads, though it is older"
    assert view.final is not None and "over-orders (class orders 3)" in view.final.facts["other final runs"]
    (fault,) = view.faults
    assert "damaged/run.yaml" in fault and fault.endswith("may be a final run of this search")
    search.best_file.write_text(f"method: {search_spec().method}\nhyperparameters: {{lr: 0.02}}\n")
    make_final(storage, "of-an-earlier-choice", fixed={**FIXED, "alpha": 2.0, "lr": 0.03})
    assert cell_of(storage, "the-search").final == newer  # the search has come back to this choice
    with pytest.raises(InputError, match="no run named 'none'"):
        cell_of(storage, "none")
    (search.record / "trial-00000.parquet").write_bytes(b"no parquet")
    assert cell_of(storage, "the-search").final == newer  # the page says what is lost
    search.spec_file.write_text("{")
    assert cell_of(storage, "the-final").search == search  # the page says that it cannot be read
