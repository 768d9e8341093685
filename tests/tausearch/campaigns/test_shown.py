"""Campaigns on the command line: what is planned, what stands, in words and as values, without running anything."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tausearch
from tausearch.api.synchronisation import Synced
from tausearch.campaigns import (
    CampaignCells,
    CampaignStatus,
    CellRuns,
    outputs,
    read_campaign_status,
    read_cells,
    write_campaign_report,
)
from tausearch.campaigns.mlflow_tables import LOCAL, read_pages, track_tables
from tausearch.campaigns.outputs import selected_runs
from tausearch.campaigns.status import starting_campaigns
from tausearch.cli.output import show_campaign_status, show_campaign_statuses
from tausearch.presentation import Table
from tausearch.reports import paper_results
from tausearch.runs import (
    Record,
    ReevaluationSpec,
    RunDirectory,
    RunStatus,
    Score,
    Storage,
    driver_lock,
    read_spec,
    replace_text,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_listener import write_best
from tausearch.tracking.benchmark_tags import TableRow
from tests.support.command_line import Ask
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.campaigns.planned import TABLE, planned, started
from trainables.errors import InputError


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A campaign of three cells whose first search has one trial of four, of 40 seconds."""
    plan = started(tmp_path)
    trial = make_trial(0, tasks=5, value=80.0)
    for row in trial.rows:
        row["seconds/training"] = 8.0
    Record(plan.cells[0].search.directory.record, {}, tasks=5).write(trial)
    return plan.storage


