"""Methods by benchmarks: which rows, what is ranked, what a footnote sets apart, and what LaTeX can set."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tausearch.campaigns import CampaignCells, CellRuns
from tausearch.presentation import CellLook, Column, Table, as_latex, as_markdown
from tausearch.reports import Matrix, MatrixOrder, compare, paper_results, read_final_runs, result_matrix
from tausearch.reports.comparison.command import _lack, as_tables, as_texts
from tausearch.reports.comparison.figure import _titles
from tausearch.reports.comparison.matrix import is_joint
from tausearch.reports.comparison.matrix_tables import matrix_table, page_matrix
from tausearch.runs import DataFacts, Storage
from tests.support.command_line import Ask
from tests.support.runs.final_runs import make_final_run
from trainables.methods import METHODS

DIGITS = {"tasks": 5, "epochs": 5, "batch_size": 32, "backbone": "glyph_vit"}


def matrix(storage: Storage, order: MatrixOrder | None = None, *, with_paper: bool = False) -> Matrix:
    return result_matrix(read_final_runs(storage)[0], paper_results(), order, with_paper=with_paper)


def ranks(found: Matrix, benchmark: str = "cifar100") -> dict[str, str | None]:
    """Run, or the paper's method, to its place in a column."""
    cells = {row.method: row.cells[benchmark] for row in found.rows if row.of_paper and benchmark in row.cells}
    ours = [row.cells[benchmark] for row in found.rows if not row.of_paper and benchmark in row.cells]
    return {c.run.spec.name: c.rank for c in ours if c.run} | {f"paper {m}": c.rank for m, c in cells.items()}


def test_equal_as_printed_is_equally_good(storage: Storage) -> None:
    make_final_run(storage, "a", [90.001, 90.001])
    make_final_run(storage, "b", [90.004, 90.004], method="ita-ia3")
    make_final_run(storage, "c", [89.99, 89.99], method="ita-fft")
    make_final_run(storage, "d", [9.5, 9.5], method="finetune")
    make_final_run(storage, "joint", [90.0, 90.0], method="joint")
    make_final_run(storage, "long", [89.99, 89.99], method="iel-lora", protocol={"epochs": 99})
    make_final_run(storage, "elsewhere", [70.0], benchmark="mit67", tuned_on="cifar100")  # else the same as "a"
    rest = {"c": None, "d": None, "joint": None, "long": None}  # c is the third; the last two do not compete
    assert ranks(matrix(storage)) == {"a": "best", "b": "best", **rest}
    assert ranks(matrix(storage), "mit67") == {"elsewhere": None}
    make_final_run(storage, "e", [91.0, 91.0], method="iel-lora")
    assert ranks(matrix(storage)) == {"e": "best", "a": "second", "b": "second", **rest}


def test_joint_training_and_other_protocols_win_nothing(storage: Storage) -> None:
    make_final_run(storage, "a", [80.0, 80.0])
    make_final_run(storage, "b", [70.0, 70.0], method="ita-ia3")
    make_final_run(storage, "joint", [95.0, 95.0], method="joint")
    make_final_run(storage, "long", [96.0, 96.0], method="finetune", protocol={"epochs": 99})
    make_final_run(storage, "elsewhere", [97.0, 97.0], method="ita-fft", tuned_on="imagenet_r")
    make_final_run(storage, "one", [75.0], method="iel-lora")
    found = matrix(storage)
    assert ranks(found) == {
        **{"a": "best", "one": "second", "b": None},
        **{"joint": None, "long": None, "elsewhere": None},
    }
    table = matrix_table(found, paper_results())
    marked = {table.texts[row][0]: look.marks for (row, _), look in table.looks.items() if look.notes}
    notes = {name: table.notes[ord(mark) - ord("a")] for name, mark in marked.items()}
    assert notes.pop("joint").endswith("not ranked")
    assert notes == {
        **{"finetune": "epochs 99 instead of 20", "ita-fft": "tuned on imagenet_r"},
        **{"iel-lora": "1 seed"},
    }
    assert "over seeds 0 and 1. " in table.caption and "10 tasks, 20 epochs, batch 128" in table.caption


def test_a_method_of_all_tasks_at_once_is_a_bound_whatever_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "everything", METHODS["joint"])
    assert is_joint("everything") and not is_joint("ita-lora")


