"""Final runs beside the paper's results: which can be compared, how far apart they are, and how it is printed."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from PIL import Image
from rich.console import Console

from tausearch.presentation import Column, Table, tool
from tausearch.reports import compare, paper_results, read_final_run, read_final_runs
from tausearch.reports.comparison.command import ComparisonScope, OutputFormat, _usual_figure, show_comparison
from tausearch.reports.comparison.comparison import ComparisonRow
from tausearch.reports.comparison.csv_rows import rows_as_dicts
from tausearch.reports.comparison.figure import _panel, _titles, draw, drawn_rows
from tausearch.reports.comparison.printing import show_tables
from tausearch.reports.comparison.runs import latest_per_key
from tausearch.reports.comparison.tables import comparison_tables
from tausearch.runs import ExperimentProtocol, Storage, open_storage
from tests.support.runs.built_runs import make_run
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial, search_spec
from trainables.errors import InputError

DIGITS = {"tasks": 5, "epochs": 5, "batch_size": 32, "backbone": "glyph_vit"}


def rows(storage: Storage, benchmark: str = "cifar100") -> tuple[list[ComparisonRow], list[ComparisonRow]]:
    """What can be compared and has a run of ours, and what cannot be compared."""
    (comparison,) = compare(read_final_runs(storage)[0], paper_results(), [benchmark])
    return [row for row in comparison.rows if row.ours], list(comparison.not_compared)


def test_a_run_of_one_seed_has_no_deviation_of_its_own(storage: Storage) -> None:
    make_final_run(storage, "one", [90.36])
    ((row,), _) = rows(storage)
    assert row.ours is not None and row.ours.accuracy.std is None and row.ours.accuracy.seeds == 1
    shown = rows_as_dicts(compare(read_final_runs(storage)[0], paper_results()))
    assert [each["ours"]["forgetting_std"] for each in shown if each["ours"]] == [None]
    assert row.two_sd == pytest.approx(0.40) and row.within is True  # a difference of exactly two deviations is within


def test_ablations_stand_beside_the_papers_ablations(storage: Storage) -> None:
    make_final_run(storage, "none", [60.0, 62.0], overrides={"regularise": "none"})
    spec = make_final_run(storage, "head", [90.0, 91.0], overrides={"regularise": "head"})
    spec.model_copy(update={"overrides": {}}).save(storage.run("head"))  # as where a search has it fixed
    found, _ = rows(storage)
    assert {str(row.settings["regularise"]): row.paper and row.paper.accuracy for row in found} == {
        "none": 66.58,
        "head": 90.03,
    }
    assert all(row.difference is not None and row.two_sd is None and row.within is None for row in found)
    (comparison,) = compare(read_final_runs(storage)[0], paper_results(), ["cifar100"])
    plain = [row.ours for row in comparison.rows if row.method == "ita-lora" and not row.settings]
    assert plain == [None]  # the paper's own, of which there is no run of ours


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": {"epochs": 50}}, "epochs 50, the paper's 20"),
        ({"protocol": {"tasks": 20}}, "tasks 20, the paper's 10"),
        ({"protocol": {"batch_size": 32}}, "batch size 32, the paper's 128"),
        ({"protocol": {"backbone": "glyph_vit"}}, "backbone glyph_vit, the paper's vit_base_patch16_224.augreg_in21k"),
        ({"tuned_on": "imagenet_r"}, "tuned on imagenet_r"),
        ({"benchmark": "digits", "protocol": DIGITS}, "the paper has no digits"),
    ],
)
def test_other_protocols_are_not_mixed_in(change: dict[str, Any], reason: str, storage: Storage) -> None:
    make_final_run(storage, "other", [50.0, 51.0], **change)
    compared, (row,) = rows(storage, change.get("benchmark", "cifar100"))
    assert compared == [] and row.not_comparable == (reason,)
    assert row.paper is None and row.difference is None and row.within is None


def test_whatever_else_a_protocol_can_vary_is_a_departure(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    class WithOrder(ExperimentProtocol):
        class_order_seed: int | None = None

    make_final_run(storage, "plain", [90.0])
    ((run,), *_) = read_final_runs(storage)
    monkeypatch.setattr("tausearch.reports.comparison.comparison.ExperimentProtocol", WithOrder)
    for seed, reasons in ((None, ()), (3, ("class order seed 3",))):
        protocol = WithOrder(**{**run.spec.protocol.model_dump(), "class_order_seed": seed})
        object.__setattr__(run, "spec", run.spec.model_copy(update={"protocol": protocol}))
        comparison = compare([run], paper_results())[0]
        assert [row.not_comparable for row in (*comparison.rows, *comparison.not_compared) if row.ours] == [reasons]


def test_one_run_stands_for_all_of_the_very_same_thing(storage: Storage) -> None:
    make_final_run(storage, "first", [80.0, 81.0, 82.0])
    make_final_run(storage, "second", [83.0, 84.0, 85.0])
    make_final_run(storage, "third", [99.0, None, None])  # later, with fewer seeds
    make_final_run(storage, "by-hand", [88.0], overrides={"lr": 0.5})
    make_final_run(storage, "both", [88.0], overrides={"lr": 0.5, "alpha": 2.0})
    make_final_run(storage, "both-again", [88.0], overrides={"alpha": 2.0, "lr": 0.5})
    make_final_run(storage, "bf16", [87.0], protocol={"precision": "bf16"})
    make_final_run(storage, "head", [86.0], protocol={"initial_head_digest": "1" * 64})
    make_final_run(storage, "elsewhere", [99.0, 99.0, 99.0], tuned_on="mit67")
    found, _ = rows(storage)
    assert {(row.ours.spec.name, row.others) for row in found if row.ours} == {
        ("second", 2),
        ("by-hand", 0),
        ("both-again", 1),
        ("bf16", 0),
        ("head", 0),
    }
    assert [row.settings for row in found if row.settings] == [{"lr": 0.5}, {"lr": 0.5, "alpha": 2.0}]


def test_kronecker_factors_are_beyond_the_paper_where_they_act(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    for name, changes in (("acts", {}), ("unused", {"regularise": "none"})):
        make_final_run(storage, name, [80.0], overrides={"curvature": "kronecker", **changes})
    (found,) = compare(read_final_runs(storage)[0], paper_results())
    assert [(row.settings, row.not_comparable) for row in found.not_compared] == [
        ({"curvature": "kronecker"}, ("the paper has no ita-lora with curvature=kronecker",))
    ]
    (row,) = (row for row in found.rows if row.ours)
    assert row.ours and row.ours.spec.name == "unused" and row.paper and row.paper.accuracy == 66.58


def test_runs_without_results_are_named_and_damaged_ones_left_out(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_final_run(storage, "failed", [None, None])
    for name, content in (("damaged", "{"), ("other", '{"summary": {"test/final_accuracy": 3}}')):
        make_final_run(storage, name, [1.0])
        storage.run(name).results_file.write_text(content)
    make_final_run(storage, "good", [90.0, None])
    runs, without, faults = read_final_runs(storage)
    assert [run.spec.name for run in runs] == ["good"]
    assert [spec.name for spec in without] == ["failed"]
    assert len(faults) == 2 and "damaged/results.json: cannot be read" in str(faults[0])
    show_comparison(storage, [], "csv", None)
    assert capsys.readouterr().err.splitlines() == [f"tausearch: {fault}" for fault in faults]


def test_the_papers_benchmarks_and_the_method_as_it_is_come_first(storage: Storage) -> None:
    make_final_run(storage, "own", [88.0], benchmark="digits", protocol=DIGITS)
    make_final_run(storage, "none", [60.0], overrides={"regularise": "none"})
    make_final_run(storage, "plain", [90.0])
    make_final_run(storage, "first", [80.0], benchmark="imagenet_r")
    runs = read_final_runs(storage)[0]
    assert [each.benchmark for each in compare(runs, paper_results())] == ["imagenet_r", "cifar100", "digits"]
    assert [row.ours.spec.name for row in rows(storage)[0] if row.ours] == ["plain", "none"]


def test_a_search_is_not_a_final_run_without_results(storage: Storage) -> None:
    make_run(storage, search_spec(), [make_trial(0, value=70.0)])
    make_final_run(storage, "failed", [None])
    assert [spec.name for spec in read_final_runs(storage)[1]] == ["failed"]


def test_a_value_that_is_set_by_hand_to_what_it_is_anyway_is_no_other_experiment(storage: Storage) -> None:
    make_final_run(storage, "plain", [89.0])
    make_final_run(storage, "set", [90.0], overrides={"regularise": "all"})
    assert [(row.ours.spec.name, row.others, row.settings) for row in rows(storage)[0] if row.ours] == [("set", 1, {})]


def test_a_run_without_a_search_can_be_compared(storage: Storage) -> None:
    spec = make_final_run(storage, "by-hand", [90.0])
    spec.model_copy(update={"source": None, "tuned_on": None}).save(storage.run("by-hand"))
    assert [row.not_comparable for row in rows(storage)[0]] == [()]


def test_methods_that_the_paper_lacks_come_last_by_name(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tmc", "ita-lora", "finetune"):
        make_final_run(storage, name, [50.0], method=name, benchmark="digits", protocol=DIGITS)
    paper = paper_results()
    few = paper.model_copy(update={"final_accuracy": {"joint": (), "finetune": ()}})
    (comparison,) = compare(read_final_runs(storage)[0], few, ["digits"])
    assert [row.method for row in comparison.not_compared] == ["finetune", "ita-lora", "tmc"]


def test_of_class_orders_each_seed_counts_in_each_order(storage: Storage) -> None:
    make_final_run(storage, "orders", [90.0, 91.0, 92.0, None], protocol={"class_orders": (0, 1)})
    (run,) = read_final_runs(storage)[0]
    assert run.seeds_text == "3 of 4 trials"
    assert run.accuracy_text == "91.00 ± 1.00 (3 of 4: 2 orders x 2 seeds)"


def test_a_row_says_seeds_that_are_missing_further_runs_and_another_precision(storage: Storage) -> None:
    make_final_run(storage, "older", [88.0])
    make_final_run(storage, "newer", [90.0, None, 91.0])
    make_final_run(storage, "bf16", [87.0], protocol={"precision": "bf16"})
    make_final_run(storage, "tf32", [86.0], protocol={"precision": "tf32"})
    (comparison,) = compare(read_final_runs(storage)[0], paper_results(), ["cifar100"])
    (table,) = comparison_tables(comparison, paper_results())
    ours = {row[0]: row[-1] for row in table.texts if row[1]}
    names = [row[-1] for row in table.texts if row[1]]
    assert [row[1] for row in table.texts if row[1]] == ["90.50 ± 0.71 (2 of 3)", "87.00 (1)", "86.00 (1)"]
    assert names == ["newer (1 more)", "bf16 (bf16)", "tf32 (tf32)"] and set(ours) == {"ita-lora"}
    faint = {place for place, row in enumerate(table.texts) if not row[1]}
    assert table.emphasis == dict.fromkeys(faint, "faint") and len(faint) == len(paper_results().methods) - 1


def test_a_row_says_its_verdict_and_what_the_paper_forgets_and_all_that_sets_it_apart(storage: Storage) -> None:
    make_final_run(storage, "near", [89.0, 90.0, 91.0])
    make_final_run(storage, "far", [85.0, 85.2, 85.4], method="ita-ia3")
    make_final_run(storage, "none", [60.0, 62.0], overrides={"regularise": "none"})
    make_final_run(storage, "edge", [89.96 + 0.404], overrides={"lr": 0.5})  # the paper's sd is 0.2
    make_final_run(storage, "apart", [60.0], protocol={"epochs": 9, "batch_size": 32})
    (comparison,) = compare(read_final_runs(storage)[0], paper_results(), ["cifar100"])
    beside, not_compared = comparison_tables(comparison, paper_results())
    within, forgetting = (beside.header.index(name) for name in ("within 2 sd", "paper's forgetting"))
    verdicts = {row[-1]: row[within] for row in beside.texts if row[1]}
    assert verdicts == {"near": "yes (2.04)", "far": "no (0.41)", "none": "no sd given", "edge": "just not (0.40)"}
    alone = {row[0]: row[forgetting] for row in beside.texts if not row[1]}
    assert alone["finetune"] == f"{paper_results().cell('cifar100', 'finetune').forgetting:.2f}"  # type: ignore[union-attr]
    assert [row[2] for row in not_compared.texts] == ["epochs 9, the paper's 20; batch size 32, the paper's 128"]


@pytest.mark.usefixtures("undrawn")
def test_the_papers_results_are_drawn_without_a_run_if_a_picture_is_asked_for(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = storage.root / "made" / "asked.png"
    for figure, named in ((None, None), (asked, str(asked))):
        show_comparison(storage, ["cifar100"], "json", figure)
        assert json.loads(capsys.readouterr().out)["figure"] == named
    assert asked.parent.is_dir()


@pytest.mark.usefixtures("undrawn")
def test_own_images_are_named_like_any_benchmark_that_has_a_run(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "folder:/none/birds"
    with pytest.raises(InputError, match="unknown benchmark 'folder:/none/birds'"):
        show_comparison(storage, [own], "text", None)
    assert printed(storage, "text", capsys, "digits").startswith("no final runs in ")
    others = ("folder:/more/birds", "folder:/none/\u9ce5", "folder:/none/\u732b")
    for number, benchmark in enumerate((own, *others)):
        make_final_run(storage, f"own-{number}", [50.0], benchmark=benchmark, protocol=DIGITS)
    said = printed(storage, "text", capsys, own)
    assert "own-0" in said and f"\npicture  {storage.root}/compare-folder-birds-" in said
    pictures = {_usual_figure(storage, "", [name]).name for name in (own, *others)}
    assert len(pictures) == 4, "each benchmark has a picture of its own"
    long = [f"my_images:{'x' * 100}{end}" for end in "ab"]
    assert len({_usual_figure(storage, "", [name]) for name in long}) == 2, "a long name is cut"
    assert _usual_figure(storage, "", ["digits?epochs=1"]).name == "compare-digits-epochs-1.png"
    assert not storage.comparison_figure.exists(), "the picture of all benchmarks"


@pytest.mark.usefixtures("undrawn")
def test_one_benchmark_with_something_to_draw_is_enough_and_the_terminal_names_the_picture(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_final_run(storage, "elsewhere", [50.0], benchmark="digits", protocol=DIGITS, tuned_on="glyphs")
    assert "picture" not in printed(storage, "text", capsys)
    make_final_run(storage, "plain", [90.0])
    assert f"picture  {storage.comparison_figure}\n" in printed(storage, "text", capsys)


def test_a_picture_says_how_many_runs_it_leaves_out_if_it_does(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "tausearch.reports.comparison.figure.draw_panels", lambda _, note, over: said.append((note, over))
    )
    monkeypatch.setattr("tausearch.reports.comparison.figure.save", lambda *_: None)
    for name, protocol in (("plain", {}), ("long", {"epochs": 99})):
        make_final_run(storage, name, [90.0], protocol=protocol)
        draw(compare(read_final_runs(storage)[0], paper_results()), paper_results(), storage.root / "a.png")
    make_final_run(storage, "elsewhere", [50.0], benchmark="digits", protocol=DIGITS, tuned_on="glyphs")
    draw(compare(read_final_runs(storage)[0], paper_results()), paper_results(), storage.root / "a.png")
    one, more = (f"left out: {runs} that cannot be compared" for runs in ("1 run", "2 runs"))
    make_final_run(storage, "orders", [50.0, 60.0], benchmark="digits", protocol={**DIGITS, "class_orders": (1, 2)})
    draw(compare(read_final_runs(storage)[0], paper_results()), paper_results(), storage.root / "a.png")
    assert said == [("", "seeds"), (one, "seeds"), (more, "seeds"), (more, "seeds and class orders")]


def test_what_a_panel_shows_and_how_its_lines_are_named(storage: Storage) -> None:
    """Equal labels get the runs' names; on a benchmark that the paper lacks runs tuned elsewhere are left out."""
    make_final_run(storage, "plain", [88.0, 89.0], benchmark="digits", protocol=DIGITS)
    make_final_run(storage, "longer", [90.0], benchmark="digits", protocol={**DIGITS, "epochs": 9})
    make_final_run(storage, "tmc", [70.0], method="tmc", benchmark="digits", protocol=DIGITS)
    make_final_run(storage, "elsewhere", [50.0], benchmark="digits", protocol=DIGITS, tuned_on="glyphs")
    spec = make_final_run(storage, "by-hand", [60.0], method="finetune", benchmark="digits", protocol=DIGITS)
    spec.model_copy(update={"source": None, "tuned_on": None}).save(storage.run("by-hand"))
    make_final_run(storage, "joint", [91.0], method="joint")
    papers, own = compare(read_final_runs(storage)[0], paper_results())
    titles = _titles([papers, own], paper_results())
    panel = _panel(own, drawn_rows(own), titles["digits"])
    assert (panel.title, panel.group) == ("digits (not in the paper)", 1)
    assert {line.label: line.ours for line in panel.lines} == {
        "ita-lora: plain": (88.5, pytest.approx(0.5**0.5)),
        "ita-lora: longer": (90.0, 0.0),
        "tmc": (70.0, 0.0),
        "finetune": (60.0, 0.0),
    }
    panel = _panel(papers, drawn_rows(papers), titles["cifar100"])
    joint = next(line for line in panel.lines if line.label == "joint")
    assert (panel.title, panel.group, len(panel.lines)) == ("CIFAR-100", 0, 17)
    assert joint.ours == (91.0, 0.0) and joint.paper is not None and joint.paper[1] > 0


