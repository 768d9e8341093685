"""What a campaign will do, known before anything starts."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.api.benchmarks import OpenBenchmark, open_benchmark
from tausearch.campaigns import (
    CampaignPlan,
    CampaignRequest,
    CellPlan,
    plan_campaign,
    run_campaign,
)
from tausearch.campaigns.cell_plans import _has_chosen_otherwise, plan_final
from tausearch.campaigns.plans import work_left
from tausearch.campaigns.remainder import remainder
from tausearch.cluster import AddressFault
from tausearch.runs import Record, Reevaluate, RunDirectory, Storage, driver_lock
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.support.command_line import Ask
from tests.support.runs.letter_images import draw_letters
from tests.support.runs.trials import make_trial
from trainables.errors import InputError
from trainables.methods import METHODS

TABLE = """
campaign: t
benchmarks: [digits]
methods: [ita-lora, finetune]
search: {{trials: {trials}, algorithm: random}}
train: {{seeds: [0, 1]}}
cells: [{{method: joint, search: null}}]
"""


REEVALUATED = TABLE.replace("trials: {trials}", "trials: {trials}, reevaluate: 2, reevaluate_runs: 2")


def planned(tmp_path: Path, text: str = TABLE, trials: int = 4, **options: Any) -> CampaignPlan:
    path = tmp_path / "t.yaml"
    path.write_text(text.format(trials=trials))
    return plan_campaign(CampaignRequest(path, storage=tmp_path / "runs", **options))


def test_a_benchmark_is_opened_once_in_the_folder_of_the_command_and_the_cluster_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    def opening(text: str, data_root: object) -> OpenBenchmark:
        asked.append((text, data_root))
        return open_benchmark(text, None)

    joined: list[object] = []
    monkeypatch.setattr("tausearch.campaigns.plans.open_benchmark", opening)
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: joined.append(address) or 2)
    plan = planned(tmp_path, TABLE.replace("algorithm: random", "cpus_per_trial: 4000"), address="auto", data_root="/d")
    assert asked == [("digits", "/d")] and joined == ["auto"]
    assert {spec.resources.gpus_from for cell in plan.cells for spec in cell.specs} == {"rule"}
    assert plan.cells[0].search.spec.resources.cpus_per_trial == 4000  # the cluster alone says what fits


def test_every_cell_has_its_runs_and_their_sizes(tmp_path: Path) -> None:
    Storage(tmp_path / "runs").run("t-digits-joint").path.mkdir(parents=True)  # the place of a search, which it has not
    plan = planned(tmp_path, tracking_uri="http://a:1")
    runs = [each.runs for each in plan.cells]
    assert [(each.title, each.search, each.final) for each in runs] == [
        ("digits/ita-lora", "t-digits-ita-lora", "t-digits-ita-lora-final"),
        ("digits/finetune", "t-digits-finetune", "t-digits-finetune-final"),
        ("digits/joint", None, "t-digits-joint-final"),
    ]
    assert [(each.trials, each.seeds, each.steps) for each in runs] == [(4, 2, 5), (4, 2, 5), (0, 2, 1)]
    first = plan.cells[0].search.spec
    assert (first.trials, first.algorithm, first.tracking_uri) == (4, "random", "http://a:1")
    assert plan.cells[2].training.spec.fixed == unsearched_best_file(plan.cells[2].search.spec).hyperparameters
    final = plan_final(plan.cells[2], plan.request, plan.opening, plan.gpus)
    assert final is plan.cells[2].training, "without a search there is no best file to look for"
    assert plan.cells[2].training.spec.source is None and plan.cells[2].training.spec.tuned_on is None


def test_a_cell_that_is_not_searched_trains_with_the_same_epochs(tmp_path: Path) -> None:
    for option in ("epochs: 1", "seed: 4", "precision: bf16", "tasks: 2"):
        plan = planned(tmp_path, TABLE.replace("algorithm: random", option))
        protocols = [each.training.spec.protocol for each in plan.cells]
        assert protocols[0] == protocols[2], option
        assert protocols[0] != planned(tmp_path).cells[0].training.spec.protocol, option


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


def started(tmp_path: Path, text: str = TABLE) -> CampaignPlan:
    """The folder of the campaign and the search of its first cell have been made."""
    plan = planned(tmp_path, text)
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    make_run_directory(plan.cells[0].search.spec, plan.storage)
    return plan


def test_a_campaign_of_which_a_run_is_driven_leaves_nothing_behind(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    make_run_directory(plan.cells[0].search.spec, plan.storage)
    with driver_lock(plan.storage.run("t-digits-ita-lora")):
        before = sorted(plan.storage.root.rglob("*"))
        with pytest.raises(InputError, match="'t-digits-ita-lora' is being driven by another process"):
            run_campaign(plan)
        assert sorted(plan.storage.root.rglob("*")) == before


def test_a_second_driver_of_a_campaign_is_refused(tmp_path: Path) -> None:
    plan = started(tmp_path)
    with driver_lock(plan.directory), pytest.raises(InputError, match="campaign 't' is being driven"):
        run_campaign(plan)


def test_a_campaign_waits_for_a_final_run_that_another_process_drives(tmp_path: Path) -> None:
    plan = started(tmp_path)
    _, final = make_run_directory(plan.cells[0].training.spec, plan.storage)
    with driver_lock(final), pytest.raises(InputError, match=f"'{final.name}' is being driven by another process"):
        run_campaign(plan)


def test_a_cell_that_has_begun_goes_on_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    assert [each.status.state for each in planned(tmp_path).cells] == ["stopped", "waiting", "waiting"]
    with pytest.raises(InputError, match="digits/ita-lora: .*trials was 4, is now 3; .*: --redo digits/ita-lora"):
        planned(tmp_path, trials=3)
    with pytest.raises(InputError, match="seed was 0, is now 1; .*: --redo digits/ita-lora"):
        planned(tmp_path, TABLE.replace("algorithm: random", "algorithm: random, seed: 1"), trials=6)


@pytest.mark.parametrize(
    ("trials", "advised"),
    [
        (4, "to keep its re-evaluation, write reevaluate: 2, reevaluate_runs: 1 for this cell"),
        (5, "to keep its 5 trials, write trials: 5, reevaluate: 2, reevaluate_runs: 1 for this cell"),
    ],
)
def test_a_search_that_re_evaluates_by_hand_is_kept_by_what_is_advised(
    trials: int, advised: str, tmp_path: Path
) -> None:
    search = started(tmp_path).cells[0].search
    asked = {"trials": trials, "reevaluate": Reevaluate(best=2, runs=1, start=True)}
    search.spec.model_copy(update=asked).save(search.directory)
    with pytest.raises(InputError, match=f"; {advised}; to start the cell anew: --redo digits/ita-lora"):
        planned(tmp_path)
    options = advised.partition("write ")[2].removesuffix(" for this cell")
    own = f"{{{{benchmark: digits, method: ita-lora, search: {{{{{options}}}}}}}}}"
    plan = planned(tmp_path, TABLE.replace("search: null}}]", f"search: null}}}}, {own}]"))
    assert (plan.cells[0].runs.trials, plan.cells[0].runs.search) == (trials, search.spec.name)


def test_a_cell_that_was_not_searched_gets_no_search_beside_its_final_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    joint = plan.cells[-1]
    make_run_directory(joint.training.spec, plan.storage)
    assert planned(tmp_path).cells[-1].status.state == "stopped"
    said = "run 't-digits-joint-final' was trained without a search; .*: --redo digits/joint"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, TABLE.replace("search: null", "search: {{trials: 3}}"))


def test_cells_that_have_not_begun_are_tracked_like_those_that_have(tmp_path: Path) -> None:
    started(tmp_path)
    plan = planned(tmp_path, tracking="none")
    assert [spec.trackers for cell in plan.cells for spec in cell.specs] == [()] * 5
    plan.saved_cells.save(plan.directory)
    assert [spec.trackers for cell in planned(tmp_path).cells for spec in cell.specs] == [()] * 5


def test_what_a_driver_was_given_holds_for_the_next_that_is_given_nothing(tmp_path: Path) -> None:
    uri = "postgresql://me:secret@host/runs"
    given = {"data_root": tmp_path / "data", "max_concurrent_trials": 1, "tracking_uri": uri}
    plan = planned(tmp_path, **given)
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    assert "secret" not in plan.directory.spec_file.read_text()
    again = planned(tmp_path)
    alike = plan.saved_cells.model_copy(update={"max_concurrent_trials": None})  # as many as fit, unless asked for
    assert again.saved_cells == alike
    assert again.request.data_root == str(tmp_path / "data")
    assert {spec.tracking_uri for cell in again.cells for spec in cell.specs} == {"postgresql://me@host/runs"}


def test_more_trials_extend_a_cell(tmp_path: Path) -> None:
    """And the re-evaluation may be that of so many trials; a cell that has not begun is not extended."""
    started(tmp_path)
    more = TABLE.replace("trials: {trials}", "trials: {trials}, reevaluate: 2")
    first, second, _ = planned(tmp_path, more, trials=6).cells
    assert (first.added, first.next, second.added, second.next) == (2, "6 trials more", 0, "start")
    spec = first.search.continued()
    assert spec.trials == 6 and spec.reevaluate is not None
    with pytest.raises(InputError, match="reevaluate"):
        planned(tmp_path, more)
    assert [each.next for each in planned(tmp_path).cells] == ["go on", "start", "start"]


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


def faults_of(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        planned(tmp_path, text)
    start = f"campaign file {tmp_path / 't.yaml'}: "
    return [line.removeprefix(start) for line in str(caught.value).splitlines()]


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


def test_a_final_run_that_was_begun_otherwise_is_refused_too(tmp_path: Path) -> None:
    make_run_directory(planned(tmp_path).cells[2].training.spec, Storage(tmp_path / "runs"))
    assert planned(tmp_path).cells[2].status.state == "stopped"
    said = "digits/joint: .*'t-digits-joint-final' was started otherwise: seeds was 0 1, is now 0 2 3; to start the"
    with pytest.raises(InputError, match=said):  # their number follows, and is no option of the file
        planned(tmp_path, TABLE.replace("[0, 1]", "[0, 2, 3]"))


def test_a_search_under_the_name_of_a_final_run_is_refused_for_that_and_not_for_what_may_be_chosen(
    tmp_path: Path,
) -> None:
    first = started(tmp_path).cells[0]
    taken = {"name": first.training.spec.name, "fixed": {}}
    make_run_directory(first.search.spec.model_copy(update=taken), Storage(tmp_path / "runs"))
    (line,) = faults_of(tmp_path, TABLE.replace("trials: {trials}", "trials: 4"))
    assert "-final' was started otherwise: purpose was search, is now final;" in line and "; fixed." not in line


def test_a_cell_whose_runs_have_ended_is_to_be_extended_and_one_that_was_stopped_goes_on(tmp_path: Path) -> None:
    directory = started(tmp_path).cells[0].search.directory
    assert [planned(tmp_path, trials=trials).cells[0].state for trials in (4, 6)] == ["stopped"] * 2
    for number in range(4):
        remember(directory, number, 1.0)
    assert [planned(tmp_path, trials=trials).cells[0].state for trials in (4, 6)] == ["stopped", "to extend"]


def test_more_seeds_extend_a_final_run_and_each_keeps_its_number(tmp_path: Path) -> None:
    make_run_directory(planned(tmp_path).cells[2].training.spec, Storage(tmp_path / "runs"))
    joint = planned(tmp_path, TABLE.replace("[0, 1]", "[4, 1, 0, 3]")).cells[2]
    assert (joint.added_seeds, joint.next, joint.training.continued().seeds) == (2, "4 seeds more", (0, 1, 4, 3))
    assert [each.next for each in planned(tmp_path, TABLE.replace("[0, 1]", "[1, 0]")).cells] == ["start"] * 2 + [
        "go on"
    ]
    ordered = TABLE.replace("seeds: [0, 1]", "seeds: [0, 1], class_orders: [5, 6]").replace("t\n", "u\n", 1)
    assert [cell.runs.seeds for cell in planned(tmp_path, ordered).cells] == [4] * 3  # two seeds of each order
    make_run_directory(planned(tmp_path, ordered).cells[2].training.spec, Storage(tmp_path / "runs"))
    said = r"seeds was 0 1, is now 0 1 2 \(with class orders no seeds are added: .* change\); to start .*: --redo"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, ordered.replace("[0, 1]", "[0, 1, 2]"))


@pytest.mark.parametrize("trials", [4, 6])
def test_fewer_seeds_are_refused_in_the_plan_whether_or_not_the_search_goes_on(tmp_path: Path, trials: int) -> None:
    """And what a search may still choose differently is no difference."""
    plan = started(tmp_path)
    first = plan.cells[0]
    make_run_directory(
        first.training.spec.model_copy(update={"fixed": {"lr": 0.5}, "source": first.search.spec.name}), plan.storage
    )
    with pytest.raises(
        InputError, match=r"final' was started otherwise: seeds was 0 1, is now 0; .*: --redo digits/ita"
    ):
        planned(tmp_path, TABLE.replace("[0, 1]", "[0]"), trials=trials)
    cell = planned(tmp_path, TABLE.replace("[0, 1]", "[0, 1, 2]"), trials=trials).cells[0]
    assert (cell.added, cell.added_seeds) == (trials - 4, 1)
    assert cell.next == f"{trials} trials more and 3 seeds more", "none has ended"


def test_of_a_cell_that_grows_the_plan_counts_the_trials_that_will_run(tmp_path: Path) -> None:
    """Those are more than the new ones where its search was interrupted; without a final run, its seeds are no more."""
    directory = started(tmp_path).cells[0].search.directory
    for number, trials_left in enumerate((4, 3, 2)):
        remember(directory, number, 1.0)
        cell = planned(tmp_path, trials=5).cells[0]
        assert (cell.next, cell.added) == (f"{trials_left} trials more", 1)
    remember(directory, 3, 1.0)
    assert planned(tmp_path, trials=5).cells[0].next == "1 trial more"


def test_of_a_final_run_that_was_interrupted_all_seeds_count_that_will_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    make_run_directory(plan.cells[2].training.spec, plan.storage)
    remember(plan.cells[2].training.directory, 0, 1.0, tasks=1)
    grown = TABLE.replace("[0, 1]", "[0, 1, 2]")
    assert planned(tmp_path, grown).cells[2].next == "2 seeds more"
    remember(plan.cells[2].training.directory, 1, 1.0, tasks=1, seed=1)
    assert planned(tmp_path, grown).cells[2].next == "1 seed more"
    remember(plan.cells[2].training.directory, 1, 1.0)  # of more tasks than the run has, so it cannot be read
    assert planned(tmp_path, grown).cells[2].next == "nothing"


def test_a_search_that_gets_more_trials_comes_before_a_final_run_of_its_choice_so_far(tmp_path: Path) -> None:
    plan = started(tmp_path)
    first = plan.cells[0]
    make_run_directory(
        first.training.spec.model_copy(update={"fixed": {"lr": 0.5}, "source": first.search.spec.name}), plan.storage
    )
    for number in range(4):
        remember(first.search.directory, number, 1.0)
    unsearched_best_file(first.search.spec).save(first.search.directory.best_file)
    finals = [planned(tmp_path, trials=trials).cells[0].runs.final for trials in (4, 6)]
    assert finals == ["t-digits-ita-lora-final-1", "t-digits-ita-lora-final"]


def test_a_cell_is_started_anew_under_names_of_its_own(tmp_path: Path) -> None:
    storage = started(tmp_path).storage
    plan = planned(tmp_path, trials=6, redo=["digits/ita-lora"])
    assert plan.cells[0].runs.search == "t-digits-ita-lora-1" and plan.cells[0].status.state == "waiting"
    plan.saved_cells.save(plan.directory)
    assert planned(tmp_path, trials=6).cells[0].runs.search == "t-digits-ita-lora-1"  # from now on
    assert storage.run_exists("t-digits-ita-lora")  # left alone
    with pytest.raises(InputError, match="--redo nope: the campaign has no such cell; it has digits/ita-lora"):
        planned(tmp_path, redo=["nope"])


def test_the_same_command_continues_the_cell_that_it_has_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster's scheduler gives it again. A cell with other options or code is another one."""
    started(tmp_path)

    def redone(trials: int = 4) -> CellPlan:
        return planned(tmp_path, trials=trials, redo=["digits/ita-lora"]).cells[0]

    plan = planned(tmp_path, redo=["digits/ita-lora"])
    plan.saved_cells.save(plan.directory)
    assert redone().runs.search == "t-digits-ita-lora-1"  # killed before its first trial
    again = redone().search.spec.model_copy(update={"code_digests": {"m:C": "then"}})
    make_run_directory(again, plan.storage)
    assert (redone().runs.search, redone().next) == (again.name, "go on")
    assert [redone(trials).runs.search for trials in (3, 5)] == ["t-digits-ita-lora-2", again.name]
    with monkeypatch.context() as patched:
        patched.setattr("tausearch.campaigns.cell_plans.digests_of", lambda *_, in_workers: {"m:C": "now"})
        assert redone().runs.search == "t-digits-ita-lora-2"
    went_on = planned(tmp_path)
    went_on.saved_cells.save(went_on.directory)
    assert redone().runs.search == "t-digits-ita-lora-2"  # another command was given since