def test_a_method_under_two_protocols_takes_two_rows(storage: Storage) -> None:
    make_final_run(storage, "a", [90.0, 90.0], protocol={"epochs": 99})
    make_final_run(storage, "b", [70.0, 70.0])
    make_final_run(storage, "other", [60.0, 60.0], benchmark="digits", protocol=DIGITS)
    rows = [{name: cell.run.spec.name for name, cell in row.cells.items() if cell.run} for row in matrix(storage).rows]
    assert rows == [{"cifar100": "b", "digits": "other"}, {"cifar100": "a"}]  # of two protocols the paper's counts


@pytest.mark.parametrize(
    ("runs", "usual"),
    [
        ([("long", 99, None), ("longer", 98, None)], 98),  # of equally many the newest
        ([("long", 98, None), ("longer", 99, None), ("again", 98, None)], 98),  # a run that was repeated is newer
        ([("paper", 20, None), ("long", 99, None)], 20),  # but one that can be compared with the paper goes before
        ([("paper", 20, None), ("long", 99, None), ("another", 99, None)], 99),  # most go before both
        ([("own", 98, None), ("a", 99, "cub200"), ("b", 99, "mit67")], 98),  # tuned elsewhere they do not count
        ([("a", 98, "cub200"), ("b", 99, "cub200"), ("c", 98, "mit67")], 98),  # unless all were
    ],
)
def test_the_protocol_of_a_column(storage: Storage, runs: list[tuple[str, int, str | None]], usual: int) -> None:
    methods = ("ita-lora", "ita-ia3", "finetune")
    for (name, epochs, tuned_on), method in zip(runs, methods, strict=False):
        method = methods[0] if name == "again" else method
        protocol = {"epochs": epochs}
        make_final_run(storage, name, [50.0], method=method, tuned_on=tuned_on, protocol=protocol)
    assert matrix(storage).protocols["cifar100"].epochs == usual


def test_a_run_without_a_search_sets_the_protocol_of_its_column_and_competes(storage: Storage) -> None:
    for number, method in enumerate(("ita-lora", "ita-ia3")):
        spec = make_final_run(storage, method, [90.0 - number], method=method, protocol={"epochs": 9})
        spec.model_copy(update={"source": None, "tuned_on": None}).save(storage.run(method))
    make_final_run(storage, "long", [95.0], method="finetune", protocol={"epochs": 99})
    found = matrix(storage)
    assert found.protocols["cifar100"].epochs == 9
    assert ranks(found) == {"ita-lora": "best", "ita-ia3": "second", "long": None}


def test_another_split_seed_sets_nothing_apart_and_what_is_set_by_hand_is_a_row_of_its_own(storage: Storage) -> None:
    make_final_run(storage, "plain", [90.0])
    make_final_run(storage, "by-hand", [80.0], overrides={"rank": 4, "lr": 0.00125}, protocol={"split_seed": 7})
    make_final_run(storage, "too", [80.0], overrides={"lr": 0.00125, "rank": 4}, benchmark="mit67")  # in another order
    make_final_run(storage, "elsewhere", [70.0], benchmark="mit67")
    found = [(row.name, [cell.not_comparable for cell in row.cells.values()]) for row in matrix(storage).rows]
    assert found == [("ita-lora", [(), ()]), ("ita-lora (lr=0.00125, rank=4)", [(), ()])]


def test_what_sets_a_cell_apart_is_said_once(storage: Storage) -> None:
    for name, digest in (("a", "0"), ("b", "0"), ("c", "1")):
        method = {"a": "ita-lora", "b": "ita-ia3", "c": "tmc"}[name]
        make_final_run(storage, name, [50.0], method=method, protocol={"weights_digest": digest * 64})
    make_final_run(
        storage, "d", [50.0, 51.0], method="ita-fft", protocol={"weights_digest": "1" * 64, "class_orders": (1,)}
    )
    cells = {row.method: row.cells["cifar100"] for row in matrix(storage).rows}
    assert cells["tmc"].not_comparable == ("other weights of the backbone",) and cells["ita-lora"].not_comparable == ()
    assert cells["ita-fft"].not_comparable == ("class orders 1 instead of as the benchmark has it",)
    make_final_run(storage, "e", [50.0], method="finetune", protocol={"initial_head_digest": "1" * 64})
    (row,) = (row for row in matrix(storage).rows if row.method == "finetune")
    assert row.cells["cifar100"].not_comparable == ("another initial head",)
    assert [cells[name].notes for name in ("ita-fft", "tmc")] == [("2 seeds",), ()]


