"""What is wrong with the cells of a campaign: each fault is named once, with all others and before any work."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tausearch.campaigns.remainder import remainder
from tausearch.cluster import AddressFault
from tausearch.presentation import Table
from tausearch.runs import Storage
from tausearch.runs.creation import make_run_directory
from tests.support.command_line import Ask
from tests.support.runs.letter_images import draw_letters
from tests.tausearch.campaigns.planned import TABLE, faults_of, planned, started
from trainables.errors import InputError


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "algorithm: random",
            "constraint: ['forgeting <= 5']",
            "digits/ita-lora: search.constraint .*: unknown metric",
        ),
        ("algorithm: random", "algorithm: grid", "digits/ita-lora: search.trials 999: the grid has"),
        ("algorithm: random", "set: {{lr: -1}}", "digits/ita-lora: search.set lr=-1"),
        ("algorithm: random", "set: {{rate: 1}}", "digits/ita-lora: search.set rate=1: unknown hyperparameter 'rate'"),
    ],
)
def test_a_cell_that_cannot_run_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"t.yaml: {said}"):
        planned(tmp_path, TABLE.replace(old, new), trials=999)


def test_a_cluster_that_cannot_be_joined_is_no_fault_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^--address 127.0.0.1:1: no Ray cluster answers there \(.*\)$"):
        planned(tmp_path, TABLE.replace("digits", "dgits"), address="127.0.0.1:1")

    def refuse(address: str | None) -> float:
        raise InputError(AddressFault(f"--address {address}: a token is missing"))

    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", refuse)
    for text in (TABLE, TABLE.replace("[ita-lora, finetune]", "[finetune]").partition("cells:")[0]):
        with pytest.raises(InputError, match="^--address auto: a token is missing$"):
            planned(tmp_path, text, address="auto")


def test_the_plan_has_every_cell_though_one_is_refused(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(tmp_path)
    (tmp_path / "t.yaml").write_text(TABLE.format(trials=3))
    monkeypatch.setenv("COLUMNS", "160")
    words = ["campaign", "plan", str(tmp_path / "t.yaml"), "--storage", str(tmp_path / "runs")]
    code, out, err = ask(*words)
    assert code == 2 and err.count("\n") == 1 and "digits/ita-lora: run 't-digits-ita-lora' was started" in err
    rows = [line for line in out.splitlines() if "digits/" in line]
    assert len(rows) == 3 and ["refused" in row for row in rows] == [True, False, False] and "start" in rows[1]
    tables: list[Table] = []
    with monkeypatch.context() as patch:
        patch.setattr("tausearch.cli.output.campaigns.terminal_table", lambda table: tables.append(table) or "")
        ask(*words)
    assert tables[0].emphasis == {0: "bad"}
    told = json.loads(ask(*words, "--format", "json")[1])
    assert told["order"] == ["digits/ita-lora", "digits/finetune", "digits/joint"]
    refused = told["refused"]
    assert [each["title"] for each in refused] == ["digits/ita-lora"] and "is now 3" in refused[0]["reasons"][0]


def test_a_plan_is_read_where_nothing_may_be_written_and_has_a_table_of_refused_cells(tmp_path: Path, ask: Ask) -> None:
    """A folder below /proc cannot be made, even by root."""
    (tmp_path / "t.yaml").write_text(TABLE.format(trials=4))
    words = ["campaign", "plan", str(tmp_path / "t.yaml"), "--storage", "/proc/nowhere"]
    code, out, _ = ask(*words)
    assert code == 0 and out.count("digits/") == 3
    (tmp_path / "t.yaml").write_text(TABLE.format(trials=4).replace("[0, 1]", "[0, 1], set: {nope: 1}"))
    code, out, err = ask(*words)
    assert code == 2 and "train.set nope=1" in err and "0 cells" not in out
    assert [line.replace("│", " ").split()[:2] for line in out.splitlines() if "digits/" in line] == [
        ["digits/ita-lora", "refused"],
        ["digits/finetune", "refused"],
        ["digits/joint", "refused"],
    ]
    code, _, err = ask("campaign", "run", *words[2:])
    assert code == 2 and "train.set nope=1" in err
    (tmp_path / "t.yaml").write_text(TABLE.format(trials=4))
    code, _, err = ask("campaign", "run", *words[2:])
    assert code == 2 and "--storage /proc/nowhere: cannot be written" in err


def test_what_is_wrong_with_several_cells_is_said_once_and_each_fault_has_a_line(tmp_path: Path) -> None:
    wrong = TABLE.replace("algorithm: random", "constraint: [loss], set: {{rate: 1}}")
    wrong = wrong.replace("[0, 1]", "[0, 1], gpus_per_trial: auto, set: {{bta: 1}}")
    with pytest.raises(InputError) as caught:
        planned(tmp_path, wrong)
    start = f"campaign file {tmp_path / 't.yaml'}: digits/"
    lines = [line.removeprefix(start) for line in str(caught.value).splitlines()]
    assert [line.partition(";")[0] for line in lines if "hyperparameter" in line] == [
        "ita-lora: search.set rate=1: unknown hyperparameter 'rate'",
        "ita-lora: train.set bta=1: unknown hyperparameter 'bta'",
        "finetune: search.set rate=1: unknown hyperparameter 'rate'",
        "finetune: train.set bta=1: unknown hyperparameter 'bta'",
    ]
    others = [line for line in lines if "hyperparameter" not in line]
    assert [line.split()[:2] for line in others] == [
        ["ita-lora:", "search.constraint"],
        ["ita-lora:", "train.gpus_per_trial"],
    ]
    assert others[0].endswith(" (and 1 more cell)") and others[1].endswith(" (and 2 more cells)")


def test_a_fault_of_the_command_line_is_no_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        planned(tmp_path, tracking="foo")
    assert str(caught.value).startswith("--tracking must be none, or ") and "\n" not in str(caught.value)


def test_images_that_are_gone_are_said_once_for_the_runs_of_a_cell(tmp_path: Path) -> None:
    images = draw_letters(tmp_path / "own")
    table = TABLE.replace("[digits]", f"['folder:{images}?tasks=2']").replace(
        "algorithm: random", "backbone: glyph_vit"
    )
    text = table.partition("cells:")[0]
    for cell in planned(tmp_path, text).cells:
        for spec in cell.specs:
            make_run_directory(spec, Storage(tmp_path / "runs"))
    next((images / "train" / "A").iterdir()).unlink()
    lines = faults_of(tmp_path, text)
    assert [re.search(r"run '(.*?)': data.train was", line)[1] for line in lines] == [  # type: ignore[index]
        "t-folder-own-tasks-2-ita-lora",
        "t-folder-own-tasks-2-finetune",
    ]


def test_a_final_run_is_judged_by_the_tasks_of_its_cell_though_the_search_has_a_fault(tmp_path: Path) -> None:
    few = "campaign: t\nbenchmarks: [digits]\nmethods: [coda]\n"
    few += "search: {{tasks: 2, set: {{rate: 1}}}}\ntrain: {{set: {{pool_size: POOL}}}}\n"
    (rate,) = faults_of(tmp_path, few.replace("POOL", "2"))  # which the usual five tasks of digits would not allow
    assert "search.set rate=1" in rate
    (_, pool) = faults_of(tmp_path, few.replace("POOL", "1"))
    assert "must be at least the number of tasks (2), got 1" in pool


def test_what_is_wrong_with_words_and_with_cells_is_said_at_once(tmp_path: Path) -> None:
    wrong = TABLE.replace("algorithm: random", "algoritm: grid, sampler_options: {{a: 1}}, set: {{rate: 1}}")
    wrong = wrong.replace("trials: {trials}", "trails: {trials}, reevaluate: 3")
    wrong = wrong.replace("[ita-lora, finetune]", "[ita-lroa, nope, finetune]").replace("[0, 1]", "[0, 0]")
    lines = faults_of(tmp_path, wrong.replace("null}}]", "null}}, {{metod: ewc}}]"))
    assert [line.partition(";")[0][:44] for line in lines] == [
        "methods[0]: unknown method 'ita-lroa'",
        "methods[1]: unknown method 'nope'",
        "search.trails: there is no such key",
        "search.algoritm: there is no such key",
        "train.seeds: must be 1 to 1000 different num",
        "cells[1].metod: there is no such key",
        "digits/finetune: search.set rate=1: unknown ",
    ]


def test_what_is_left_of_a_long_list_is_all_but_its_wrong_entries() -> None:
    names = ["nope" if number in (9, 10) else f"digits?epochs={number + 1}" for number in range(12)]
    cells: list[Any] = [{"method": "ewc", "benchmark": name} for name in names]
    cells += [{"method": "nope", "benchmark": "digits"}, {"method": "ewc", "search": {"trails": 3, "patience": 4}}]
    left = remainder({"campaign": "t", "benchmarks": ["digits"], "methods": ["ewc"], "cells": cells}, frozenset())
    assert left is not None
    *listed, own = left.cells
    assert [each.benchmark for each in listed] == [name for name in names if name != "nope"]
    assert own.search is not None and own.search.given == {"patience": 4}  # of an exception only the wrong option goes


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "randm", "sampler_options": {"a": 1}, "trials": 3, "scheduler": "asha"},
        {"objective": 3, "prefer": "forgetting"},
        {"reevaluate": "all", "reevaluate_runs": 2},
        {"scheduler": "ashes", "pruner-options": {"a": 1}},
        {"trials": "many", "reevaluate": 3, "reevaluate_runs": 2},
        {"reevaluate_runs": "all", "reevaluate": "all", "trials": "many"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_goes_with_a_wrong_option_is_not_judged_without_it(wrong: dict[str, Any]) -> None:
    plain = {"campaign": "t", "benchmarks": ["digits"], "methods": ["ewc"], "search": {**wrong, "patience": 4}}
    left = remainder(plain, frozenset())
    assert left is not None and left.search is not None and left.search.given == {"patience": 4}


def test_a_wrong_word_makes_no_run_that_has_begun_another_one(tmp_path: Path) -> None:
    started(tmp_path)
    (line,) = faults_of(tmp_path, TABLE.replace("algorithm: random", "algorithm: randm"))
    assert line.startswith("search.algorithm: unknown algorithm 'randm'")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("algorithm: random", "epoch: 2", "search.epoch: there is"),  # without it, cells would be other ones
        ("campaign: t", "campain: t", "campaign is missing|campain: there is"),
        ("[digits]", "[digts]", "benchmarks"),
        ("search: {{trials: {trials}, algorithm: random}}", "search: 3", "search: must be a mapping"),
        ("cells: [", "cells: [3, ", r"cells\[0\]: must be a mapping"),
    ],
)
def test_cells_that_are_not_known_are_not_judged(tmp_path: Path, old: str, new: str, said: str) -> None:
    lines = faults_of(tmp_path, TABLE.replace(old, new))
    assert lines and all(re.match(said, line) for line in lines)


def test_two_cells_of_one_benchmark_and_method_are_refused(tmp_path: Path) -> None:
    """They would write the same best file, and one place of the comparison."""
    text = TABLE.replace("[digits]", "[digits, 'digits?epochs=1']").replace(
        "cells: [", "cells: [{{benchmark: digits, method: finetune, search: {{epochs: 1}}}}, "
    )
    said = "digits-epochs-1/finetune: is digits/finetune once more: both are finetune on digits?epochs=1"
    with pytest.raises(InputError, match=re.escape(said)):
        planned(tmp_path, text)


def test_an_option_with_two_values_is_refused(tmp_path: Path) -> None:
    text = TABLE.replace("[digits]", "['digits?epochs=2']").replace("random", "random, epochs: {epochs}")
    said = r"search.epochs 1: benchmark 'digits\?epochs=2' has epochs=2; give it once \(and 2 more cells\)$"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, text.replace("{epochs}", "1"))
    assert planned(tmp_path, text.replace("{epochs}", "2")).cells[0].runs.benchmark == "digits?epochs=2"
