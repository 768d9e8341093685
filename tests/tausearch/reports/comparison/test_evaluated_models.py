"""Specialisation, unlearning and ablations of final runs beside the paper's tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tausearch.api import rename_run
from tausearch.models import UNLEARNING_MODES, EvaluationResult
from tausearch.models.evaluation_results import EvaluatedSeed
from tausearch.reports import paper_results
from tausearch.runs import Storage
from tests.support.command_line import Command
from tests.support.runs.final_runs import make_final_run

Shown = Callable[..., str]


def evaluated(
    storage: Storage,
    name: str,
    benchmark: str = "cifar100",
    trained: int = 1,
    kept: tuple[int, ...] = (1, 2, 4),
    **more: Any,
) -> None:
    """A final run of four tasks: unlearning takes 40, 20 and 60 points of its task, 3, 1 and 9 of the others."""
    make_final_run(storage, name, [80.0] * trained, benchmark=benchmark, **more)
    whole = (70.0, 80.0, 90.0, 80.0)
    costs = dict(zip(UNLEARNING_MODES, ((40.0, 3.0), (20.0, 1.0), (60.0, 9.0)), strict=True))
    unlearned = {
        reading: tuple(tuple(a - (own if i == u else rest) for i, a in enumerate(whole)) for u in range(4))
        for reading, (own, rest) in costs.items()
    }
    seed = EvaluatedSeed(seed=0, whole=whole, specialised=(75.0, 85.0, 20.0, 89.0), unlearned=unlearned)
    method = more.get("method", "ita-lora")
    result = EvaluationResult(run=name, benchmark=benchmark, methods=(method,), kept=kept, seeds=(seed,))
    result.save(storage.run(name))


@pytest.fixture
def compare(command: Command, storage: Storage) -> Command:
    return lambda *words, code=0: command("compare", *words, "--storage", storage.root, code=code)


@pytest.fixture
def shown(compare: Command) -> Shown:
    """What `compare --composition` prints."""
    return lambda *words: compare("--composition", *words)[0]


def test_evaluations_beside_the_papers_tables(storage: Storage, shown: Shown, compare: Command) -> None:
    evaluated(storage, "mine")
    evaluated(storage, "other", method="iel-lora", protocol={"epochs": 3})
    evaluated(storage, "bare", overrides={"regularise": "none"})
    make_final_run(storage, "not-evaluated", [80.0], method="iel-lora")
    rows = json.loads(shown("--format", "json"))["rows"]
    found = {(row["method"], row["ours"]["run"] if row["ours"] else None): row for row in rows}
    assert set(found) == {
        ("ita-lora", "mine"),
        ("ita-lora", "bare"),
        ("iel-lora", "other"),
        ("iel-lora", None),
        ("tmc", None),
    }
    mine = found["ita-lora", "mine"]
    assert mine["paper"]["unlearning"]["target_gain"] == -61.29 and mine["departures"] == []
    summary = mine["ours"]["summary"]
    assert summary["specialisation"]["target"]["mean"] == 83.0  # of 75, 85 and 89
    assert summary["specialisation"]["target_gain"]["mean"] == pytest.approx(83 - 230 / 3)
    assert summary["specialisation"]["control"]["mean"] == 20.0
    assert summary["unlearning/subtract"]["target_gain"]["mean"] == -60.0
    assert summary["unlearning/negate"]["control_gain"]["mean"] == -1.0
    assert found["ita-lora", "bare"]["paper"] is None and found["iel-lora", "other"]["paper"] is None
    assert found["iel-lora", "other"]["departures"] == ["epochs 3, the paper's 20"]
    (damaged,) = storage.run("other").compositions.iterdir()
    damaged.write_text("{")
    out, err = compare("--composition")
    assert "mine" in out and "bare" in out and str(damaged) in err


def test_a_run_that_was_renamed_has_its_new_name_and_one_that_got_the_old_name_has_no_results(
    storage: Storage, shown: Shown
) -> None:
    evaluated(storage, "mine")
    rename_run(storage, "mine", "theirs")
    make_final_run(storage, "mine", [30.0], benchmark="cifar100")
    for form in ("json", "csv", "markdown"):
        out = shown("--format", form)
        assert "theirs" in out and "mine" not in out, out


def test_a_run_of_which_some_seeds_were_evaluated_says_how_many(storage: Storage, shown: Shown) -> None:
    evaluated(storage, "whole")
    evaluated(storage, "part", trained=2, method="iel-lora")
    for form in ("text", "markdown", "latex"):
        out = shown("--format", form)
        assert "part (1 of 2 seeds)" in out and "whole (" not in out, out
    rows = list(csv.DictReader(io.StringIO(shown("--format", "csv"))))
    assert {(row["whose"], row["seeds"]) for row in rows} == {("ours", "1"), ("paper", "")}


def test_csv_has_the_same_columns_where_all_tasks_are_kept_and_titles_tell_folders_apart(
    storage: Storage, shown: Shown
) -> None:
    headers = []
    for name, kept in (("all", (1, 2, 3, 4)), ("some", (1, 2, 4))):
        evaluated(storage, name, benchmark=f"folder:/{name}/birds", kept=kept)
        headers.append(shown("--format", "csv").splitlines()[0])
    assert headers[0] == headers[1] and ",specialisation_target,specialisation_target_gain," in headers[0]
    latex = shown("--format", "latex")
    assert all(rf"\caption{{folder:/{name}/birds: spec" in latex for name in ("all", "some"))


def test_the_method_as_it_is_comes_before_its_other_settings(storage: Storage, shown: Shown) -> None:
    evaluated(storage, "two", overrides={"regularise": "none", "lr": 0.5})
    evaluated(storage, "first", method="iel-lora", overrides={"regularise": "none", "lr": 0.5})
    evaluated(storage, "one", overrides={"regularise": "none"})
    evaluated(storage, "plain")
    rows = json.loads(shown("--format", "json"))["rows"]
    assert [row["ours"]["run"] for row in rows if row["ours"]] == ["first", "plain", "one", "two"]


def test_every_form_of_the_evaluations(storage: Storage, shown: Shown) -> None:
    evaluated(storage, "mine")
    records = list(csv.DictReader(io.StringIO(shown("--format", "csv"))))
    ours = {record["reading"]: record for record in records if record["whose"] == "ours"}
    assert set(ours) == set(UNLEARNING_MODES) and float(ours["drop"]["unlearning_target_gain"]) == -40.0
    assert ours["drop"]["unlearning_target_gain_std"] == ""  # of one seed
    (paper,) = [r for r in records if r["whose"] == "paper" and r["method"] == "ita-lora"]
    assert float(paper["specialisation_target"]) == 92.80
    latex, markdown = "ita-lora & ours, subtract", "| ita-lora | ours, subtract | 83.00 |"
    for form, sign in (("markdown", markdown), ("latex", latex)):
        text = shown("--format", form)
        assert sign in text and "see the page" in text
    lines = shown("--format", "markdown").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:6]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], row[1], row[2] != "", row[-1]) for row in cells] == [
        ("ita-lora", "ours, subtract", True, "mine"),  # the reading that is nearest to the paper's
        *[("", f"ours, {reading}", False, "") for reading in ("drop", "negate")],
        ("", "paper", True, ""),
    ]
    assert cells[0][-5:-1] == ["20.00", "-60.00", "71.00", "-9.00"]  # the task that is taken out, and the rest
    theirs = paper_results().composition["cifar100"]["ita-lora"].unlearning
    assert [float(cell) for cell in cells[-1][-5:-1]] == list(theirs.model_dump().values())
    table = shown("cub200")
    assert "ours" not in table and "68.19" in table
    evaluated(storage, "second", benchmark="cub200")
    text = shown("--format", "markdown")
    first, second = text.split("cub200: specialisation")
    assert ("mine" in first, "second" in first, "mine" in second, "second" in second) == (True, False, False, True)


def test_nothing_to_show_says_how_to_make_it(storage: Storage, shown: Shown, compare: Command) -> None:
    assert "no final runs in" in shown()
    assert "| ita-lora |  | 86.60 ± 0.40 |" in compare("mit67", "--format", "markdown")[0]  # the paper's
    make_final_run(storage, "alone", [50.0], benchmark="digits", method="finetune")
    lacking = shown()
    assert "no final run has been evaluated so; do it with:" in lacking
    assert f"evaluate RUN --storage {storage.root}" in lacking
    assert "--set regularise=none" in compare("--ablation")[0]
    for options, words in (
        (["--ablation", "--transfer"], "--transfer and --ablation: choose one of them"),
        (["--composition", "--figure", "a.png"], "so it does not go with --composition"),
    ):
        assert words in compare(*options, code=2)[1]