@pytest.mark.usefixtures("undrawn")
def test_a_selection_shows_its_runs_alone_and_each_benchmark_once(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, accuracies in (("a", [90.0]), ("b", [91.0]), ("c", [None]), ("d", [None])):
        make_final_run(storage, name, accuracies)
    show_comparison(storage, ["cifar100", "cifar100"], "json", None, ComparisonScope(runs={"a", "c"}))
    content = json.loads(capsys.readouterr().out)
    assert [row["ours"]["run"] for row in content["rows"] if row["ours"]] == ["a"] and len(content["rows"]) == 17
    assert content["without_results"] == ["c"]


def test_json_and_csv_have_comparable_runs_first_and_nothing_is_drawn_without_runs(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    show_comparison(storage, [], "json", None)
    out, err = capsys.readouterr()
    assert err == "" and json.loads(out) == {
        "source": paper_results().source,
        **{"figure": None, "rows": [], "without_results": []},
    }
    assert not storage.comparison_figure.exists()
    make_final_run(storage, "a-long", [95.0], protocol={"epochs": 99})
    storage.comparison_figure.write_bytes(b"of an earlier comparison")
    assert json.loads(printed(storage, "json", capsys, "glyphs"))["figure"] is None
    assert storage.comparison_figure.read_bytes() == b"of an earlier comparison"
    with pytest.raises(InputError, match=r"^--figure .*: there is nothing to draw$"):
        show_comparison(storage, ["glyphs"], "json", storage.root / "made" / "asked.png")
    assert not (storage.root / "made").exists()
    make_final_run(storage, "b-plain", [90.0])
    found = rows_as_dicts(compare(read_final_runs(storage)[0], paper_results()))
    assert [row["ours"]["run"] for row in found if row["ours"]] == ["b-plain", "a-long"]


@pytest.fixture
def several(storage: Storage) -> Storage:
    make_final_run(storage, "lora", [89.0, 90.0, 91.0])
    make_final_run(storage, "none", [60.0, 62.0], overrides={"regularise": "none"})
    make_final_run(storage, "long", [95.0], protocol={"epochs": 99})
    make_final_run(storage, "small", [88.0, 89.0], benchmark="digits", protocol=DIGITS)
    return storage


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the picture, which takes longer than all the rest; `test_json` has it drawn of the same runs."""
    monkeypatch.setattr("tausearch.reports.comparison.command.draw", lambda *_: None)


def printed(storage: Storage, output_format: OutputFormat, capsys: pytest.CaptureFixture[str], *benchmarks: str) -> str:
    show_comparison(storage, benchmarks, output_format, None)
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_json(several: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    make_final_run(several, "fewer", [99.0])  # of fewer seeds than "lora"
    content = json.loads(printed(several, "json", capsys))
    assert content["figure"] == str(several.comparison_figure) and "arXiv" in content["source"]
    found = {row["ours"]["run"]: row for row in content["rows"] if row["ours"]}
    assert found["lora"]["comparable"] is True and found["lora"]["within_two_sd"] is True
    assert found["lora"]["paper"] == {"accuracy": 89.96, "std": 0.20, "forgetting": 3.22}
    assert (found["lora"]["ours"]["other_runs"], found["long"]["ours"]["other_runs"]) == (1, 0)
    assert found["lora"]["ours"]["hyperparameters"]["alpha"] == 1.0 and found["lora"]["ours"]["tuned_on"] == "cifar100"
    assert found["long"]["comparable"] is False and found["long"]["departures"] == ["epochs 99, the paper's 20"]
    assert found["small"]["paper"] is None and found["small"]["difference"] is None
    alone = [row for row in content["rows"] if row["ours"] is None]
    assert len(alone) == 16 and all(row["comparable"] is None and row["paper"] for row in alone)


@pytest.mark.usefixtures("undrawn")
def test_csv(several: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    make_final_run(several, "fewer", [99.0], overrides={"regularise": "none"})
    make_final_run(several, "orders", [88.0, 87.0], protocol={"class_orders": (3, 1)})
    table = list(csv.DictReader(io.StringIO(printed(several, "csv", capsys))))
    (row,) = (row for row in table if row["ours_run"] == "none")
    assert (row["method"], row["settings"], row["paper_accuracy"]) == ("ita-lora", "regularise=none", "66.58")
    assert row["ours_other_runs"] == "1" and not {"ours", "paper"} & set(row)  # where one of them is not there
    assert float(row["difference"]) == pytest.approx(61.0 - 66.58) and row["within_two_sd"] == ""
    assert {row["ours_class_orders"] for row in table if row["ours_run"] == "orders"} == {"3; 1"}
    over = {row["ours_run"]: row["ours_mean_over"] for row in table if row["ours_run"]}
    assert (over["orders"], over["none"]) == ("1 seed in each of 2 class orders", "2 seeds")
    assert "87.50 ± 0.71 (2 orders x 1 seed)" in printed(several, "text", capsys)
    assert [row["paper_accuracy"] for row in table if row["ours_run"] == "small"] == [""]
    assert len(table) == 16 + 5 and {row["benchmark"] for row in table} == {"cifar100", "digits"}


@pytest.mark.usefixtures("undrawn")
def test_markdown(several: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(several, "markdown", capsys, "cifar100").splitlines()
    assert "| ita-lora | 90.00 ± 1.00 (3) | 89.96 ± 0.20 | +0.04 | yes (2.04) | 3.00 | 3.22 | lora |" in lines
    tables = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in tables} == {3, 9, 7}  # the matrix; eight columns; six of what is not comparable
    assert tables[0] == "| method | CIFAR-100 |"


@pytest.mark.usefixtures("undrawn")
def test_accuracy_on_all_classes_stands_beside_the_mean_over_tasks(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_final_run(storage, "lora", [89.0, 90.0, 91.0], pooled=[80.0, 81.0, 82.5])
    make_final_run(storage, "older", [85.0], method="ita-ia3")
    make_final_run(storage, "long", [95.0], protocol={"epochs": 99}, pooled=[94.25])
    table = printed(storage, "text", capsys, "cifar100")
    assert "all classes: ours over the images of all tasks together" in table
    assert "average incremental: the mean over t of the accuracy after task t" in table
    lines = printed(storage, "markdown", capsys, "cifar100").splitlines()
    assert (
        "| ita-lora | 90.00 ± 1.00 (3) | 89.96 ± 0.20 | +0.04 | yes (2.04) | 87.17 | 81.17 | 3.00 | 3.22 | lora |"
        in lines
    )
    assert [line.split("|")[4:6] for line in lines if line.endswith(" long |")] == [[" 100.25 ", " 94.25 "]]
    ours = {
        row["ours"]["run"]: row["ours"] for row in json.loads(printed(storage, "json", capsys))["rows"] if row["ours"]
    }
    assert ours["lora"]["pooled_accuracy"] == pytest.approx(243.5 / 3)
    assert ours["lora"]["pooled_std"] == pytest.approx(1.2583, abs=1e-4)
    assert ours["lora"]["average_incremental_accuracy"] == pytest.approx(243.5 / 3 + 6)
    assert ours["lora"]["average_incremental_std"] == pytest.approx(1.2583, abs=1e-4)
    assert ours["lora"]["forgetting"] == 3.0
    assert ours["older"]["average_incremental_accuracy"] is None
    assert ours["older"]["pooled_accuracy"] is None and ours["older"]["accuracy"] == 85.0


@pytest.mark.usefixtures("undrawn")
def test_latex(several: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(several, "latex", capsys)
    assert r"ita-lora & \textbf{90.00 $\pm$ 1.00}\rlap{\textsuperscript{a}} & 88.50 $\pm$ 0.71 \\" in out
    assert r"ita-lora & 95.00\rlap{\textsuperscript{b}} &  \\" in out and r"vit\_base\_patch16\_224" in out
    assert r"\textsuperscript{a}\,3 seeds.\quad \textsuperscript{b}\,epochs 99 instead of 20; 1 seed." in out
    assert out.count(r"\begin{tabular}") == out.count(r"\end{tabular}") == out.count(r"\toprule") == 1
    (block,) = re.findall(r"\\begin\{tabular\}\{@\{\}(\w+)@\{\}\}(.*?)\\end", out, flags=re.S)
    assert {line.count(" & ") for line in block[1].splitlines() if "&" in line} == {len(block[0]) - 1}


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
def test_the_terminal_is_legible_at_every_width(width: int, several: Storage) -> None:
    (comparison,) = compare(read_final_runs(several)[0], paper_results(), ["cifar100"])
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    show_tables(comparison_tables(comparison, paper_results()), out)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text and all(len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    for needed in ("ita-lora", "90.00 ± 1.00 (3)", "89.96 ± 0.20", "+0.04", "yes (2.04)", "paper's 20"):
        assert needed in words


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (39, ["method mean run reason", "a 1 some-run two words", "b 2"]),
        (38, ["method mean reason", "a 1 two words", "b 2", "1 column left out for lack of width;"]),
        (25, ["method mean reason", "a 1 two", "words", "b 2", "1 column left out for"]),
        (24, ["a: mean 1; run some-run;", "reason two words", "b: mean 2"]),
    ],
)
def test_a_narrow_terminal_leaves_out_minor_columns_then_breaks_texts_then_has_a_line_for_each_row(
    width: int, lines: list[str]
) -> None:
    columns = [Column("method"), Column("mean"), Column("run", minor=True), Column("reason", wrap=True)]
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    show_tables([Table("t", columns, [("a", 1.0, "some-run", "two words"), ("b", 2.0, None, None)])], out)
    said = [" ".join(line.split()) for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert [line for line in said[1:] if line.strip("─")][: len(lines)] == lines


def test_letters_of_two_columns_are_wide() -> None:
    out = Console(width=20, file=io.StringIO(), highlight=False, markup=False)
    show_tables([Table("t", [Column("method")], [("日" * 10,)])], out)
    assert out.file.getvalue().split() == ["t", "日" * 10, ":"]  # type: ignore[attr-defined]


def test_a_cell_of_two_lines_is_one_in_the_line_of_its_row() -> None:
    out = Console(width=9, file=io.StringIO(), highlight=False, markup=False)
    show_tables([Table("t", [Column("method"), Column("mean", "\n".join)], [("a", ["1.00", "loss 2"])])], out)
    assert out.file.getvalue().split() == ["t", "a:", "mean", "1.00,", "loss", "2"]  # type: ignore[attr-defined]


def test_the_picture(several: Storage, tmp_path: Path) -> None:
    comparisons = compare(read_final_runs(several)[0], paper_results())
    draw(comparisons, paper_results(), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 600 and picture.height > 600
        assert len(picture.convert("RGB").getcolors(maxcolors=10**6) or []) > 20
    make_final_run(several, "elsewhere", [50.0], benchmark="digits", protocol=DIGITS, tuned_on="glyphs")
    comparisons = compare(read_final_runs(several)[0], paper_results())
    draw(comparisons, paper_results(), tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    for path in (tmp_path / "none" / "a.png", tmp_path / "a.nope"):
        with pytest.raises(InputError, match="^picture .*: cannot be written"):
            draw(comparisons, paper_results(), path)


def test_a_picture_that_cannot_be_drawn_costs_only_the_picture(
    several: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    several.comparison_figure.mkdir()
    show_comparison(several, [], "json", None)
    out, err = capsys.readouterr()
    assert json.loads(out)["figure"] is None and err.startswith("tausearch: picture ") and ": cannot be written" in err


def test_unknown_benchmarks_are_refused_and_empty_ones_said(
    several: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="unknown benchmark 'cifar'; did you mean 'cifar100'"):
        show_comparison(several, ["cifar"], "text", None)
    named = json.loads(printed(several, "json", capsys, "digits", "cifar100"))["rows"]
    assert list(dict.fromkeys(row["benchmark"] for row in named)) == ["digits", "cifar100"]
    said = printed(several, "text", capsys, "glyphs", "digits")
    assert "digits: no final run" not in said
    nothing = "glyphs: no final run, and the paper does not have it"
    assert f"{nothing}; there are final runs on: cifar100, digits; make one with: " in said
    make_final_run(several, "quick", [60.0], benchmark="glyphs?epochs=1", protocol={**DIGITS, "epochs": 1})
    said = printed(several, "text", capsys, "glyphs")
    make = f"; make one with: {tool()} train BEST.yaml --storage {several.root} --benchmark "
    assert f"{nothing}; there are final runs on: cifar100, digits, 'glyphs?epochs=1'{make}glyphs\n" in said
    assert f"cub200: no final run, all rows are the paper's{make}cub200\n" in printed(several, "text", capsys, "cub200")
    markdown = printed(several, "markdown", capsys, "cub200")
    assert markdown.startswith("**CUB-200"), "no matrix without rows"
    show_comparison(several, ["cub200"], "latex", None)
    assert capsys.readouterr() == ("", f"cub200: no final run, all rows are the paper's{make}cub200\n")
    show_comparison(several, ["glyphs"], "text", None, ComparisonScope(["quick"], campaign="c"))
    assert f"{nothing}; there are final runs on: 'glyphs?epochs=1'{make}glyphs\n" in capsys.readouterr().out
    make_final_run(several, "begun", [None], benchmark="glyphs?epochs=2")
    assert "without results yet: begun\n" in printed(several, "text", capsys, "glyphs?epochs=2")
    for output_format in get_args(OutputFormat):
        show_comparison(several, ["glyphs"], output_format, None, ComparisonScope([]))
        out, err = capsys.readouterr()
        lines = f"no final run of this campaign has a finished seed yet\n{nothing}{make}glyphs\n"
        assert (out, err) == {"json": (out, ""), "text": (lines, "")}.get(output_format, ("", lines))


@pytest.mark.usefixtures("undrawn")
def test_a_command_in_a_note_is_one_line_of_a_narrow_terminal(
    several: Storage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.reports.comparison.printing.console", lambda: Console(width=60))
    assert f"train BEST.yaml --storage {several.root} --benchmark cub200\n" in printed(
        several, "text", capsys, "cub200"
    )


@pytest.mark.usefixtures("undrawn")
def test_notes_explain_only_what_the_tables_have(several: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    make_final_run(several, "failed", [None])
    said = printed(several, "text", capsys, "cifar100")
    assert "ours: mean ± standard deviation (seeds)" in said and "within 2 sd: in parentheses" in said
    assert "all classes: ours over" not in said and "without results yet: failed" in said
    assert "average incremental: the mean" not in said
    assert "within 2 sd: in" in printed(several, "text", capsys, "digits", "cifar100")  # of which the paper has one
    make_final_run(several, "whole", [50.0], method="tmc", benchmark="digits", protocol=DIGITS, pooled=[49.0])
    said = printed(several, "text", capsys, "digits")  # which the paper lacks
    assert "ours: mean" in said and "all classes: ours over" in said and "within 2 sd" not in said


def test_runs_without_results_are_named_where_there_are_no_others(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_final_run(storage, "failed", [None])
    assert "to compare (failed without results yet); make one with: " in printed(storage, "text", capsys)
    with pytest.raises(InputError, match=r"^--figure a.txt: must end in"):  # before anything is read
        show_comparison(storage, [], "text", Path("a.txt"))


def test_a_run_of_an_earlier_choice_does_not_replace_one_of_the_present_choice(storage: Storage) -> None:
    """As where a search that was extended comes back to its first choice, whose final run is older."""
    for name in ("first", "second", "third"):
        make_final_run(storage, name, [89.0, 90.0])
    first, *later = (read_final_run(storage.run(name))[1] for name in ("first", "second", "third"))
    assert first is not None and all(later)
    second, third = (replace(run, choice_remark="does not train ...") for run in later if run is not None)
    other = replace(second, spec=second.spec.model_copy(update={"source": "another-search"}))
    between = replace(first, spec=other.spec)
    several = ([first, second], [second, third], [first, other], [first, between, second])
    assert [latest_per_key(runs, lambda _: "") for runs in several] == [[first], [third], [other], [between]]