def test_each_cell_that_was_started_anew_is_remembered_until_a_command_starts_none(tmp_path: Path) -> None:
    started(tmp_path)
    names = []
    for redo in (["digits/ita-lora"], ["digits/finetune"], ["digits/ita-lora"], [], ["digits/ita-lora"]):
        plan = planned(tmp_path, redo=redo)
        plan.saved_cells.save(plan.directory)
        for cell in plan.cells[:2]:
            if not cell.search.exists:
                make_run_directory(cell.search.spec, plan.storage)
        names.append(plan.cells[0].runs.search)
    assert names == [f"t-digits-ita-lora-{number}" for number in (1, 1, 1, 1, 2)]


def test_a_cell_that_is_redone_under_another_protocol_leaves_the_files_of_the_first(tmp_path: Path) -> None:
    first, second = (TABLE.replace("algorithm: random", f"epochs: {epochs}") for epochs in (1, 2))
    started(tmp_path, first)
    for redo in (["digits/ita-lora"], []):  # also if the first driver is killed before it has removed them
        plan = planned(tmp_path, second, redo=redo)
        plan.saved_cells.save(plan.directory)
        assert plan.gone == () and [cell.runs.benchmark for cell in plan.cells] == ["digits?epochs=2"] * 3
        assert "digits?epochs=1" == plan.saved_cells.gone[0].benchmark != plan.saved_cells.cells[0].benchmark
    for _ in range(2):  # it leaves the file, and comes back with the later runs
        left = planned(tmp_path, second.replace("[ita-lora, finetune]", "[finetune]"))
        left.saved_cells.save(left.directory)
    assert planned(tmp_path, second).cells[0].runs.search == "t-digits-ita-lora-1"


