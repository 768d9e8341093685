"""A campaign's file: the cells that it describes, and one line for whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.campaigns import CellConfig, read_campaign
from trainables.errors import InputError

WHOLE = """
campaign: table-1
benchmarks: [digits, glyphs]
methods: [ita-lora, finetune]
search: {algorithm: random, trials: 6, set: {lr: 0.5, alpha: 2}}
train: {seeds: [0, 1]}
cells:
  - {method: joint, search: null}
  - {benchmark: glyphs, method: ita-lora, search: {trials: 3, set: {lr: 1e-3}}, train: {cpus-per-trial: 2}}
  - {benchmark: glyphs, search: {scheduler: asha}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "campaign.yaml"
    path.write_text(text)
    return path


def test_cells_are_rows_times_columns_with_their_exceptions(tmp_path: Path) -> None:
    file = read_campaign(written(tmp_path, WHOLE))
    assert file.name == "table-1"
    titles = [cell.title for cell in file.cells]
    assert titles == [f"{b}/{m}" for b in ("digits", "glyphs") for m in ("ita-lora", "finetune", "joint")]
    by_title = dict(zip(titles, file.cells, strict=True))
    usual = {"algorithm": "random", "trials": 6, "set": {"lr": 0.5, "alpha": 2}}
    assert by_title["digits/finetune"] == CellConfig("digits", "finetune", usual, {"seeds": [0, 1]})
    assert by_title["digits/joint"].search is None  # a method that is not in the list becomes a column
    assert by_title["glyphs/ita-lora"].search == {
        "algorithm": "random",
        "trials": 3,
        "set": {"lr": 0.001, "alpha": 2},
        "scheduler": "asha",
    }
    assert by_title["glyphs/ita-lora"].train == {"seeds": [0, 1], "cpus_per_trial": 2}
    assert by_title["glyphs/finetune"].search == {**usual, "scheduler": "asha"}
    assert by_title["glyphs/joint"].search is None  # a row is the listed methods'


ADDED = """
campaign: t
benchmarks: [digits]
methods: [finetune, ita-lora]
cells:
  - {method: ita-lora, search: {trials: 3, epochs: 4}}
  - {method: joint, search: null}
  - {benchmark: glyphs, search: {trials: 5}}
  - {benchmark: letters, method: ita-lora}
"""


def test_a_column_holds_for_benchmarks_that_other_exceptions_add(tmp_path: Path) -> None:
    cells = read_campaign(written(tmp_path, ADDED)).cells
    assert [cell.title for cell in cells] == [
        *(f"digits/{method}" for method in ("finetune", "ita-lora", "joint")),
        *(f"glyphs/{method}" for method in ("finetune", "ita-lora")),  # a row is the listed methods'
        "letters/ita-lora",
    ]
    asked = {cell.title: (cell.search, dict(cell.protocol)) for cell in cells if cell.method == "ita-lora"}
    assert asked == {
        "digits/ita-lora": ({"trials": 3}, {"epochs": 4}),
        "glyphs/ita-lora": ({"trials": 5}, {"epochs": 4}),  # the later exception counts
        "letters/ita-lora": ({"trials": 3}, {"epochs": 4}),
    }


def test_cells_that_would_share_their_runs_are_refused(tmp_path: Path) -> None:
    for place in ("a/train", "b/train"):
        (tmp_path / place).mkdir(parents=True)
    one, other = (f"folder:{tmp_path / place}" for place in ("a/train", "b/train"))
    text = WHOLE.replace("[digits, glyphs]", f"[{one}, {other}, glyphs]")
    with pytest.raises(InputError) as caught:
        read_campaign(written(tmp_path, text))
    faults = caught.value.args
    assert [fault.rpartition(": both would be ")[2].partition(";")[0] for fault in faults] == [
        f"folder-train/{method}" for method in ("ita-lora", "finetune", "joint")
    ]
    assert all(one in fault and other in fault for fault in faults)
    assert all(fault.endswith("; give one another name, as by a link to its folder") for fault in faults)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("{benchmark: 'folder:/b/birds', method: joint}", "folder-birds"),  # the picture of the benchmark
        ("{benchmark: 'folder:/a/birds-ita', method: 'lora:_'}", "t-folder-birds-ita-lora"),  # the run
    ],
)
def test_cells_that_would_share_a_picture_or_a_run_under_another_title_are_refused(
    other: str, name: str, tmp_path: Path
) -> None:
    text = f"campaign: t\nbenchmarks: ['folder:/a/birds']\nmethods: [ita-lora]\ncells: [{other}]\n"
    with pytest.raises(InputError, match=f"on folder:/a/birds and .*: both would be {name}; give one another name"):
        read_campaign(written(tmp_path, text))


