"""Tuned here, judged there: the matrix, and what is lost."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch.reports import read_final_runs
from tausearch.reports.comparison.command import show_transfer
from tausearch.reports.comparison.csv_rows import transfer_csv_rows
from tausearch.reports.comparison.tables import _transferred, transfer_tables
from tausearch.reports.comparison.transfers import TransferMatrix, transfer
from tausearch.runs import DataFacts, Storage, open_storage, read_spec
from tests.support.runs.final_runs import BACKBONE, make_final_run
from trainables.errors import InputError


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path / "runs", write=True)
    make_final_run(storage, "dd", [88.0, 90.0], benchmark="digits")
    make_final_run(storage, "gg", [60.0, 62.0], benchmark="glyphs")
    make_final_run(storage, "dg", [50.0, 51.0], benchmark="glyphs", tuned_on="digits")
    make_final_run(storage, "gd", [90.0], benchmark="digits", tuned_on="glyphs")
    make_final_run(storage, "finetune", [50.0], benchmark="digits", method="finetune")  # judged nowhere else
    return storage


def matrices(storage: Storage, *benchmarks: str) -> list[TransferMatrix]:
    return transfer(read_final_runs(storage)[0], benchmarks)


def test_the_matrix_and_the_loss(storage: Storage) -> None:
    make_final_run(storage, "fewer", [99.0], benchmark="glyphs", tuned_on="digits")  # than "dg", which stands for it
    (matrix,) = matrices(storage)
    assert (matrix.method, matrix.settings, matrix.left_out) == ("ita-lora", {}, ())
    assert matrix.tuned_on == matrix.judged_on == ("digits", "glyphs")
    means = {pair: cell.run.accuracy.mean for pair, cell in matrix.cells.items()}
    assert means == {
        ("digits", "digits"): 89,
        ("glyphs", "digits"): 90,
        ("digits", "glyphs"): 50.5,
        ("glyphs", "glyphs"): 61,
    }
    assert {pair: cell.loss for pair, cell in matrix.cells.items()} == {
        **{("digits", "digits"): 0.0, ("glyphs", "digits"): -1.0, ("digits", "glyphs"): 10.5, ("glyphs", "glyphs"): 0.0}
    }
    there = matrix.cells["digits", "glyphs"]
    assert there.two_sd == pytest.approx(2 * math.sqrt(2.0 + 0.5))
    assert _transferred(replace(there, own=there.run)) == "50.50 ± 0.71 (2)\nloss +0.00"
    assert matrix.cells["glyphs", "digits"].two_sd is None and matrix.cells["digits", "digits"].two_sd is None


def test_without_tuning_on_the_target_there_is_no_loss(storage: Storage) -> None:
    make_final_run(storage, "dm", [70.0], benchmark="mit67", tuned_on="digits")
    (matrix,) = matrices(storage)
    assert matrix.cells["digits", "mit67"].loss is None and matrix.cells["digits", "mit67"].own is None
    assert "mit67" not in matrix.tuned_on and "mit67" in matrix.judged_on
    (table,) = transfer_tables([matrix])
    assert table.header == ["tuned on", "digits", "glyphs", "mit67"]
    assert table.texts[0][-1] == "70.00 (1)\nno run tuned here" and table.texts[1][-1] == ""


def test_a_benchmark_of_the_tuning_has_its_row_by_name_and_a_column_if_it_was_judged_there(storage: Storage) -> None:
    make_final_run(storage, "mm", [70.0], benchmark="mit67")
    make_final_run(storage, "mc", [60.0], benchmark="cifar100", tuned_on="mit67")
    (matrix,) = matrices(storage)
    assert matrix.tuned_on == ("digits", "glyphs", "mit67")
    assert matrix.judged_on == ("cifar100", "digits", "glyphs", "mit67")
    assert matrix.cells["mit67", "cifar100"].loss is None and ("mit67", "mit67") in matrix.cells


def test_runs_of_another_protocol_are_not_set_against_each_other(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_final_run(storage, "longer", [99.0, 98.0], benchmark="glyphs", protocol={"epochs": 50})
    (matrix,) = matrices(storage)
    assert matrix.cells["glyphs", "glyphs"].run.spec.name == "gg" and matrix.left_out == ("longer",)
    show_transfer(storage, [], "text")
    assert "on other images than the rest: longer" in capsys.readouterr().err
    show_transfer(storage, [], "json")
    (found,) = json.loads(capsys.readouterr().out)["matrices"]
    assert (found["left_out"], found["left_out_runs"]) == (1, ["longer"])
    make_final_run(storage, "longer-dg", [90.0], benchmark="glyphs", tuned_on="digits", protocol={"epochs": 50})
    (matrix,) = matrices(storage)  # of two protocols with as many runs the later
    assert matrix.cells["glyphs", "glyphs"].run.spec.name == "longer"
    make_final_run(storage, "gg-again", [60.0, 62.0], benchmark="glyphs")
    (matrix,) = matrices(storage)  # the first protocol has the newest run
    assert matrix.cells["glyphs", "glyphs"].run.spec.name == "gg-again"
    about = {"benchmark": "glyphs", "protocol": {"class_orders": (0, 1)}}
    make_final_run(storage, "ordered", [97.0, 98.0], **about)
    make_final_run(storage, "ordered-dg", [97.0, 98.0], tuned_on="digits", **about)
    (matrix,) = matrices(storage)  # runs over class orders are newer, but take no usual run's place
    assert matrix.cells["glyphs", "glyphs"].run.spec.name == "gg-again"
    make_final_run(
        storage, "other-vit", [10.0], benchmark="glyphs", tuned_on="mit67", protocol={"weights_digest": "1" * 64}
    )
    first, second = matrices(storage)
    assert {pair for matrix in (first, second) for pair in matrix.cells} >= {("mit67", "glyphs")}
    assert all("mit67" not in m.tuned_on or set(m.cells) == {("mit67", "glyphs")} for m in (first, second))


def test_a_column_takes_the_protocol_with_most_benchmarks_not_with_most_runs(
    storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("short-1", "short-2", "short-3"):
        make_final_run(storage, name, [90.0], benchmark="glyphs", tuned_on="digits", protocol={"epochs": 3})
    (matrix,) = matrices(storage)
    column = {pair: cell.run.spec.name for pair, cell in matrix.cells.items() if pair[1] == "glyphs"}
    assert column == {("digits", "glyphs"): "dg", ("glyphs", "glyphs"): "gg"} and len(matrix.left_out) == 3
    show_transfer(storage, [], "text")
    assert "on other images than the rest: short-1, short-2, short-3" in capsys.readouterr().err


def test_runs_on_other_images_are_not_set_against_each_other(storage: Storage) -> None:
    for name, train in (("gg", 10), ("dg", 11)):
        data = DataFacts(digest="a" * 64, train=train, evaluation=10)
        read_spec(storage.run(name)).model_copy(update={"data": data}).save(storage.run(name))
    (matrix,) = matrices(storage)
    assert ("digits", "glyphs") in matrix.cells and matrix.cells["digits", "glyphs"].loss is None


def test_a_run_is_left_out_by_the_protocol_of_its_own_column(storage: Storage) -> None:
    make_final_run(storage, "longer-dg", [90.0], benchmark="glyphs", tuned_on="digits", protocol={"epochs": 50})
    make_final_run(storage, "longer-gg", [91.0], benchmark="glyphs", protocol={"epochs": 50})
    make_final_run(storage, "longer-dd", [92.0], benchmark="digits", protocol={"epochs": 50})
    (matrix,) = matrices(storage)
    names = {pair: cell.run.spec.name for pair, cell in matrix.cells.items()}
    assert names["digits", "digits"] == "dd" and names["digits", "glyphs"] == "longer-dg"
    assert set(matrix.left_out) == {"dg", "gg", "longer-dd"}  # longer-dd: its protocol is that of the other column


def test_what_was_set_by_hand_was_not_tuned(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    make_final_run(storage, "set", [99.0, 99.0], benchmark="glyphs", tuned_on="digits", overrides={"lr": 0.1})
    make_final_run(storage, "ablation", [5.0], benchmark="glyphs", tuned_on="digits", overrides={"regularise": "none"})
    plain, ablation = matrices(storage)
    assert plain.cells["digits", "glyphs"].run.spec.name == "dg"
    assert ablation.settings == {"regularise": "none"} and set(ablation.cells) == {("digits", "glyphs")}
    settings = [row["settings"] for row in transfer_csv_rows([plain, ablation]) if row["run"] in ("dg", "ablation")]
    assert settings == [{}, {"regularise": "none"}]
    assert transfer_tables([plain, ablation])[1].title.startswith("ita-lora (regularise=none): ")
    for overrides in ({}, {"regularise": "none"}):
        about: dict[str, Any] = {"tuned_on": "digits", "protocol": {"epochs": 3}, "overrides": overrides}
        make_final_run(storage, f"short-{len(overrides)}", [9.0], benchmark="glyphs", **about)
    assert [found.left_out for found in matrices(storage)] == [("short-0",), ("ablation",)]
    for form in ("text", "csv", "latex", "json"):
        show_transfer(storage, [], form)
        said = capsys.readouterr()
        assert said.err.splitlines() == [
            "left out, because judged under another protocol or on other images than the rest: short-0, ablation",
            "left out, because --set changed what was tuned: set",
        ]
        comments = [f"% {line}" for line in said.err.splitlines() if form == "latex"]
        assert said.out.splitlines()[: len(comments)] == comments
    assert json.loads(said.out)["changed_by_hand"] == ["set"]


def test_runs_that_do_not_say_where_they_were_tuned_are_left_out(storage: Storage) -> None:
    for name in ("dd", "gd"):
        path = storage.run(name).spec_file
        lines = [line for line in path.read_text().splitlines() if not line.startswith(("tuned_on:", "overrides:"))]
        path.write_text("\n".join(lines))  # as an older version wrote it
    (matrix,) = matrices(storage)
    assert set(matrix.cells) == {("digits", "glyphs"), ("glyphs", "glyphs")}


def test_another_precision_is_a_matrix_of_its_own_and_methods_come_by_name(storage: Storage) -> None:
    make_final_run(storage, "bf16", [40.0], benchmark="glyphs", tuned_on="digits", protocol={"precision": "bf16"})
    other = {"backbone": "z", "weights_digest": "1" * 64}
    make_final_run(storage, "z", [30.0], method="finetune", benchmark="glyphs", tuned_on="digits", protocol=other)
    for name, overrides in (("none", {"regularise": "none"}), ("plain", {})):
        about = {"benchmark": "glyphs", "tuned_on": "digits"}
        make_final_run(storage, name, [20.0], method="ita-fft", overrides=overrides, **about)
    found = [(matrix.method, {cell.run.spec.name for cell in matrix.cells.values()}) for matrix in matrices(storage)]
    assert [method for method, _ in found] == ["finetune", "ita-fft", "ita-fft", "ita-lora", "ita-lora"]
    assert [names for method, names in found if method == "ita-fft"] == [{"plain"}, {"none"}]
    assert [names for _, names in found if "bf16" in names] == [{"bf16"}]
    titles = [table.title.partition(": ")[0] for table in transfer_tables(matrices(storage))]
    assert titles[:3] == ["finetune", "ita-fft", "ita-fft (regularise=none)"]
    assert sorted(titles[3:]) == [f"ita-lora, {BACKBONE}, {each}" for each in ("bf16", "fp32")]
    assert {row["precision"] for row in transfer_csv_rows(matrices(storage)) if row["run"] == "bf16"} == {"bf16"}


def test_a_named_column_has_what_was_tuned_elsewhere(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    show_transfer(storage, ["digits"], "json")
    (matrix,) = json.loads(capsys.readouterr().out)["matrices"]
    assert [(c["tuned_on"], c["judged_on"]) for c in matrix["cells"]] == [("digits", "digits"), ("glyphs", "digits")]


def test_without_transfers_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = open_storage(tmp_path, write=True)
    make_final_run(storage, "own", [89.0, 91.0])
    show_transfer(storage, [], "text")
    said = capsys.readouterr().out
    make_final_run(storage, "set", [89.0], tuned_on="digits", overrides={"lr": 0.1})
    show_transfer(storage, [], "text")
    assert capsys.readouterr() == (said, "left out, because --set changed what was tuned: set\n")
    assert said.startswith("no hyperparameters were judged on a benchmark they were not tuned on; do it with: ")
    assert said.endswith(f"train BEST.yaml --storage {tmp_path} --benchmark OTHER\n")


def test_how_it_is_printed(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    show_transfer(storage, [], "text")
    text = capsys.readouterr().out
    assert "loss +10.50 (3.16)" in text and "loss -1.00" in text and "89.00 ± 1.41 (2)" in text
    make_final_run(storage, "failed", [None])
    show_transfer(storage, [], "json")
    content = json.loads(capsys.readouterr().out)
    (matrix,) = content["matrices"]
    assert content["without_results"] == ["failed"]
    assert {(c["tuned_on"], c["judged_on"], c["loss"]) for c in matrix["cells"]} >= {("digits", "glyphs", 10.5)}
    show_transfer(storage, [], "csv")
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(table) == 4 and {row["own_run"] for row in table} == {"dd", "gg"}
    assert {row["loss"] for row in table} == {"0.0", "-1.0", "10.5"}
    show_transfer(storage, [], "markdown")
    assert "| digits | 89.00 ± 1.41 (2) | 50.50 ± 0.71 (2)<br>loss +10.50 (3.16) |" in capsys.readouterr().out
    show_transfer(storage, [], "latex")
    assert r"90.00 (1), loss $-$1.00 & 61.00 $\pm$ 1.41 (2) \\" in capsys.readouterr().out


def test_nothing_to_show_is_one_line(storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_transfer(storage, ["mit67"], "text")
    assert capsys.readouterr().out.startswith("no hyperparameters were judged on a benchmark they were not tuned on")
    show_transfer(storage, ["mit67"], "csv")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("no hyperparameters were judged")
    show_transfer(open_storage(tmp_path / "none", write=False), [], "text")
    assert capsys.readouterr().out.startswith("no final runs in ")
    with pytest.raises(InputError, match="unknown benchmark 'nope'"):
        show_transfer(storage, ["nope"], "text")