def test_a_cell_keeps_the_final_run_of_a_later_choice(tmp_path: Path) -> None:
    plan = started(tmp_path)
    later = plan.cells[0].runs.model_copy(update={"final": "t-digits-ita-lora-final-1"})
    plan.saved_cells.with_cell(later).save(plan.directory)
    assert planned(tmp_path).cells[0].runs == later


def test_a_cell_without_a_search_is_started_anew_again_and_again(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        plan = planned(tmp_path, redo=["digits/joint"])
        names.append(plan.cells[-1].runs.final)
        make_run_directory(plan.cells[-1].training.spec, plan.storage)
    assert names == [f"t-digits-joint-{number}-final" for number in (1, 2, 3)]


def test_a_final_run_whose_search_is_gone_or_is_asked_for_no_more_is_refused_by_its_reason(tmp_path: Path) -> None:
    plan = started(tmp_path)
    search, training = plan.cells[0].search, plan.cells[0].training
    make_run_directory(training.spec.model_copy(update={"source": search.spec.name}), plan.storage)
    none = TABLE.replace("cells: [", "cells: [{{method: ita-lora, search: null}}, ")
    with pytest.raises(
        InputError, match="after the search 't-digits-ita-lora', and the file asks for none now; .*redo"
    ):
        planned(tmp_path, none)
    shutil.rmtree(search.directory.path)
    with pytest.raises(InputError, match="after the search 't-digits-ita-lora', which is gone; to start the cell anew"):
        planned(tmp_path)


def test_a_cell_whose_search_has_begun_is_not_trained_without_it(tmp_path: Path) -> None:
    plan = started(tmp_path)
    plan.saved_cells.save(plan.directory)
    none = TABLE.replace("cells: [", "cells: [{{method: ita-lora, search: null}}, ")
    said = "the search 't-digits-ita-lora' has begun, and the file asks for none now; .*: --redo digits/ita-lora"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, none)
    assert planned(tmp_path, none, redo=["digits/ita-lora"]).cells[0].runs.search is None