def test_benchmarks_and_methods_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = WHOLE.replace("[digits, glyphs]", "[glyphs, digits]").replace("[ita-lora, finetune]", "[ita-lora, ewc]")
    titles = [cell.title for cell in read_campaign(written(tmp_path, text)).cells]
    assert titles == [f"{b}/{m}" for b in ("glyphs", "digits") for m in ("ita-lora", "ewc", "joint")]


def test_what_decides_the_measurement_holds_without_a_search_too(tmp_path: Path) -> None:
    own = {"backbone": "vit", "backbone_weights": "/w", "precision": "bf16", "seed": 4, "class_order": 5, "epochs": 2}
    text = WHOLE.replace("{algorithm: random, trials: 6, ", f"{{{', '.join(f'{k}: {v}' for k, v in own.items())}, ")
    joint = read_campaign(written(tmp_path, text)).cells[2]
    assert (joint.method, joint.search, joint.protocol) == ("joint", None, own)


def test_null_takes_back_an_option_of_all_cells(tmp_path: Path) -> None:
    text = WHOLE.replace("trials: 6,", "trials: 6, patience: 4,").replace("trials: 3,", "trials: 3, patience: null,")
    cells = {cell.title: cell.search for cell in read_campaign(written(tmp_path, text)).cells}
    found = [(cells[f"glyphs/{method}"] or {})["patience"] for method in ("ita-lora", "finetune")]
    assert found == [None, 4]


def test_null_takes_back_all_set_values(tmp_path: Path) -> None:
    text = WHOLE.replace("set: {lr: 1e-3}", "set: null").replace("cpus-per-trial: 2", "set: null")
    text = text.replace("train: {seeds", "train: {set: {lr: 0.1}, seeds")
    (cell,) = (cell for cell in read_campaign(written(tmp_path, text)).cells if cell.title == "glyphs/ita-lora")
    assert cell.search is not None and cell.search["set"] is cell.train["set"] is None


def test_a_search_is_asked_for_again_by_an_empty_mapping(tmp_path: Path) -> None:
    text = WHOLE.replace("search: {algorithm: random, trials: 6, set: {lr: 0.5, alpha: 2}}", "search: null")
    text = text.replace("{method: joint, search: null}", "{method: ewc, search: {}}")
    text += "  - {benchmark: digits, method: finetune, train: {seeds: [3]}}\n"  # asks for none
    cells = {cell.title: cell.search for cell in read_campaign(written(tmp_path, text)).cells}
    assert (cells["digits/ewc"], cells["digits/finetune"]) == ({}, None)


def test_a_cell_that_is_searched_on_one_benchmark_alone(tmp_path: Path) -> None:
    text = WHOLE + "  - {benchmark: digits, method: tmc}\n  - {benchmark: 'digits?tasks=2', method: ewc}\n"
    cells = read_campaign(written(tmp_path, text)).cells
    assert [cell.benchmark for cell in cells] == ["digits"] * 4 + ["glyphs"] * 3 + ["digits?tasks=2"]
    assert cells[3].title == "digits/tmc" and cells[-1].title == "digits-tasks-2/ewc"


SETTING = """
campaign: t
benchmarks: [digits, glyphs]
methods: [ita-lora]
search: {epochs: 1, precision: bf16, trials: 6}
cells:
  - {method: joint, search: null}
  - {method: ewc, search: null}
  - {benchmark: glyphs, search: {epochs: 2}}
  - {benchmark: digits, method: joint, search: {class_order: 5}}
  - {benchmark: digits, method: ewc, search: {epochs: 4, trials: 3}}
"""


