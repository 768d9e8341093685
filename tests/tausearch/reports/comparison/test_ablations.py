"""What is regularised, side by side: all, the head alone, nothing; beside the paper's ablation."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tausearch.reports import paper_results
from tausearch.reports.comparison.ablation_tables import (
    ablation_tables,
    ablations,
    as_ablation_text,
    show_ablations,
)
from tausearch.reports.comparison.runs import read_final_runs
from tausearch.runs import Storage, open_storage
from tests.support.runs.final_runs import make_final_run


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path, write=True)
    make_final_run(storage, "all", [89.0, 91.0])
    make_final_run(storage, "none", [60.0, 62.0], overrides={"regularise": "none"})
    make_final_run(storage, "head", [90.0], overrides={"regularise": "head"})
    make_final_run(storage, "ia3", [80.0], method="ita-ia3", overrides={"regularise": "none"})
    make_final_run(storage, "tuned-elsewhere", [50.0, 52.0], tuned_on="imagenet_r")
    return storage


def test_variants_of_a_method_stand_in_one_row_with_the_papers(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    show_ablations(storage, [], "json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    lora = next(row for row in rows if row["method"] == "ita-lora" and row["all"]["run"] == "all")
    assert {variant: lora[variant]["accuracy"] for variant in ("all", "head", "none")} == {
        "all": 90.0,
        "head": 90.0,
        "none": 61.0,
    }
    assert (lora["head"]["std"], lora["none"]["seeds"]) == (None, 2)
    assert (lora["all"]["paper"], lora["head"]["paper"], lora["none"]["paper"]) == (89.96, 90.03, 66.58)
    (ia3,) = (row for row in rows if row["method"] == "ita-ia3")
    assert (ia3["all"]["run"], ia3["none"]["run"]) == (None, "ia3")


def test_another_curvature_and_other_references_are_rows_of_their_own_beside_no_paper(storage: Storage) -> None:
    kronecker, generic = {"curvature": "kronecker"}, {"references": "generic"}
    for name, method, changes in (
        ("k-none", "ita-lora", {**kronecker, "regularise": "none"}),
        ("k-all", "ita-lora", kronecker),
        ("k-head", "ita-lora", {**kronecker, "regularise": "head"}),
        ("p-all", "tak", {}),
        ("p-none", "tak", {"regularise": "none"}),
        ("g-all", "tak", generic),
        ("g-none", "tak", {**generic, "regularise": "none"}),
    ):
        make_final_run(storage, name, [70.0], method=method, overrides=changes)
    found = {(row.method, row.settings): row for row in ablations(read_final_runs(storage)[0], paper_results())}
    assert {key for key in found if key[1]} == {("ita-lora", "curvature=kronecker"), ("tak", "references=generic")}
    assert found["ita-lora", "curvature=kronecker"].ours.keys() == {"all", "head", "none"}
    assert found["ita-lora", "curvature=kronecker"].paper == {}
    assert {run.spec.name for run in found["tak", ""].ours.values()} == {"p-all", "p-none"}
    (table,) = ablation_tables(list(found.values()))
    names = {"ita-lora (curvature=kronecker)", "tak", "tak (references=generic)"}
    assert {row[0] for row in table.texts} == {"ita-ia3", "ita-lora", *names}


def test_every_form_has_the_same(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"regularise": "none"}
    make_final_run(storage, "other", [70.0], benchmark="cub200", overrides=changes, protocol={"epochs": 50})
    show_ablations(storage, ["cifar100"], "csv")
    records = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {record["method"] for record in records} == {"ita-lora", "ita-ia3"}
    assert {record["benchmark"] for record in records} == {"cifar100"}
    texts = [as_ablation_text(read_final_runs(storage)[0])]
    assert "61.00" in texts[0] and "cub200" in texts[0], "a table of each benchmark"
    for form in ("text", "markdown", "latex"):
        show_ablations(storage, [], form)  # type: ignore[arg-type]
        texts.append(capsys.readouterr().out)
    for text in texts:
        assert "61.00" in text and "66.58" in text and "cifar100" in text.replace("CIFAR-100", "cifar100")
    assert texts[0].strip() in texts[2]
    assert all("inal accuracy: mean" in text for text in texts), "each form says what the numbers are"


def test_the_paper_stands_beside_a_variant_that_did_not_run_here(storage: Storage) -> None:
    rows = [row for row in ablations(read_final_runs(storage)[0], paper_results()) if row.method == "ita-ia3"]
    (table,) = ablation_tables(rows)
    assert table.texts == [["ita-ia3", "", "90.66", "", "90.48", "80.00 (1)", "88.43", "ia3"]]


def test_what_else_was_set_makes_a_row_in_whatever_order_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = open_storage(tmp_path, write=True)
    make_final_run(storage, "all", [70.0], overrides={"lr": 0.5, "alpha": 2.0})
    make_final_run(storage, "none", [60.0], overrides={"alpha": 2.0, "regularise": "none", "lr": 0.5})
    show_ablations(storage, [], "json")
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["all"]["run"], row["none"]["run"], row["others"]) == ("all", "none", "alpha=2, lr=0.5")


def test_a_row_with_a_variant_that_the_paper_lacks_stands_beside_no_paper(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    make_final_run(storage, "all", [70.0])
    make_final_run(storage, "none", [60.0], overrides={"regularise": "none"})
    without = paper_results().model_copy(update={"ablations": {}})
    (row,) = ablations(read_final_runs(storage)[0], without)
    assert row.ours.keys() == {"all", "none"} and row.paper == {}


def test_without_ablations_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = open_storage(tmp_path, write=True)
    show_ablations(storage, [], "text")
    lacking = capsys.readouterr().out
    assert lacking.count("\n") == 1 and lacking.endswith(f"train BEST.yaml --storage {tmp_path}\n")
    make_final_run(storage, "plain", [89.0, 91.0], method="finetune")
    show_ablations(storage, [], "text")
    lacking = capsys.readouterr().out
    assert "no ablations; make one with: " in lacking
    assert lacking.endswith(f"train BEST.yaml --storage {tmp_path} --set regularise=none\n")


def test_benchmarks_come_by_name_then_methods_in_the_papers_order(tmp_path: Path) -> None:
    """Two variants of ours are a row of their own, whatever the paper has."""
    storage = open_storage(tmp_path, write=True)
    for benchmark, method in (("digits", "ita-fft"), ("cifar100", "ita-lora"), ("cifar100", "ita-ia3")):
        for variant in ("none", "head"):
            name, changes = f"{benchmark}-{method}-{variant}", {"regularise": variant}
            make_final_run(storage, name, [50.0], benchmark=benchmark, method=method, overrides=changes)
    make_final_run(storage, "alone", [50.0], benchmark="digits", method="iel-fft", overrides={"regularise": "none"})
    runs = read_final_runs(storage)[0]
    found = [(row.benchmark, row.method) for row in ablations(runs, paper_results())]
    ordered = sorted(["ita-lora", "ita-ia3"], key=paper_results().place)
    assert found == [*(("cifar100", method) for method in ordered), ("digits", "ita-fft")]
    assert {row.benchmark for row in ablations(runs, paper_results(), ["digits"])} == {"digits"}
    assert len(ablations(runs, paper_results(), ["digits", "cifar100"])) == len(found)
    tables = ablation_tables(ablations(runs, paper_results()))
    assert [[row[0] for row in table.rows] for table in tables] == [ordered, ["ita-fft"]]


def test_a_setting_that_the_paper_lacks_has_no_paper_though_the_plain_variant_did_not_run(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    for variant in ("none", "head"):
        make_final_run(storage, variant, [70.0], overrides={"curvature": "kronecker", "regularise": variant})
    (row,) = ablations(read_final_runs(storage)[0], paper_results())
    assert row.ours.keys() == {"none", "head"} and row.paper == {}


def test_rows_name_their_runs_as_of_one_method_under_two_protocols(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    for precision in ("fp32", "bf16"):
        for variant in ("all", "none"):
            about: dict[str, Any] = {"overrides": {"regularise": variant}, "protocol": {"precision": precision}}
            make_final_run(storage, f"{precision}-{variant}", [70.0], **about)
    (table,) = ablation_tables(ablations(read_final_runs(storage)[0], paper_results()))
    assert {(row[0], row[-1]) for row in table.texts} == {("ita-lora", f"{p}-all, {p}-none") for p in ("fp32", "bf16")}