def test_other_overrides_are_no_other_choice(tmp_path: Path) -> None:
    then = planned(tmp_path).cells[0].training.spec
    chosen = then.model_copy(update={"fixed": {**then.fixed, "lr": 0.5}})
    asked = chosen.model_copy(update={"overrides": {"lr": 0.5}})
    assert [_has_chosen_otherwise(then, now) for now in (then, chosen, asked)] == [False, True, False]


@pytest.mark.parametrize(("value", "another"), [("all", False), ("none", True)])
def test_a_final_run_that_is_older_than_a_hyperparameter_has_its_neutral_value(
    value: str, another: bool, tmp_path: Path
) -> None:
    now = planned(tmp_path).cells[0].training.spec
    older = now.model_copy(update={"fixed": {name: had for name, had in now.fixed.items() if name != "regularise"}})
    assert _has_chosen_otherwise(older, now.model_copy(update={"fixed": {**now.fixed, "regularise": value}})) == another


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


def test_a_campaign_keeps_the_place_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(tmp_path)
    monkeypatch.chdir(tmp_path)
    kept = plan_campaign(CampaignRequest("t.yaml", storage="runs", data_root="data")).saved_cells
    assert (kept.file, kept.data_root) == (str(tmp_path / "t.yaml"), str(tmp_path / "data"))