def test_options_of_a_benchmark_hold_for_cells_that_are_not_searched(tmp_path: Path) -> None:
    cells = {cell.title: cell for cell in read_campaign(written(tmp_path, SETTING)).cells}
    assert {title: cell.protocol["epochs"] for title, cell in cells.items()} == {
        "digits/ita-lora": 1,
        "digits/joint": 1,
        "digits/ewc": 4,
        "glyphs/ita-lora": 2,
        "glyphs/joint": 2,  # a row's, although the row's exception stands later and does not name the method
        "glyphs/ewc": 2,
    }
    assert all(cell.protocol["precision"] == "bf16" for cell in cells.values())
    joint = cells["digits/joint"]
    assert joint.search is None and joint.protocol["class_order"] == 5  # such options alone start no search
    assert cells["digits/ewc"].search == {"trials": 3} and cells["glyphs/ewc"].search is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("campaign: table-1\n", "", "campaign is missing"),
        ("campaign: table-1", "campaign: [a]", r"campaign: must be a text, got "),
        ("campaign: table-1", "campaign: b 2/x", r"campaign: name 'b 2/x': must be letters, digits"),
        ("[digits, glyphs]", "[]", "benchmarks: must have at least 1 item, got"),
        ("[digits, glyphs]", "[digits, digits]", "benchmarks: 'digits' is there twice"),
        ("[digits, glyphs]", "[digits, nope]", r"benchmarks\[1\]: unknown benchmark 'nope'; allowed: digits, glyphs"),
        ("[digits, glyphs]", "[digits, 3]", r"benchmarks\[1\]: must be a text, got 3"),
        ("[ita-lora, finetune]", "[ewc, ewc]", "methods: 'ewc' is there twice"),
        ("train:", "trian:", "trian: there is no such key; allowed: campaign, benchmarks, methods, search, train"),
        ("trials: 6", "trails: 6", "search.trails: there is no such key; did you mean 'trials'"),
        ("trials: 6", "trials: many", "search.trials: must be a whole number, got 'many'"),
        ("trials: 6", "trials: true", "search.trials: must be a whole number, got True"),
        ("trials: 6", "gpus_per_trial: half", "search.gpus_per_trial: must be a number, got 'half'"),
        ("trials: 6", "gpus_per_trial: 1/0", "search.gpus_per_trial: must be a number, got '1/0'"),
        ("trials: 6", "storage: /tmp", "search.storage: is given on the command line of `campaign run`"),
        ("trials: 6", "tracking-uri: x", "search.tracking_uri: is given on the command line"),
        ("trials: 6", "name: x", "search.name: there is no such key"),
        ("train:", "tracking: x\ntrain:", "tracking: there is no such key; allowed: campaign, benchmarks"),
        ("trials: 6", "trials: 0", "search.trials: must be a whole number from 1"),
        ("algorithm: random", "algorithm: tpu", "search.algorithm: unknown algorithm 'tpu'; .*; did you mean 'tpe'"),
        ("scheduler: asha", "scheduler: ash", r"cells\[2\].search.scheduler: unknown scheduler 'ash'; .* 'asha'"),
        ("scheduler: asha", "precision: fp8", r"cells\[2\].search.precision: unknown precision 'fp8'"),
        ("[ita-lora, finetune]", "[ita-lroa]", r"methods\[0\]: unknown method 'ita-lroa'; did you mean 'ita-lora'"),
        ("method: joint", "method: jont", r"cells\[0\].method: unknown method 'jont'; did you mean 'joint'"),
        ("seeds: [0, 1]", "seeds: 3", r"train.seeds: must be a list in brackets, as \[A, B\], got 3"),
        ("seeds: [0, 1]", "seeds: [1, 1]", r"train.seeds: must be 1 to 1000 different numbers, got \[1, 1\]"),
        ("seeds: [0, 1]", "seeds: [a]", r"train.seeds\[0\]: must be a whole number, got 'a'"),
        ("lr: 1e-3", "lr: [1]", r"cells\[1\].search.set.lr: must be a number, a text, true or false, got \[1\]$"),
        ("lr: 1e-3", "lr: .inf", r"cells\[1\].search.set.lr: must be finite, got inf$"),
        ("trials: 6", "class_order: [a, 1]", r"search.class_order\[1\]: must be a text, got 1$"),
        (
            "trials: 6",
            "max-concurrent-trials: 2, max_concurrent_trials: 3",
            "search: max_concurrent_trials is there tw",
        ),
        ("{method: joint, search: null}", "{search: null}", r"cells\[0\]: names neither a benchmark nor a method"),
        ("{method: joint, search", "{metod: joint, search", r"cells\[0\].metod: .*allowed: benchmark, method, search"),
        ("search: null", "search: 3", r"cells\[0\].search: must be a mapping, as {A: B}, got 3"),
        ("train: {seeds: [0, 1]}", "train: null", "train: must be a mapping, as {A: B}, got null"),
        (
            "trials: 6",
            "across: rank",
            "search.across: a campaign searches each benchmark alone; .* A,B METHOD",
        ),
        (
            "[digits, glyphs]",
            "['digits,glyphs']",
            r"benchmarks\[0\]: 'digits,glyphs': a campaign searches each ",
        ),
        ("scheduler: asha", "schedule: asha", r"cells\[2\].search.schedule: there is no such key"),
        ("benchmark: glyphs, search", "benchmark: nope, search", r"cells\[2\].benchmark: unknown benchmark 'nope'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in WHOLE
    path = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(InputError, match=f"campaign file {path}: {said}") as caught:
        read_campaign(path)
    assert "\n" not in str(caught.value)


def test_all_that_is_wrong_is_said_at_once_with_the_names_that_were_meant(tmp_path: Path) -> None:
    wrong = [
        ("[digits, glyphs]", "[digts, digts, glyphs]", "benchmarks[0]: ", "'digits'"),
        ("[ita-lora, finetune]", "[ita-lora, finetun]", "methods[1]: ", "'finetune'"),
        ("trials: 6", "trails: 6, class_order: 1.5", "search.trails: ", "'trials'"),
        ("set: {lr: 0.5, alpha: 2}", "set: {lr: [1], alpha: 2}", "search.set.lr", None),
        ("seeds: [0, 1]", "sedes: [0, 1]", "train.sedes: ", "'seeds'"),
        ("method: joint", "metod: joint", "cells[0].metod: ", "'method'"),
        ("trials: 3", "epoch: 3, storage: x", "cells[1].search.epoch: ", "'epochs'"),
    ]
    text = WHOLE
    for old, new, _, _ in wrong:
        text = text.replace(old, new, 1)
    with pytest.raises(InputError) as caught:
        read_campaign(path := written(tmp_path, text))
    lines = [line.removeprefix(f"campaign file {path}: ") for line in str(caught.value).splitlines()]
    for _, _, place, meant in wrong:
        (line,) = [line for line in lines if line.startswith(place)]
        assert meant is None or f"did you mean {meant}" in line
    others = [
        "benchmarks[1]: unknown",
        "benchmarks: 'digts' is there twice",
        "search.class_order",
        "cells[1].search.st",
    ]
    assert all(sum(line.startswith(each) for line in lines) == 1 for each in others)
    assert len(lines) == len(wrong) + len(others)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        read_campaign(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not valid YAML at line 2"):
        read_campaign(written(tmp_path, "a: [1"))
    with pytest.raises(InputError, match="must be a mapping with the keys campaign, benchmarks"):
        read_campaign(written(tmp_path, "- a"))


def test_a_share_of_a_gpu_is_written_as_on_the_command_line(tmp_path: Path) -> None:
    (cell, *_) = read_campaign(written(tmp_path, WHOLE.replace("trials: 6", "gpus-per-trial: 1/3"))).cells
    assert cell.search is not None and cell.search["gpus_per_trial"] == pytest.approx(1 / 3)
    (cell, *_) = read_campaign(written(tmp_path, WHOLE.replace("trials: 6", "gpus-per-trial: auto"))).cells
    assert cell.search is not None and cell.search["gpus_per_trial"] == "auto"