def test_runs_of_other_images_have_a_row_each_and_are_not_ranked(storage: Storage) -> None:
    before, now = (DataFacts(digest=f"{train}" * 32, train=train, evaluation=10) for train in (10, 12))
    tested = now.model_copy(update={"evaluation_digest": "c" * 64})  # runs of 0.1.0 do not note it
    copy = now.model_copy(update={"digest": "b" * 64})  # or others of their number
    for name, method, data in (
        *(("old", "ita-lora", before), ("new", "ita-lora", now)),
        *(("other", "ita-ia3", tested), ("tested", "tmc", now.model_copy(update={"evaluation": 11}))),
        ("copied", "tak", copy),
    ):
        make_final_run(storage, name, [90.0 - len(name)], method=method, data=data)
    found = matrix(storage)
    assert ranks(found) == {"new": "best", "old": None, "other": "second", "tested": None, "copied": None}
    cells = {cell.run.spec.name: cell for row in found.rows for cell in row.cells.values()}
    assert {name: cell.not_comparable for name, cell in cells.items() if cell.not_comparable} == {
        "old": ("other images",),
        "tested": ("other images",),
    }
    assert [name for name, cell in cells.items() if "images may be others" in cell.notes] == ["copied"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("size", ["10pt", "11pt", "12pt"])
def test_it_fits_the_width_of_a_page(size: str, storage: Storage, tmp_path: Path) -> None:
    """From three benchmarks to seven, with the paper's rows and deviations of 10 and more."""
    paper = paper_results()
    for number, benchmark in enumerate(paper.benchmarks):
        for method in ("ita-lora", "ita-fft"):
            make_final_run(storage, f"{method}-{number}", [90.0, 70.0, 60.5], method=method, benchmark=benchmark)
    whole = matrix_table(matrix(storage, with_paper=True), paper)
    assert len(whole.columns) == 8
    tables = [whole.without(*[column.name for column in whole.columns[1 : 8 - count]]) for count in range(3, 8)]
    head = rf"\documentclass[{size}]{{article}}\usepackage{{booktabs}}\begin{{document}}"
    (tmp_path / "t.tex").write_text(f"{head}\n{as_latex(tables)}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "Overfull" not in done.stdout, done.stdout[-2000:]


def test_of_two_numbers_of_seeds_that_are_as_frequent_the_larger_is_usual(storage: Storage) -> None:
    for method, seeds in (("ita-lora", 3), ("tmc", 1), ("ita-fft", 3), ("joint", 1), ("finetune", 2)):
        make_final_run(storage, method, [50.0] * seeds, method=method)
    found = matrix(storage)
    assert found.seeds == 3 and "over seeds 0, 1 and 2." in matrix_table(found, paper_results()).caption
    one = result_matrix([run for run in read_final_runs(storage)[0] if run.accuracy.seeds == 1], paper_results())
    assert matrix_table(one, paper_results()).caption.startswith("Of one seed. ")
    assert matrix_table(found, paper_results()).caption.endswith(" batch 128, vit_base_patch16_224.augreg_in21k.")


def test_the_usual_number_of_seeds_is_that_of_whole_runs_that_stand_in_the_table(storage: Storage) -> None:
    for method in ("tmc", "ita-fft"):
        make_final_run(storage, method, [50.0, None, None], method=method)
    assert matrix(storage).seeds == 1  # as no run has all
    for name in ("first", "second", "third"):
        make_final_run(storage, name, [50.0, 51.0])  # the third stands for all of them
    found = matrix(storage)
    assert (found.seeds, found.seeds_text) == (2, "2 seeds")
    for method in ("iel-fft", "iel-ia3"):
        make_final_run(storage, method, [50.0], method=method)
    assert matrix(storage).seeds == 1


def test_the_caption_counts_seeds_that_are_not_the_same(storage: Storage) -> None:
    make_final_run(storage, "a", [50.0, 51.0, None], protocol={"tasks": 5})
    two = "Mean ± sample standard deviation over 2 seeds. Protocol: 5 tasks, 20 epochs, batch 128,"
    table = matrix_table(matrix(storage), paper_results())
    assert table.caption.startswith(two) and table.notes == ["2 of 3 seeds"]  # the third has not finished
    make_final_run(storage, "a2", [50.0, 51.0], protocol={"tasks": 5})
    spec = make_final_run(storage, "b", [50.0, 51.0], method="tmc", protocol={"tasks": 5})
    spec.model_copy(update={"seeds": (5, 6)}).save(storage.run("b"))
    text = matrix_table(matrix(storage), paper_results()).caption
    assert "The best of a column is bold" in text and text.startswith(two.split(" Protocol")[0])


def test_the_caption_of_class_orders_counts_seeds_and_orders(storage: Storage) -> None:
    make_final_run(storage, "orders", [50.0, 51.0, 52.0, 53.0], protocol={"class_orders": (0, 1)})
    caption = matrix_table(matrix(storage), paper_results()).caption
    assert caption.startswith("Mean ± sample standard deviation over 2 seeds in each of 2 class orders. ")
    make_final_run(storage, "seeds", [50.0, 51.0, 52.0, 53.0], method="tmc")
    make_final_run(storage, "more", [50.0, 51.0, 52.0, 53.0], benchmark="digits", protocol=DIGITS)
    table = matrix_table(matrix(storage), paper_results())
    assert table.caption.startswith("Mean ± sample standard deviation over seeds 0, 1, 2 and 3. ")
    assert [note for note in table.notes if "2 seeds in each of 2 class orders" in note]


def test_the_caption_says_what_columns_share_and_then_their_own(storage: Storage) -> None:
    for benchmark, epochs in (("cifar100", 20), ("cub200", 50), ("mit67", 20)):
        make_final_run(storage, benchmark, [50.0], benchmark=benchmark, protocol={"epochs": epochs})
    caption = matrix_table(matrix(storage), paper_results()).caption
    shared = "Protocol: 10 tasks, batch 128, vit_base_patch16_224.augreg_in21k; "
    assert f"{shared}CIFAR-100 and MIT-67: 20 epochs; CUB-200: 50 epochs." in caption


def test_the_caption_names_our_columns_where_another_has_the_papers_rows_alone(storage: Storage) -> None:
    make_final_run(storage, "own", [50.0], benchmark="digits", protocol=DIGITS)

    def caption(*benchmarks: str) -> str:
        order = MatrixOrder((), benchmarks)
        runs = read_final_runs(storage)[0]
        return matrix_table(result_matrix(runs, paper_results(), order, with_paper=True), paper_results()).caption

    assert "Protocol: 5 tasks" in caption("digits")
    assert "Protocol: digits: 5 tasks" in caption("cifar100", "digits")
    make_final_run(storage, "both", [50.0])
    assert "Protocol: CIFAR-100: 10 tasks" in caption("cifar100", "digits")
    make_final_run(storage, "more", [50.0], benchmark="glyphs", protocol={**DIGITS, "tasks": 10})
    assert "Protocol: digits and glyphs: " in caption("cub200", "digits", "glyphs")


def test_the_caption_names_a_column_that_has_nothing_but_what_all_share_and_own_images_without_their_path(
    storage: Storage,
) -> None:
    other = {"precision": "bf16", "class_orders": (1,)}
    for benchmark, protocol in (("cifar100", {}), ("folder:/data/birds", other)):
        make_final_run(storage, benchmark[:6], [50.0], benchmark=benchmark, protocol=protocol)
    table = matrix_table(matrix(storage), paper_results())
    assert table.caption.endswith("augreg_in21k; CIFAR-100: nothing else; folder:birds: bf16, class orders 1.")
    assert table.header == ["method", "CIFAR-100", "folder:birds"]


def test_a_column_is_headed_without_what_the_caption_says_where_no_other_has_that_head(storage: Storage) -> None:
    names = ("digits?epochs=1&tasks=2", "cifar100?tasks=5", "folder:/data/birds?task=a,b&task=c,d")
    for number, benchmark in enumerate(names):
        make_final_run(storage, f"run-{number}", [50.0], benchmark=benchmark, protocol={**DIGITS, "epochs": number + 1})
    found = matrix(storage)
    heads = ["digits", "cifar100", "folder:birds?task=a,b&task=c,d"]
    assert matrix_table(found, paper_results()).header == ["method", *heads]
    assert "; digits: 1 epoch; cifar100: 2 epochs; " in matrix_table(found, paper_results()).caption
    for number, benchmark in enumerate(("folder:/more/birds?epochs=1", "cifar100"), start=3):
        make_final_run(storage, f"run-{number}", [50.0], benchmark=benchmark, protocol={**DIGITS, "epochs": 9})
    heads = ["CIFAR-100", "digits", "cifar100?tasks=5", "folder:birds?task=a,b&task=c,d", "folder:birds"]
    assert matrix_table(matrix(storage), paper_results()).header == ["method", *heads]


def test_two_folders_of_one_name_have_two_names_in_every_form(storage: Storage) -> None:
    benchmarks = ("folder:/a/birds", "folder:/b/birds", "folder:/b/fish")
    for number, benchmark in enumerate(benchmarks):
        make_final_run(storage, f"run-{number}", [50.0 + number], benchmark=benchmark, protocol=DIGITS)
    table = matrix_table(matrix(storage), paper_results())
    assert table.header == ["method", "folder:/a/birds", "folder:/b/birds", "folder:fish"]
    assert "method & folder:/a/birds & folder:/b/birds & folder:fish" in as_latex([table])
    assert _lack(matrix(storage)).endswith(" on folder:/a/birds, folder:/b/birds, folder:fish")
    titles = _titles(compare(read_final_runs(storage)[0], paper_results()), paper_results())
    assert [titles[each].removesuffix(" (not in the paper)") for each in benchmarks] == table.header[1:]


def test_the_papers_rows_alone_have_their_caption_and_notes_and_methods_that_wait_have_neither() -> None:
    order = MatrixOrder((), ("cifar100",))
    alone = matrix_table(result_matrix([], paper_results(), order, with_paper=True), paper_results())
    assert alone.caption.endswith("mean of 3 runs.") and "No final run" not in alone.caption
    assert alone.looks[0, 0].notes == (0,) and "an upper bound, not ranked" in alone.notes[0]
    assert alone.blocks == []
    planned = [("tmc", "cifar100"), ("ewc", "digits?epochs=5")]
    waiting = result_matrix([], paper_results(), MatrixOrder((), ("cifar100", "digits?epochs=5")), planned=planned)
    table = matrix_table(waiting, paper_results())
    assert table.caption == "No final run has ended yet." and "digits?epochs=5" in table.header


def test_a_cell_without_a_result_waits_once_in_the_row_of_the_method_as_it_is(storage: Storage) -> None:
    make_final_run(storage, "short", [50.0], method="tmc", protocol={"epochs": 5})
    make_final_run(storage, "plain", [50.0], method="tmc")
    make_final_run(storage, "none", [50.0], overrides={"regularise": "none"})
    make_final_run(storage, "other", [50.0], method="ita-fft", overrides={"regularise": "none"})
    planned = [("ita-lora", "cub200"), ("tmc", "cub200"), ("ita-ia3", "mit67")]
    runs = read_final_runs(storage)[0]
    found = result_matrix(runs, paper_results(), MatrixOrder((), ("cifar100", "cub200")), planned=planned)
    pending = {("ita-lora", "cub200"): "waiting", ("tmc", "cub200"): "searching", ("tmc", "cifar100"): "never"}
    pending["ita-fft", "cub200"] = "never"  # another setting of the method has it
    pending["ita-lora", "cifar100"] = "done"  # with the setting of another row
    table = page_matrix(found, paper_results(), {("tmc", "cub200"): "#cell-2"}, pending)
    assert [(row[0], row[1].split("\n")[0], row[1].split("\n")[-1][:6], row[2]) for row in table.texts] == [
        ("tmc", "50.00", "paper ", "searching"),
        ("tmc", "50.00", "(paper", ""),
        ("ita-fft (regularise=none)", "50.00", "paper ", ""),
        ("ita-lora", "", "", "waiting"),
        ("ita-lora (regularise=none)", "50.00", "paper ", ""),
    ]
    assert table.texts[4][1].endswith("paper 66.58")  # that of the ablation
    assert table.look(0, 2).link == "#cell-2"
    assert table.caption.endswith("in parentheses where its protocol differs.")


def test_a_page_speaks_of_the_papers_results_where_it_has_some_and_of_another_protocol_than_theirs(
    storage: Storage,
) -> None:
    make_final_run(storage, "own", [50.0], benchmark="digits", protocol=DIGITS)
    make_final_run(storage, "lacking", [50.0], method="tak")
    table = page_matrix(matrix(storage), paper_results(), {}, {})
    assert "paper" not in table.caption and [column.heat for column in table.columns] == [False, True, True]
    make_final_run(storage, "short", [50.0], method="tmc", benchmark="mit67", protocol={"epochs": 99})
    found = matrix(storage)
    (cell,) = (row.cells["mit67"] for row in found.rows if "mit67" in row.cells)
    assert cell.not_comparable == ()  # it is alone in its column
    table = page_matrix(found, paper_results(), {}, {})
    assert table.caption.endswith("in parentheses where its protocol differs.")
    assert [row[2].split("\n")[1][:6] for row in table.texts if row[2]] == ["(paper"]


def test_the_papers_rows_compete_where_the_protocol_is_the_same(storage: Storage) -> None:
    make_final_run(storage, "a", [90.0, 90.0])
    assert ranks(matrix(storage)) == {"a": None}  # alone it is not the best of anything
    assert "bold" not in matrix_table(matrix(storage), paper_results()).caption
    assert matrix(storage, with_paper=True).benchmarks == ("cifar100",)  # not all that the paper has
    found = ranks(matrix(storage, with_paper=True))
    assert (found["a"], found["paper ita-ia3"], found["paper joint"]) == ("second", "best", None)
    make_final_run(storage, "b", [91.0, 91.0], benchmark="cub200", protocol={"epochs": 5})
    found = matrix(storage, with_paper=True)
    assert set(ranks(found, "cub200").values()) == {None}
    table = matrix_table(found, paper_results())
    assert table.notes[-1] == "epochs 5, the paper's 50" and table.blocks == [1]
    assert "Rows of the paper: " in table.caption


def test_the_order_is_the_papers_or_the_given_one(storage: Storage) -> None:
    protocols: dict[str, dict[str, Any]] = {"digits": DIGITS, "cifar100": {}}
    for benchmark, protocol in protocols.items():
        for method in ("ita-lora", "joint", "finetune"):
            make_final_run(
                storage, f"{benchmark}-{method}", [50.0], benchmark=benchmark, method=method, protocol=protocol
            )
    found = matrix(storage)
    assert [row.method for row in found.rows] == ["joint", "finetune", "ita-lora"]
    assert found.benchmarks == ("cifar100", "digits")
    assert [row.method for row in matrix(storage, MatrixOrder(["joint"])).rows] == ["joint", "finetune", "ita-lora"]
    lacked = matrix(storage, MatrixOrder((), ["digits"]), with_paper=True)
    assert not any(row.of_paper for row in lacked.rows)  # the paper has none of its cells
    order = MatrixOrder(["ita-lora", "finetune", "joint"], ["digits", "cifar100", "glyphs"])
    compared = compare(read_final_runs(storage)[0], paper_results(), order=order)
    assert [each.benchmark for each in compared] == ["digits", "cifar100"]
    assert [row.method for row in compared[1].rows if row.ours] == ["ita-lora", "finetune", "joint"]
    others = [method for method in paper_results().methods if method not in order.methods]
    assert [row.method for row in compared[1].rows] == [*order.methods, *others]
    found = matrix(storage, order)
    assert [row.method for row in found.rows] == ["ita-lora", "finetune", "joint"]
    assert found.benchmarks == ("digits", "cifar100")
    runs = read_final_runs(storage)[0]
    assert [table.title.split(":")[0] for table in as_tables(runs, order)] == [
        *("digits", "CIFAR-100 (cifar100)"),
    ]
    texts = as_texts(runs, order)
    assert "method & digits & CIFAR-100 " in texts["latex"] and "| method | digits | CIFAR-100 |" in texts["markdown"]
    assert texts["csv"].splitlines()[1].startswith("digits,ita-lora,")


def test_names_are_set_by_every_engine() -> None:
    table = Table(
        "100 % of a_b & c",
        [Column("method"), Column("folder:/x/Übung_日", right=True), Column("b")],
        [("[a_b", 1.0, "50 %"), ("#1 {x} ~^\\ <|>", -2.5, 'ð "q" é')],
        looks={(0, 1): CellLook("best", (0,)), (1, 1): CellLook("best"), (1, 2): CellLook("second", (0, 1))},
        notes=["other_protocol", "5 % fewer"],
        blocks=[1],
        caption="Seeds 0 & 1.",
    )
    lines = as_latex([table]).splitlines()
    assert r"\caption{100 \% of a\_b \& c. Seeds 0 \& 1.}" in lines
    assert r"method & folder:Übung\_\beyondlatin{日}{U+65E5} & b \\" in lines
    assert r"{}[a\_b & \textbf{1}\rlap{\textsuperscript{a}} & 50 \% \\" in lines
    assert lines[lines.index(r"{}[a\_b & \textbf{1}\rlap{\textsuperscript{a}} & 50 \% \\") + 1] == r"\midrule"
    assert (
        r"\#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{} \textless{}\textbar{}\textgreater{}"
        r" & \textbf{$-$2.5} & \underline{\beyondlatin{ð}{U+00F0} ''q'' é}\textsuperscript{a,b} \\"
    ) in lines
    assert any(r"\textsuperscript{a}\,other\_protocol." in line for line in lines)
    code = [re.sub(r"(?<!\\)%.*", "", line) for line in lines]
    assert not any(re.search(r"(?<!\\)[_^~%]", line) for line in code)
    assert sum(line.startswith(r"\providecommand{\beyondlatin}") for line in lines) == 1
    markdown = as_markdown([table])
    assert "| [a_b | **1**<sup>a</sup> | 50 % |" in markdown and "<sup>b</sup> 5 % fewer" in markdown


def test_a_campaigns_table_has_its_runs_and_its_order(
    storage: Storage, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.reports.comparison.command.draw", lambda *_: None)
    cells = []
    for method, accuracy in (("ita-lora", 60.0), ("finetune", 70.0)):
        make_final_run(storage, method, [accuracy], benchmark="digits", method=method, protocol=DIGITS)
        about: dict[str, Any] = {"title": f"digits/{method}", "search": None, "trials": 0, "seeds": 1, "steps": 1}
        cells.append(CellRuns(benchmark="digits", method=method, final=method, **about))
    make_final_run(storage, "other", [99.0, 99.0], benchmark="digits", protocol=DIGITS)
    directory = storage.campaign("t")
    directory.path.mkdir(parents=True)
    CampaignCells(campaign="t", file="t.yaml", cells=tuple(cells)).save(directory)

    def shown(*options: str) -> tuple[int, str, str]:
        return ask("compare", *options, "--storage", str(storage.root))

    code, out, err = shown("--campaign", "t", "--format", "latex")
    rows = [line for line in out.splitlines() if " & " in line]
    assert code == 0, err
    assert rows == [r"method & digits \\", r"ita-lora & \underline{60.00} \\", r"finetune & \textbf{70.00} \\"]
    by_file = [line.split(",")[1] for line in shown("--campaign", "t", "--format", "csv")[1].splitlines()[1:]]
    assert by_file == ["ita-lora", "finetune"]
    assert "99.00" in shown("--format", "latex")[1]
    lack = "--paper: the paper has no results on digits\n"
    for form, comment in (("latex", f"% {lack}"), ("markdown", "")):
        _, out, err = shown("--campaign", "t", "--format", form, "--paper")
        assert err == lack and out.startswith(comment or "*") and (lack in out) is bool(comment)
    assert "joint, paper" in shown("cifar100", "--campaign", "t", "--format", "latex", "--paper")[1]
    for options, words in (
        (["--campaign", "none"], "no campaign named 'none'"),
        (["--paper"], "--paper: goes with --format latex or markdown"),
        (["--campaign", "t", "--transfer"], "--campaign: does not go with --transfer"),
    ):
        code, _, err = shown(*options)
        assert code == 2 and words in err and err.count("\n") == 1