@pytest.fixture
def shown(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Call a command on the campaigns of a storage, the first argument, in a wide terminal."""
    monkeypatch.setenv("COLUMNS", "160")
    return lambda storage, *words: ask("campaign", *words, "--storage", str(storage.root))


def test_a_plan_says_cells_sizes_and_time(storage: Storage, tmp_path: Path, shown: Ask) -> None:
    file = str(tmp_path / "t.yaml")
    code, out, _ = shown(storage, "plan", file)
    assert (
        code == 0
        and "campaign t" in out
        and "3 cells, 7 of 8 trials to search, 6 seeds to train, 62 tasks in all" in out
    )
    (row,) = (line for line in out.splitlines() if "digits/ita-lora" in line)
    assert "stopped" in row and "4 trials, random" in row and "2 seeds" in row
    assert "and 2 cells of unknown time" in out and "left to do: " in out
    (joint,) = (line for line in out.splitlines() if "digits/joint" in line)
    assert "not searched" in joint and "?" in joint
    content = json.loads(shown(storage, "plan", file, "--format", "json")[1])
    cells, totals = content["cells"], content["totals"]
    assert [each["seconds_left"] is None for each in cells] == [False, True, True]
    assert totals["seconds_left"] == cells[0]["seconds_left"] and totals["seconds_left_here"] > 0
    assert (totals["tasks"], totals["cells_of_unknown_time"], totals["disk"]) == (62, 2, None)
    Path(file).write_text(TABLE.format(trials=4).replace("[ita-lora, finetune]", "[finetune]"))
    gone = "\ndigits/ita-lora is no longer in the file; its runs would be left alone\n"
    assert gone in shown(storage, "plan", file)[1]


def test_results_that_cannot_be_read_hide_no_other_cell(storage: Storage, shown: Ask) -> None:
    cells = read_cells(storage.campaign("t")).cells
    more = read_cells(storage.campaign("t")).with_cell(cells[1].model_copy(update={"seeds": 3}))
    more.save(storage.campaign("t"))
    for cell in cells:
        about: dict[str, Any] = {"benchmark": cell.benchmark, "method": cell.method, "overrides": {"lr": 0.5}}
        make_final_run(storage, cell.final, [80.0, 90.0], **about)
    storage.run(cells[0].final).results_file.write_text("{")
    code, out, err = shown(storage, "status", "t")
    assert (code, err) == (0, "") and "85.00" in out
    assert ["2/3" in line for line in out.splitlines() if "85.00" in line] == [False, True, False]  # a seed is to come
    write_campaign_report(storage, read_campaign_status(storage, storage.campaign("t")))
    page = (storage.campaign("t").path / "report.html").read_text(encoding="utf-8")
    matrix = page[page.index('class="matrix"') : page.index("</section>")]
    assert "85.00" in page and matrix.count("<tr") == 1 + len(cells)  # what has other settings is in no second row


def test_a_plan_for_a_cluster_says_its_devices_and_leaves_out_what_fits_here(
    storage: Storage, tmp_path: Path, shown: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, asked = str(tmp_path / "t.yaml"), []
    assert "device: " not in shown(storage, "plan", file)[1]
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: asked.append(address) or 2)
    monkeypatch.setattr("tausearch.cluster.resources.require_reachable", lambda address: None)
    monkeypatch.setattr("tausearch.campaigns.plans.require_reachable", lambda address: None)
    there = ("plan", file, "--address", "head:6379")
    code, out, _ = shown(storage, *there)
    assert code == 0 and set(asked) == {"head:6379"}
    assert "left to do: " in out and "at a time" not in out
    measured = "a share of a GPU in fp32 (a pilot trial measures it)"
    assert f"device: {measured}\n" in out
    content = json.loads(shown(storage, *there, "--format", "json")[1])
    cells, totals = content["cells"], content["totals"]
    assert totals["seconds_left"] > 0 and totals["seconds_left_here"] is None
    assert [each["devices"] for each in cells] == [[measured]] * 3


def test_devices_that_differ_are_said_with_their_cells(tmp_path: Path, shown: Ask, gpus: Callable[[int], None]) -> None:
    gpus(1)
    whole = "search: null, train: {{gpus_per_trial: 1}}}}, {{method: ewc, search: {{gpus_per_trial: 1}}"
    plan = planned(tmp_path, TABLE.replace("search: null", whole))
    out = shown(plan.storage, "plan", str(tmp_path / "t.yaml"))[1]
    lines = [line for line in out.splitlines() if line.startswith("device: ")]
    assert lines == [
        "device: a share of a GPU in fp32 (a pilot trial measures it): digits/ita-lora, digits/finetune, digits/ewc",
        "device: a whole GPU in fp32 (as asked for): digits/joint, digits/ewc",
    ]


def test_nothing_known_says_how_to_measure(tmp_path: Path, shown: Ask) -> None:
    plan = planned(tmp_path)
    _, out, _ = shown(plan.storage, "plan", str(tmp_path / "t.yaml"))
    assert "the time is unknown; measure it with --pilot" in out
    totals = json.loads(shown(plan.storage, "plan", str(tmp_path / "t.yaml"), "--format", "json")[1])["totals"]
    assert totals["seconds_left"] is totals["seconds_left_here"] is None and totals["cells_of_unknown_time"] == 3
    assert shown(plan.storage, "status")[1] == "no campaigns yet\n"


def test_what_stands_in_one_line_and_in_full(storage: Storage, shown: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = shown(storage, "status")
    row = [part.strip() for part in out.splitlines()[3].split("│")[1:6]]
    assert err == "" and row == ["t", "stopped", "3", "0", "0"]
    _, out, _ = shown(storage, "status", "t")
    assert f" campaign run {storage.root.parent}/t.yaml --storage {storage.root}\n" in out.partition("go on: ")[2]
    show_campaign_status(read_campaign_status(storage, storage.campaign("t")), storage, "", "the command of its driver")
    assert capsys.readouterr().out.endswith("\ngo on: the command of its driver\n")
    assert "t: stopped; 0/3 cells done" in out and "80.00" in out and out.count("waiting") == 2
    assert re.search(r"test % +┃ incremental +┃ forgetting", out)
    content = json.loads(shown(storage, "status", "t", "--format", "json")[1])
    assert [each["state"] for each in content["cells"]] == ["stopped", "waiting", "waiting"]
    (listed,) = json.loads(shown(storage, "status", "--format", "json")[1])
    assert listed == content
    code, _, err = shown(storage, "status", "nope")
    assert code == 2 and err.count("\n") == 1 and "nope" in err


def test_a_cell_at_work_is_emphasised(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[Table] = []
    monkeypatch.setattr("tausearch.cli.output.campaigns.terminal_table", lambda table: tables.append(table) or "")
    show_campaign_status(read_campaign_status(storage, storage.campaign("t"), running=True), storage, "", None)
    assert tables[0].emphasis == {0: "strong"}  # its search has begun, and the other cells wait


def test_a_failed_cell_is_not_done_in_the_list(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    status = read_campaign_status(storage, storage.campaign("t"))
    first, second, third = status.cells
    show_campaign_statuses(
        [replace(status, cells=(replace(first, state="failed"), replace(second, state="done"), third))]
    )
    assert [part.strip() for part in capsys.readouterr().out.splitlines()[3].split("│")[3:6]] == ["3", "1", "1"]


def test_an_accuracy_over_some_of_the_seeds_says_over_how_many(
    storage: Storage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status = read_campaign_status(storage, storage.campaign("t"))
    first, *others = status.cells
    scores = {seeds: {"test/final_accuracy": Score(60.0, None, seeds)} for seeds in (1, 2)}
    assert first.runs.seeds == 2
    monkeypatch.setenv("COLUMNS", "160")
    for seeds, noun, said in ((1, "seed", "60.00 (1 seed)"), (2, "seed", "60.00 "), (1, "trial", "60.00 (1 trial)")):
        final: Any = SimpleNamespace(n_ended=seeds, spec=SimpleNamespace(trial_noun=noun))
        cell = replace(first, scores=scores[seeds], final=final)
        show_campaign_status(replace(status, cells=(cell, *others)), storage, "")
        assert said in (out := capsys.readouterr().out) and (f"{noun})" in out) == (seeds == 1)


def test_the_written_comparison_is_in_the_order_of_the_file(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def as_texts(_: object, order: object = None) -> dict[str, str]:
        asked.append(order)
        return {"csv": "a"}

    monkeypatch.setattr(outputs, "as_texts", as_texts)
    runs = ["a run"]
    monkeypatch.setattr(outputs, "_final_runs", lambda *_: runs)
    directory = storage.campaign("t")
    assert outputs.write_comparison(storage, directory) == [file := directory.path / "comparison.csv"]
    assert asked == [outputs.matrix_order(read_cells(directory).cells)] and file.exists()
    runs.clear()  # the cell was started anew
    assert outputs.write_comparison(storage, directory) == [] and not file.exists()


def test_its_tables_get_the_runs_oldest_first_as_a_comparison_does(storage: Storage) -> None:
    cell = read_cells(storage.campaign("t")).cells[0]
    for name in ("older", "young"):
        make_final_run(storage, name, [50.0])
    cells = [cell.model_copy(update={"final": name}) for name in ("young", "none", "older")]
    assert [run.spec.name for run in outputs._final_runs(storage, cells)] == ["older", "young"]


def test_each_benchmark_has_a_figure_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "draw_figure", lambda plot, _: plot)
    monkeypatch.setattr(outputs, "save", lambda plot, path: (plot, path.name))
    status = SimpleNamespace(name="t", directory=SimpleNamespace(path=tmp_path))
    results = SimpleNamespace(status=status, plots={"digits": 1, "digits?tasks=2": 2})
    assert outputs._draw_accuracies(results) == [(1, "digits.png"), (2, "digits-tasks-2.png")]  # type: ignore[arg-type]


def test_a_comparison_of_a_campaign_has_the_papers_rows_if_it_is_asked_to(storage: Storage) -> None:
    asked = [selected_runs(storage.campaign("t"), with_paper=wanted).with_paper for wanted in (True, False)]
    assert asked == [True, False]


def test_a_table_in_mlflow_has_both_runs_of_a_cell_and_the_papers_accuracy(storage: Storage) -> None:
    status = read_campaign_status(storage, storage.campaign("t"))
    search = status.cells[0].search
    assert search is not None
    final = replace(search, spec=final_spec(search.spec, name="f", tracking=("mlflow",)))
    cell = status.cells[0].runs.model_copy(update={"benchmark": "cub200"})
    tabled = replace(status, cells=(replace(status.cells[0], runs=cell, final=final), *status.cells[1:]))
    written: list[tuple[object, ...]] = []

    def write(_: Storage, *table: object) -> str:
        written.append(table)
        return "page"

    paper = paper_results().cell("cub200", cell.method)
    assert paper is not None
    row = TableRow(cell.method, (search.spec, final.spec), paper.accuracy)
    assert track_tables(storage, tabled, "http://b:5000", write=write) == {"cub200": "http://b:5000/page"}
    assert track_tables(storage, tabled, write=write) == {"cub200": f"{LOCAL}/page"}
    assert read_pages(status.directory) == {"cub200": f"{LOCAL}/page"}
    password = "http://me:word@b:5000"
    assert track_tables(storage, tabled, password, write=write) == {"cub200": "http://b:5000/page"}
    assert written.pop()[0] == password
    for text in ("{", "[]", '{"cub200": 3}'):  # damaged, and no status ends with an error
        status.directory.pages_file.write_text(text)
        assert read_pages(status.directory) == {}
    elsewhere = replace(final, spec=final.spec.model_copy(update={"tracking": (), "tracking_uri": "http://a:5000"}))
    untracked = replace(tabled, cells=(replace(tabled.cells[0], final=elsewhere),))
    assert track_tables(storage, untracked, write=write) == {}
    assert track_tables(storage, untracked, "sqlite:////d", write=write) == {"cub200": f"{LOCAL}/page"}
    written.pop()
    assert track_tables(storage, untracked, "http://b:5000", write=write) == {"cub200": "http://b:5000/page"}
    row_elsewhere = replace(row, runs=(search.spec, elsewhere.spec))
    assert written.pop() == ("http://b:5000", "cub200", "t", [row_elsewhere], [])
    uris = ("http://b:5000", storage.mlflow_uri)
    assert written == [(uri, "cub200", "t", [row], []) for uri in uris]
    assert track_tables(storage, untracked, write=write) == {} == read_pages(status.directory)  # no earlier ones


def test_cells_in_two_stores_of_mlflow_are_tabled_in_each_and_the_page_is_that_of_the_last_driver(
    storage: Storage,
) -> None:
    status = read_campaign_status(storage, storage.campaign("t"))
    search, (new, old, _) = status.cells[0].search, status.cells
    assert search is not None

    def final(uri: str) -> RunStatus:
        return replace(search, spec=final_spec(search.spec, name="f", tracking=("mlflow",), tracking_uri=uri))

    saved = status.saved.model_copy(update={"tracking_uri": "http://new:1"})
    cells = (replace(new, final=final("http://new:1")), replace(old, final=final("http://old:1")))
    moved = replace(status, cells=cells, saved=saved)
    written: dict[str, list[str]] = {}

    def write(_: Storage, uri: str, benchmark: str, table: str, rows: list[TableRow], gone: list[str]) -> str:
        written[uri] = [row.method for row in rows]
        if uri == lost:
            raise ConnectionError("no server")
        return "page"

    lost = ""
    assert track_tables(storage, moved, write=write) == {"digits": "http://new:1/page"}
    assert written == {"http://old:1": ["finetune"], "http://new:1": ["ita-lora"]}
    lost = "http://old:1"
    with pytest.raises(InputError, match="'t': MLflow cannot be written for digits "):
        track_tables(storage, moved, write=write)
    assert read_pages(status.directory) == {"digits": "http://new:1/page"}


def test_the_runs_of_cells_that_have_left_the_file_leave_the_table_in_mlflow(storage: Storage) -> None:
    directory = storage.campaign("t")
    status = read_campaign_status(storage, directory)
    kept, first = read_cells(directory), status.cells[0]
    assert first.search is not None
    final = final_spec(first.search.spec, name=first.runs.final, tracking=("mlflow",), tracking_uri="http://a:5000")
    make_run_directory(final, storage)
    again = status.cells[1].runs.model_copy(update={"title": "under another title"})
    deleted = first.runs.model_copy(update={"method": "ewc", "final": "deleted"})
    gone = (again, deleted, first.runs)  # a run that is not there hides none of those after it
    kept.model_copy(update={"cells": kept.cells[1:], "gone": gone}).save(directory)
    written: list[tuple[object, ...]] = []

    def write(_: Storage, *table: object) -> str:
        written.append(table)
        return "page"

    left = replace(status, cells=status.cells[1:])
    assert track_tables(storage, left, write=write) == {} == read_pages(directory)
    assert written == [("http://a:5000", first.runs.benchmark, "t", [], ["ewc", first.runs.method])]

    def fail(*_: object) -> str:
        raise ConnectionError("no server")

    replace_text(directory.pages_file, '{"digits": "an old page"}')
    with pytest.raises(InputError, match=f"'t': MLflow cannot be written for {first.runs.benchmark} "):
        track_tables(storage, left, write=fail)
    assert read_pages(directory) == {}  # as far as they were written before that of the past


def test_a_campaign_without_a_run_is_starting(
    tmp_path: Path, ask: Ask, shown: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path)
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    status = ["status", "--storage", str(plan.storage.root)]
    assert ask(*status)[1].startswith("no runs in ")  # its driver has ended
    with driver_lock(plan.directory, "campaign"):
        line = "campaign t: starting; 3 cells waiting: digits/ita-lora, digits/finetune, digits/joint\n"
        assert ask(*status)[1] == line
        out = " ".join(shown(plan.storage, "status", "t")[1].split())
        assert "t: starting; 0/3 cells done" in out and "go on" not in out
        assert "│ digits/finetune │ waiting │ 0/4 │ │ │" in out and "│ digits/joint │ waiting │ not searched │" in out
        monkeypatch.setattr("tausearch.cli.output.statuses._NAMED_CELLS", 3)
        assert ask(*status)[1] == line
        monkeypatch.setattr("tausearch.cli.output.statuses._NAMED_CELLS", 2)
        assert ask(*status)[1].endswith("waiting: digits/ita-lora, digits/finetune and 1 more\n")
        assert json.loads(ask(*status, "--format", "json")[1]) == []
        make_run_directory(plan.cells[0].search.spec, plan.storage)
        with monkeypatch.context() as patch:
            patch.setattr("tausearch.campaigns.status.read_status", lambda _: pytest.fail("a run was read twice"))
            out = ask(*status)[1]
        assert "starting" not in out and "ita-lora" in out
        assert "t: running; 0/3 cells done" in shown(plan.storage, "status", "t")[1]


def test_of_campaigns_that_start_the_oldest_comes_first(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with ExitStack() as locks:
        for age, name in enumerate(("b", "c", "a")):
            directory = plan.storage.campaign(name)
            directory.path.mkdir(parents=True)
            plan.saved_cells.save(directory)
            os.utime(directory.spec_file, (9000 - age, 9000 - age))
            locks.enter_context(driver_lock(directory, "campaign"))
        assert [each.directory.name for each in starting_campaigns(plan.storage)] == ["a", "c", "b"]


def test_a_run_of_it_goes_on_by_its_command(storage: Storage, ask: Ask) -> None:
    words = ["status", read_cells(storage.campaign("t")).cells[0].search or "", "--storage", str(storage.root)]
    last = ask(*words)[1].splitlines()[-1]
    assert last.startswith("go on: ")
    assert last.endswith(f" campaign run {storage.root.parent}/t.yaml --storage {storage.root}")
    with driver_lock(storage.campaign("t")):
        assert "go on" not in ask(*words)[1]


def test_a_cell_with_other_options_of_the_benchmark_is_named(tmp_path: Path, shown: Ask) -> None:
    own = "cells: [{{method: ita-lora, search: {{epochs: 7}}}}, "  # the first of the three cells
    plan = started(tmp_path, TABLE.replace("cells: [", own))
    said = "digits/ita-lora is on digits?epochs=7: in the comparison, another column than digits\n"
    for words in (["plan", str(tmp_path / "t.yaml")], ["status", "t"]):
        out = shown(plan.storage, *words)[1]
        assert said in out and out.count("another column") == 1
    two = TABLE.replace(", finetune]", "]").replace("cells: [", own).format(trials=4).replace("t\n", "v\n", 1)
    (tmp_path / "v.yaml").write_text(two)
    assert said in shown(plan.storage, "plan", str(tmp_path / "v.yaml"))[1]
    rows = TABLE.replace("algorithm: random", "algorithm: random, epochs: 7").replace("t\n", "u\n", 1)
    (tmp_path / "u.yaml").write_text(rows.format(trials=4))
    assert "another column" not in shown(plan.storage, "plan", str(tmp_path / "u.yaml"))[1]


def test_a_campaign_goes_on_at_the_cluster_of_its_last_driver(storage: Storage, ask: Ask, shown: Ask) -> None:
    directory = storage.campaign("t")
    read_cells(directory).model_copy(update={"address": "auto", "max_concurrent_trials": 3}).save(directory)
    last = f" --storage {storage.root} --address auto --max-concurrent-trials 3"
    assert shown(storage, "status", "t")[1].splitlines()[-1].endswith(last)
    words = ["status", read_cells(directory).cells[0].search or "", "--storage", str(storage.root)]
    assert ask(*words)[1].splitlines()[-1].endswith(last)
    content = json.loads(shown(storage, "status", "t", "--format", "json")[1])
    assert content["address"] == "auto"


@pytest.mark.parametrize("command", ["status t", "resume t", "train t", "compose t", "runs note t x"])
def test_a_campaign_whose_name_is_given_for_a_run_is_shown_the_way(command: str, storage: Storage, ask: Ask) -> None:
    code, _, err = ask(*command.split(), "--storage", str(storage.root))
    assert code == 2 and err.endswith(f"; t is a campaign: tausearch campaign status t --storage {storage.root}\n")


def test_a_reevaluated_search_is_shown_with_the_mean_of_its_fresh_runs(tmp_path: Path, shown: Ask) -> None:
    plan = started(tmp_path, TABLE.replace("trials: {trials}", "trials: {trials}, reevaluate: 1, reevaluate_runs: 2"))
    search = plan.cells[0].search
    again = ReevaluationSpec.of(search.spec)
    for number in range(4):
        Record(search.directory.record, tasks=5).write(make_trial(number, tasks=5, value=90.0 - number))
    for number, value in enumerate((84.0, 86.0)):
        fresh = replace(make_trial(0, tasks=5, value=value), number=number, seed=again.seed_of(number))
        Record(search.directory.reevaluation.record, tasks=5).write(fresh)
    _, out, _ = shown(plan.storage, "status", "t")
    (row,) = (line for line in out.splitlines() if "digits/ita-lora" in line)
    assert "85.00" in row and "90.00" not in row
    cells = json.loads(shown(plan.storage, "status", "t", "--format", "json")[1])["cells"]
    assert (cells[0]["ended"]["reason"], cells[0]["reevaluation"]["verdict"]["chosen"]) == ("trials", 0)
    # Each cell has the same keys, so that a program need not ask which are there.
    assert [(cell["ended"], cell["reevaluation"]) for cell in cells[1:]] == [(None, None)] * 2


def test_a_report_is_written(storage: Storage, tmp_path: Path, shown: Ask) -> None:
    page = tmp_path / "page.html"
    code, out, _ = shown(storage, "report", "t", "--output", str(page))
    assert code == 0 and out == f"report: {page}\n" and "ita-lora" in page.read_text(encoding="utf-8")
    told = json.loads(shown(storage, "report", "t", "--output", str(page), "--format", "json")[1])
    assert told == {"report": str(page)}


def test_a_report_says_why_a_cell_failed(storage: Storage) -> None:
    status = read_campaign_status(storage, storage.campaign("t"))
    storage.run(str(status.cells[0].runs.search)).spec_file.write_text("{")
    status = read_campaign_status(storage, storage.campaign("t"))
    page = write_campaign_report(storage, status).read_text(encoding="utf-8")
    reasons = [each.reason for each in status.cells]
    assert status.cells[0].state == "failed" and reasons[1:] == [None, None]
    assert "run.yaml" in str(reasons[0]) and str(reasons[0]) in html.unescape(page) and ">waiting</span>" in page
    assert '<a href="#cell-1">failed</a>' in page  # the table has no room for the reason


def test_a_report_opens_with_methods_by_benchmarks(tmp_path: Path, shown: Ask) -> None:
    """And the status marks what cannot be compared."""
    storage = Storage(tmp_path / "runs")
    cells = []
    for method, accuracies in (("ita-lora", [80.0, 82.0]), ("finetune", [50.0, 51.0]), ("joint", None)):
        for benchmark in ("cifar100", "cub200"):
            name = f"{benchmark}-{method}"
            if accuracies:
                change = {"epochs": 5, "batch_size": 8} if name == "cub200-ita-lora" else {"epochs": 20}
                make_final_run(storage, name, accuracies, benchmark=benchmark, method=method, protocol=change)
            names = {"benchmark": benchmark, "method": method, "title": f"{benchmark}/{method}", "final": name}
            cells.append(CellRuns(**names, search=None, trials=0, seeds=2, steps=1))
    cells.sort(key=lambda cell: cell.benchmark)
    directory = storage.campaign("t")
    directory.path.mkdir(parents=True)
    CampaignCells(campaign="t", file="t.yaml", cells=tuple(cells)).save(directory)
    text = write_campaign_report(storage, read_campaign_status(storage, directory)).read_text(encoding="utf-8")
    matrix = text[text.index('class="matrix"') : text.index("</section>")]
    rows = [re.sub(r"\s+", " ", row) for row in re.findall(r"<tr.*?</tr>", matrix, re.DOTALL)]
    assert ["ita-lora" in rows[1], "finetune" in rows[2], "joint" in rows[3]] == [True] * 3 and len(rows) == 4
    best = 'class="number best" style="--heat:81.0%"><a href="#cell-1">81.00 ± 1.41</a><br><small>paper 89.96 ± 0.20'
    assert best in rows[1] and "<sup>a</sup><br><small>(paper 85.55" in rows[1]  # CUB-200 has other epochs in the paper
    assert '<a href="#cell-5">50.50 ± 0.71</a>' in rows[2] and "(paper 29.35 ± 1.65)" in rows[2]
    assert '<a href="#cell-3">waiting</a>' in rows[3]
    assert "<sup>a</sup> epochs 5 instead of 20" in text and text.count("accuracy after every task</b>") == 2
    apart = "epochs 5 instead of 20; batch size 8 instead of 128"
    assert f"ita-lora ({apart})" in text
    out = shown(storage, "status", "t")[1]
    assert "│ cub200/ita-lora * │" in out and out.count(" * │") == 1
    assert f"\n* cub200/ita-lora: not as most on this benchmark: {apart}\n" in out


def test_sync_tags_the_tables_in_the_given_store(storage: Storage, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str | None]] = []

    def sync_run(_: Storage, directory: RunDirectory, uri: str, tracking: str | None) -> Synced:
        return Synced(directory.name, uri, trials=1, tasks=5, written=5)

    def track_tables(_: Storage, status: CampaignStatus, tracking_uri: str | None = None) -> dict[str, str]:
        written.append((status.name, tracking_uri))
        return {}

    monkeypatch.setattr("tausearch.api.sync_run", sync_run)
    monkeypatch.setattr("tausearch.campaigns.track_tables", track_tables)
    words = ["runs", "sync", "--storage", str(storage.root), "--tracking-uri", "http://b:5000"]
    code, _, err = ask(*words)
    assert (code, err) == (0, "") and written == [("t", "http://b:5000")]


@pytest.fixture
def outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A campaign whose first final run trains another learning rate than its search, which has four trials, chose."""
    plan = started(tmp_path)
    search, final = (each.spec.name for each in (plan.cells[0].search, plan.cells[0].training))
    trials = [make_trial(number, 5, 80.0 + number) for number in range(4)]
    for trial in trials:
        Record(plan.cells[0].search.directory.record, {}, tasks=5).write(trial)
    write_best(plan.cells[0].search.spec, plan.cells[0].search.directory, trials)
    make_final_run(plan.storage, final, [60.0, 60.0], benchmark="digits")
    spec = read_spec(plan.storage.run(final))
    spec.model_copy(update={"source": search}).save(plan.storage.run(final))
    monkeypatch.setenv("COLUMNS", "160")
    return plan.storage


ANOTHER = "does not train what search 't-digits-ita-lora' chooses now"


@pytest.mark.parametrize(
    "words",
    [
        "status t-digits-ita-lora-final",
        "status t-digits-ita-lora-final --format json",
        "campaign status t",
        "campaign status t --format json",
        "compare --campaign t",
        "compare --campaign t --format json",
        "compare --campaign t --format latex",
        "compare --campaign t --format markdown",
    ],
)
def test_what_shows_a_final_run_of_another_choice_says_so(words: str, outdated: Storage, ask: Ask) -> None:
    out = ask(*words.split(), "--storage", str(outdated.root))[1]
    assert ANOTHER in " ".join(out.replace("''", "'").replace("`", "'").split())


def test_the_report_and_the_written_table_say_it_too(outdated: Storage) -> None:
    status = read_campaign_status(outdated, outdated.campaign("t"))
    page = html.unescape(write_campaign_report(outdated, status).read_text())
    assert f"t-digits-ita-lora-final' {ANOTHER}" in page and page.count(ANOTHER) >= 2  # in the list of cells, too
    outputs.write_comparison(outdated, status.directory)
    assert ANOTHER in (status.directory.path / "comparison.md").read_text()


def test_an_extended_search_of_a_campaign_says_what_the_campaign_needs_and_waits_for_its_driver(
    outdated: Storage, ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tausearch.api.resume_with", lambda request: pytest.fail("it began"))
    words = ["extend", "t-digits-ita-lora", "--trials", "9", "--storage", str(outdated.root)]
    with driver_lock(outdated.campaign("t"), "campaign"):
        code, _, err = ask(*words)
    assert (code, err.count("belongs to campaign 't', which runs now; extend it afterwards")) == (2, 1)

    def refuse(request: object) -> None:
        raise InputError("it goes on")

    monkeypatch.setattr("tausearch.api.resume_with", refuse)
    _, _, err = ask(*words)
    assert "whose final run may be of another choice; write trials: 9, reevaluate: 0 for digits/ita-lora in its" in err
    assert f"campaign run {outdated.root.parent}/t.yaml" in err and err.endswith("it goes on\n")
    monkeypatch.setattr("tausearch.campaigns.extending.resume_with", refuse)  # in Python it is the same
    with pytest.raises(InputError, match="it goes on"):
        tausearch.extend("t-digits-ita-lora", trials=9, storage=outdated.root)
    assert err == f"{capsys.readouterr().err}tausearch: it goes on\n"
    with pytest.raises(InputError, match="extend: needs trials"):
        tausearch.extend("t-digits-ita-lora", storage=outdated.root)


def test_a_search_that_its_campaign_would_refuse_goes_on_by_itself(outdated: Storage, ask: Ask) -> None:
    search = outdated.run("t-digits-ita-lora")
    read_spec(search).model_copy(update={"trials": 5}).save(search)
    out = ask("status", search.name, "--storage", str(outdated.root))[1]
    assert out.endswith(f" resume {search.name} --storage {outdated.root}\n") and "go on: " in out
