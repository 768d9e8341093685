"""Tables as data and as text: which columns and rows, what is marked, and what other programs read of them."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tausearch.presentation import (
    CellLook,
    Column,
    Table,
    as_csv,
    as_latex,
    as_markdown,
    front_table,
    leave_one_out_table,
    reevaluation_table,
    rows_as_table,
    scores_table,
    terminal_table,
    trials_table,
)
from tausearch.presentation.notebooks import notebook_cell
from tausearch.presentation.run_tables import accuracy_cells
from tausearch.presentation.table_formats import as_html
from tausearch.presentation.tables import gain, note_mark, score
from tausearch.presentation.terminal.text import SafeConsole
from tausearch.runs import LeaveOneOut, Objective, Reevaluate, Reevaluation, ReevaluationSpec, Score, SearchSpec, race
from tests.support.runs.trials import final_spec, make_trial
from trainables.metrics import TEST


def test_notes_have_letters_and_then_doubled_ones() -> None:
    assert [note_mark(number) for number in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "bb", "aaa"]
    assert CellLook(notes=(1, 0)).marks == "b,a"


def test_accuracies_and_gains_have_two_digits_and_gains_a_sign() -> None:
    assert [score(92.605), score(Score(92.604, 0.41, 3)), score(Score(1.0, None, 1))] == [
        "92.61",
        "92.60 ± 0.41",
        "1.00",
    ]
    assert [gain(0.0), gain(-1.5), gain(Score(2.0, 0.5, 2))] == ["+0.00", "-1.50", "+2.00 ± 0.50"]
    column = Column("a", "{:.1f}".format)
    assert [column.text(value) for value in (None, "as it is", 0.0)] == ["", "as it is", "0.0"]


def test_html_escapes_names_and_shows_ranks_notes_and_what_stands_out() -> None:
    looks = {(0, 1): CellLook("best", notes=(0,)), (1, 1): CellLook("second")}
    rows = [("a<b", 1.5), ("c\nd", 0.5)]
    columns = [Column("name"), Column("&", score, right=True)]
    page = as_html([Table("t<", columns, rows, {0: "marked", 1: "faint"}, looks, notes=["<note>"]), Table("", [], [])])
    assert page.startswith("<p><b>t&lt;</b></p><table>")
    assert '<th style="text-align: right">&amp;</th>' in page and page.count("<p>") == 1
    assert '<tr style="font-weight: bold"><td style="text-align: left">a&lt;b</td>' in page
    assert '<td style="text-align: right"><b>1.50</b><sup>a</sup></td>' in page
    assert '<tr style="opacity: 0.6"><td style="text-align: left">c\\nd</td>' in page and "<u>0.50</u>" in page
    assert "<sup>a</sup> &lt;note&gt;<br>" in page


def test_a_notebook_shows_lines_then_tables_then_the_pictures_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"a picture")
    pictures = [tmp_path / "gone.png", tmp_path / "a.png"]
    page = notebook_cell(["x < y", "z"], [Table("", [Column("c")], [("1",)])], pictures)
    assert page.startswith("<p>x &lt; y</p><p>z</p><table>") and page.count("<img") == 1 and 'alt="a"' in page


def test_columns_that_go_take_their_looks_along() -> None:
    looks = {(0, 1): CellLook("best"), (1, 2): CellLook("second")}
    table = Table("t", [Column("a"), Column("b"), Column("c")], [(None, 1, 0), (None, 2, "")], looks=looks)
    assert table.without("b").looks == {(1, 1): CellLook("second")}
    assert table.without_empty().header == ["b", "c"] and table.without_empty("b").header == ["a", "b", "c"]
    twice = Table("t", [Column("error"), Column("b"), Column("error")], [(0.5, 1, None)])
    assert twice.without("error").rows == twice.without_empty().rows == twice.without_empty("error").rows == [(0.5, 1)]


@pytest.mark.parametrize(
    ("columns", "size", "deviation"),
    [
        (4, None, r"1.00 $\pm$ 0.50"),
        (5, r"\footnotesize", r"1.00{\tiny$\pm$0.50}"),
        (6, r"\footnotesize", r"1.00{\tiny$\pm$0.50}"),
        (7, r"\scriptsize", r"1.00{\tiny$\pm$0.50}"),
        (8, r"\fontsize{7}{8.5}\selectfont", r"1.00{\tiny$\pm$0.50}"),
    ],
)
def test_wide_tables_for_papers_are_smaller(columns: int, size: str | None, deviation: str) -> None:
    named = [Column(f"c{n}", score, right=n > 0) for n in range(columns)]
    lines = as_latex([Table("t", named, [("m", *[Score(1.0, 0.5, 2)] * (columns - 1))])]).splitlines()
    assert [line for line in lines if line in (r"\footnotesize", r"\scriptsize") or line.startswith(r"\fontsize")] == (
        [size] if size else []
    )
    assert sum(deviation in line for line in lines) == 1
    assert rf"\begin{{tabular}}{{@{{}}l{'r' * (columns - 1)}@{{}}}}" in lines


@pytest.mark.parametrize(
    ("columns", "printed"), [(7, ["9.99", "10.00", "12.34", "100.00"]), (8, ["9.99", "10.0", "12.3", "100.0"])]
)
def test_of_seven_benchmarks_names_are_smaller_and_large_deviations_shorter(columns: int, printed: list[str]) -> None:
    named = [Column(f"c{n}", score, right=n > 0) for n in range(columns)]
    scores = [Score(1.0, deviation, 2) for deviation in (9.99, 10.0, 12.34, 100.0)]
    text = as_latex([Table("t", named, [("m", *scores, *[None] * (columns - 5))])])
    assert re.findall(r"pm\$([\d.]+)", text) == printed
    names = [r"\rowname c0 & \rowname c1", r"\rowname m & 1.00"]
    assert all((name in text) == (columns > 7) for name in names)


def test_latex_sets_a_single_letter_of_another_script_and_keeps_words_apart_at_a_tab() -> None:
    text = as_latex([Table("t", [Column("digits")], []), Table("t", [Column("my\tdigits 日")], [("a",)])])
    assert r"my digits \beyondlatin{日}{U+65E5} \\" in text
    assert text.count(r"\providecommand{\beyondlatin}") == 1


@pytest.mark.parametrize(
    "name", ["__init__", "a*b* c", "[l](u)", "x\\|y", "`c`", "val/final_accuracy", "[0.1, 0.2]", "<b>"]
)
def test_a_name_is_no_markdown(name: str) -> None:
    page = MarkdownIt().enable("table").render(as_markdown([Table("t", [Column("a")], [(name,)])]))
    assert f"<td>{html.escape(name, quote=False)}</td>" in page
    noted = Table(f"of {name}.", [Column("a")], [("",)], notes=[f"of {name}."], caption=f"of {name}.")
    page = MarkdownIt("commonmark", {"html": True}).render(as_markdown([noted]).replace("\n| a", "\n\n| a"))
    assert page.count(f"of {html.escape(name, quote=False)}.") == 3


def test_markdown_ranks_and_notes() -> None:
    looks = {(0, 1): CellLook("second", (0,)), (1, 1): CellLook("best")}
    columns = [Column("m"), Column("x|y", "\n".join)]
    table = Table("t", columns, [("<a>", ["1", "2"]), ("b", ["2"])], looks=looks, notes=["n < 1"])
    assert as_markdown([replace(table, caption="c")]).splitlines() == [
        *("**t**", "", "c", "", "| m | x\\|y |", "|---|---|"),
        *("| &lt;a&gt; | <u>1<br>2</u><sup>a</sup> |", "| b | **2** |", "", "<sup>a</sup> n &lt; 1<br>"),
    ]


def test_a_name_is_one_line_of_a_table_and_as_it_is_in_csv() -> None:
    name = "a\nb\tc\x1b[1m\x9b\u2028é\udce9.png"
    table, shown = Table("", [Column("class")], [(name,)]), r"a\nb\tc\x1b[1m\x9b\u2028é\xe9.png"
    out = SafeConsole(width=80, file=io.StringIO())
    out.print(terminal_table(table, box=None))
    assert [line.strip() for line in out.file.getvalue().splitlines()] == ["class", shown]  # type: ignore[attr-defined]
    assert as_markdown([table]).splitlines()[-1] == f"| {shown.replace(chr(92), chr(92) * 2)} |"
    assert next(csv.reader(io.StringIO(as_csv(table).partition("\n")[2]))) == [name]


def test_records_become_columns_in_the_order_of_their_first_appearance() -> None:
    first = {"run": "a", "settings": {"lr": 0.1, "k": 2}, "ours": {"mean": 1.23456789, "std": None}}
    second = {"notes": ["x", "y"], "run": "=1+1", "settings": {}, "number": -0.5, "other": "+1", "at": "@x"}
    rows = list(csv.reader(io.StringIO(as_csv(rows_as_table([first, second])))))
    assert rows == [
        ["run", "settings", "ours_mean", "ours_std", "notes", "number", "other", "at"],
        ["a", "lr=0.1; k=2", "1.23456789", "", "", "", "", ""],
        ["'=1+1", "", "", "", "x; y", "-0.5", "'+1", "'@x"],
    ]


def test_a_trial_has_each_accuracy_in_its_own_column(spec: SearchSpec) -> None:
    table = trials_table(spec, [make_trial(0, value=50.0)], None)
    row = dict(zip(table.header, table.rows[0], strict=True))
    names = ("val accuracy", "incremental", "pooled", "forgetting")
    assert [row[name] for name in names] == [50.0, 50.25, 50.5, 1.0]


def test_seeds_over_several_class_orders_say_the_order(spec: SearchSpec) -> None:
    orders = spec.protocol.model_copy(update={"class_orders": (7, 8)})
    final = final_spec(spec, protocol=orders, seeds=(3, 4), trials=4)
    trials = [
        replace(make_trial(n, value=50.0 + n, status="failed" if n == 2 else "complete"), seed=3 + n % 2)
        for n in range(4)
    ]
    table = trials_table(final, trials, None)
    assert table.header[:3] == ["class order", "seed", "status"] and table.title == "seeds"
    assert [row[:2] for row in table.rows] == [(final.class_order(n), 3 + n % 2) for n in range(4)]
    assert len({row[:2] for row in table.rows}) == 4 and table.emphasis == {2: "faint"}
    one = final_spec(spec, protocol=spec.protocol.model_copy(update={"class_orders": (7,)}))
    assert trials_table(one, trials[:1], None).rows[0][:2] == (7, 3)  # another order than the benchmark's own
    assert trials_table(spec, trials, 3).header[:2] == ["trial", "status"]
    assert trials_table(spec, trials[1:], 1).emphasis == {0: "marked", 1: "faint"}  # by its number, not its place


def test_a_front_has_the_forgetting_and_the_time_of_each_trial(spec: SearchSpec) -> None:
    trials = [make_trial(3, value=80.0), make_trial(1, value=70.0)]
    trials[0].rows[0]["seconds/preconsolidation"] = 2.0  # later trials take it from the cache
    table = front_table(spec, trials, 3)
    assert [row[:2] for row in table.texts] == [["3", "80.00"], ["1", "70.00"]] and table.emphasis == {0: "marked"}
    assert table.texts[0][2:] == ["1.00", "4.5", "4", "0.01"]
    whole = trials_table(spec, trials, None)
    assert [row[whole.header.index("time")] for row in whole.rows] == [6.5, 4.5]


def test_an_objective_has_a_column_of_its_own_where_no_usual_one_has_it(spec: SearchSpec) -> None:
    minimised = ("val/forgetting", "val/pooled_accuracy", "seconds")
    aims = tuple(Objective(metric=name, direction="minimize") for name in minimised)
    aimed, trials = spec.model_copy(update={"objectives": aims}), [make_trial(0, value=50.0)]
    usual = ["trial", "status", "val accuracy", "incremental", "pooled", "forgetting"]
    assert trials_table(aimed, trials, None).header == [*usual, "seconds", "tasks", "time", "alpha", "lr", "error"]
    of_front = ["trial", "val accuracy", "forgetting", "pooled_accuracy", "seconds", "alpha", "lr"]
    assert front_table(aimed, trials, None).header == of_front
    assert front_table(aimed, trials, None).title == "Pareto front of forgetting and pooled_accuracy and seconds"
    alone = front_table(spec.model_copy(update={"objectives": aims[2:]}), trials, None)
    assert alone.header == ["trial", "val accuracy", "forgetting", "own seconds", "alpha", "lr"]
    assert alone.title == "Pareto front of accuracy and forgetting"  # one objective has no front of its own
    most = Objective(metric="val/final_accuracy", direction="maximize")
    accurate = spec.model_copy(update={"objectives": (most, *aims)})
    assert front_table(accurate, trials, None).header == of_front  # it has its column already


def test_a_run_that_learns_all_tasks_at_once_is_done_after_one_step(spec: SearchSpec) -> None:
    table = trials_table(spec.model_copy(update={"steps": 1}), [make_trial(0, tasks=1, value=50.0)], None)
    assert dict(zip(table.header, table.texts[0], strict=True))["tasks"] == "1/1"


def test_results_say_over_how_many_seeds_each_is(spec: SearchSpec) -> None:
    final = final_spec(spec)
    table = scores_table(final, {TEST.final_accuracy: Score(70.0, 1.0, 3), TEST.forgetting: Score(5.0, None, 1)})
    assert table.texts == [["final accuracy", "70.00 ± 1.00", "3"], ["forgetting", "5.00", "1"]]
    orders = final.model_copy(update={"protocol": final.protocol.model_copy(update={"class_orders": (0, 1)})})
    assert [table.header[-1], scores_table(orders, {}).header[-1]] == ["seeds", "trials"]


def test_bytes_of_fresh_runs_have_four_digits(spec: SearchSpec) -> None:
    aims = (Objective(metric="peak_gpu_bytes", direction="minimize"),)
    search = spec.model_copy(update={"objectives": aims, "reevaluate": Reevaluate(best=1, runs=1)})
    found = Reevaluation(ReevaluationSpec.of(search), race([0], 1, {(0, 0): -123456789.0}), None, ())
    assert reevaluation_table(found).texts[0][1:3] == ["1.235e+08"] * 2
    assert reevaluation_table(found).title == f"fresh runs, {aims[0].label}"


def test_fresh_runs_name_the_objective_that_chooses_and_not_the_first(spec: SearchSpec) -> None:
    aims = (
        Objective(metric="val/forgetting", direction="minimize"),
        Objective(metric="val/final_accuracy", direction="maximize"),
    )
    search = spec.model_copy(
        update={"objectives": aims, "prefer": aims[1].metric, "reevaluate": Reevaluate(best=1, runs=1)}
    )
    found = Reevaluation(ReevaluationSpec.of(search), race([0], 1, {(0, 0): 80.0}), None, ())
    assert reevaluation_table(found).title == f"fresh runs, {aims[1].label}"


def test_a_benchmark_that_is_left_out_has_the_accuracy_of_both_choices() -> None:
    left_out = LeaveOneOut("digits", start=1.0, trial=4, accuracy=2.0, best_trial=5, best=3.5)
    assert leave_one_out_table([left_out]).texts == [["digits", "1.00", "2.00", "3.50", "1.50", "4, 5"]]


def test_rounds_that_have_not_run_are_empty(spec: SearchSpec) -> None:
    standing = race([3, 1], 3, {(3, 0): 80.0, (1, 0): 90.0, (1, 1): 91.0})
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=3)}))
    table = reevaluation_table(Reevaluation(asked, standing, None, ()))
    assert [row[:5] for row in table.rows] == [(3, 80.0, None, None, 80.0), (1, 90.0, 91.0, None, 90.5)]
    assert table.header[:1] == ["trial"] and len(table.header) == 6 and not table.emphasis
    assert table.title == "fresh runs"


def test_an_accuracy_matrix_has_a_column_for_every_task_that_a_row_has() -> None:
    rows = [{TEST.accuracy(1): 90.0}, {TEST.accuracy(1): 80.0, TEST.accuracy(2): 70.0}]
    assert accuracy_cells(rows, TEST) == [[90.0, None], [80.0, 70.0]]