def test_the_work_left_is_of_the_trials_that_a_search_has_in_the_end() -> None:
    status = SimpleNamespace(left=(1, 2), trials=3)  # of five it has ended after three
    cells = [SimpleNamespace(status=status, runs=SimpleNamespace(trials=5, seeds=2))]
    assert work_left(SimpleNamespace(cells=cells)) == "1 of 3 trials to search, 2 seeds to train"  # type: ignore[arg-type]


def test_a_cell_that_is_gone_is_said(tmp_path: Path) -> None:
    started(tmp_path)
    plan = planned(tmp_path, TABLE.replace("[ita-lora, finetune]", "[finetune]"))
    assert [each.title for each in plan.gone] == ["digits/ita-lora"]
    assert [each.runs.title for each in plan.cells] == ["digits/finetune", "digits/joint"]


def test_a_cell_that_comes_back_has_the_runs_that_it_had(tmp_path: Path) -> None:
    started(tmp_path)
    without = TABLE.replace("[ita-lora, finetune]", "[finetune]")
    for text, redo in ((TABLE, ["digits/ita-lora"]), (without, []), (without, [])):
        plan = planned(tmp_path, text, redo=redo)
        plan.saved_cells.save(plan.directory)
    assert planned(tmp_path, without).gone == ()  # it was said when the file left it out
    back = planned(tmp_path)
    assert back.cells[0].runs.search == "t-digits-ita-lora-1" and back.saved_cells.gone == ()


def remember(
    directory: RunDirectory, number: int, seconds: float, *, complete: bool = True, seed: int = 0, tasks: int = 5
) -> None:
    """Leave a trial whose tasks took so long."""
    trial = make_trial(number, tasks, 5.0) if complete else make_trial(number, 3, status="pruned")
    rows = [{**row, "seconds/training": seconds} for row in trial.rows]
    Record(directory.record, tasks=tasks).write(replace(trial, rows=rows, seed=seed))


def test_a_table_of_seven_benchmarks_by_all_methods_is_planned_in_seconds(tmp_path: Path) -> None:
    """A shared machine may be four times slower than the five seconds that a person is asked to wait."""
    benchmarks = ", ".join(f"'digits?epochs={epochs}'" for epochs in range(1, 8))
    table = f"campaign: t\nbenchmarks: [{benchmarks}]\nmethods: [{', '.join(METHODS)}]\n"
    start = time.process_time()
    assert len(planned(tmp_path, table).cells) == 7 * len(METHODS)
    assert time.process_time() - start < 20
