"""What a person reads of runs, of the cache and of backbones, and how a command ends; the report's command."""

from __future__ import annotations

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from tausearch.api import Composed, DriveRequest, FinalResult, SearchResult
from tausearch.campaigns.cells import CellRuns
from tausearch.campaigns.status import CellStatus
from tausearch.cli import launch
from tausearch.cli.output import (
    composed_as_dict,
    compositions,
    data,
    require_truth,
    results,
    run_lines,
    search_as_dict,
    show_backbones,
    show_cache,
    show_final,
    show_predictions,
    show_search,
    show_status,
    show_statuses,
    status_as_dict,
    statuses,
)
from tausearch.models import CompositionResult, Prediction
from tausearch.models.descriptions import ModelDescription
from tausearch.presentation import command_on, console, reevaluation_table, trials_table
from tausearch.runs import (
    AnySpec,
    Constraint,
    Objective,
    Record,
    Reevaluate,
    Reevaluation,
    ReevaluationSpec,
    RunDirectory,
    Score,
    SearchSpec,
    StopRule,
    Storage,
    TrialSummary,
    race,
    read_status,
    replace_text,
    verdict,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import BestFile
from tausearch.studies.best_file import make_best_file
from tausearch.tracking import Version
from tests.support.command_line import Ask
from tests.support.packages import install
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.reports.html.runs import make_final, make_search
from trainables.backbones.offered import Offer
from trainables.data import TransformSpec
from trainables.errors import InputError
from trainables.preconsolidation.cache import Entry
from trainables.task_names import NamedTask

SEE = "(see the page troubleshooting of the documentation)"


def recorded(spec: AnySpec, trials: list[TrialSummary], folder: Path) -> RunDirectory:
    _, directory = make_run_directory(spec, Storage(folder))
    for trial in trials:
        Record(directory.record).write(trial)
    return directory


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("values", "searched", "said"),
    [
        ((88.1, 93.2, 90.0), True, ["start 88.10 % (trial 0), chosen 93.20 %, +5.10 points"]),
        ((88.1, 80.0), True, ["start 88.10 % (trial 0), chosen 88.10 %, no better than the start, which is chosen"]),
        ((None, 80.0), True, []),
        ((50.0,), False, []),
    ],
)
def test_the_gain_over_the_start_is_said(
    values: tuple[float | None, ...],
    searched: bool,
    said: list[str],
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Trial 0 has the values that the search starts with."""
    spec = spec if searched else spec.model_copy(update={"space": {}, "start": {}})
    trials = [make_trial(number, value=value) for number, value in enumerate(values)]
    show_status(read_status(recorded(spec, trials, tmp_path)))
    assert [line for line in lines_of(capsys) if line.startswith("start")] == said


def test_a_status_says_what_is_equal_and_what_has_not_begun(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, value=70.0), make_trial(2, tasks=1)]
    directory = recorded(spec, trials, tmp_path)
    replace_text(directory.note_file, "a note\n")
    show_status(read_status(directory))
    lines = lines_of(capsys)
    assert lines[:2] == [f"{spec.name}: stopped; 2 complete, 2 pending (1 not begun)", "note: a note"]
    assert "equal 2 of 2 trials came to 70.00 %: of them the one that forgets least, then the earliest" in lines
    assert [line.split()[1:4] for line in lines if line.startswith("│ *")] == [["*", "0", "│"]] * 2  # and on the front
    assert not any(line.startswith("rank correlation") for line in lines)  # nobody stops trials early
    bound = Constraint(metric="train/loss", relation="<=", bound=0.5)
    trials[2] = make_trial(2, value=70.0)
    for trial in trials:
        trial.rows[-1]["train/loss"] = 0.4 if trial.number else 0.9
    bounded = spec.model_copy(update={"constraints": (bound,)})
    show_status(read_status(recorded(bounded, trials, tmp_path / "bounded")))
    assert "equal 2 of 2 trials came" in " ".join(lines_of(capsys)), "trial 0 breaks the constraint"
    Record(directory.record).write(make_trial(3, tasks=1))
    show_status(read_status(directory))
    assert lines_of(capsys)[0] == f"{spec.name}: stopped; 2 complete, 2 pending"
    show_statuses([read_status(directory)])
    assert "│ stopped │ 2/4 │" in " ".join(lines_of(capsys))
    early = spec.model_copy(update={"name": "e", "stop": StopRule(patience=1)})
    show_statuses([read_status(recorded(early, trials[:2], tmp_path))])
    shown = " ".join(lines_of(capsys))
    assert "│ finished │ 2/2 │" in shown and "┃ run ┃" in shown


@pytest.mark.parametrize("purpose", ["search", "final"])
def test_a_stopped_run_says_how_to_go_on_and_an_ended_one_does_not(
    purpose: str, spec: SearchSpec, tmp_path: Path, ask: Ask
) -> None:
    protocol = spec.protocol.model_copy(update={"backbone": "nets:NET"})
    named = {"trials": 1, "protocol": protocol, "address": "192.0.2.2:7391"}
    given = spec.model_copy(update=named) if purpose == "search" else final_spec(spec, name="final", **named)
    _, directory = make_run_directory(given, Storage(tmp_path))
    words = ["status", given.name, "--storage", str(tmp_path)]
    _, out, err = ask(*words)
    begun = f"ita-lora on digits: no {'trial' if purpose == 'search' else 'seed'} has begun"
    assert err == "" and begun in out.splitlines() and "┃" not in out
    assert out.splitlines()[0] == f"{given.name}: stopped; 1 pending"
    last = out.splitlines()[-1]
    assert last.startswith("go on: ") and last.endswith(
        f" resume {given.name} --storage {tmp_path} --allow-code nets:NET --address 192.0.2.2:7391"
    )
    assert json.loads(ask(*words, "--format", "json")[1])["address"] == "192.0.2.2:7391"
    ended = make_trial(0, value=70.0)
    if purpose == "final":
        ended = replace(ended, rows=[{k.replace("val/", "test/"): v for k, v in row.items()} for row in ended.rows])
    Record(directory.record).write(ended)
    out = ask(*words)[1]
    assert "finished; 1 complete" in out and "┃" in out and "go on" not in out


def test_the_list_of_runs_has_the_mean_over_fresh_runs() -> None:
    spec = SimpleNamespace(value_labels=SimpleNamespace(unit="%"))
    found: Any = SimpleNamespace(accuracy=80.0, score=None, best=SimpleNamespace(value=90.0), spec=spec)
    assert statuses._best_cell(found) == "80.00"


def test_the_list_of_runs_has_the_score_of_a_final_run_and_the_best_of_a_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directories = [make_search(Storage(tmp_path)), make_final(Storage(tmp_path))]
    show_statuses([read_status(directory) for directory in directories])
    header, search, final = [line for line in lines_of(capsys) if line[0] in "┃│"]
    assert (
        "│ 12/12, 1 failed, 1 diverged │ 89.20 │ alpha=5.2 lr=0.006 │" in search and "│ 2/2 │ 69.50 ± 0.71 │ │" in final
    )
    assert "note" not in header
    replace_text(directories[1].note_file, "a note\n")
    show_statuses([read_status(directory) for directory in directories])
    assert lines_of(capsys)[4].endswith("│ a note │")


def test_a_search_without_trials_has_no_table(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_search(searched(spec, [], tmp_path, None), spec, "")
    out = capsys.readouterr().out
    assert f"{spec.name}: no trial has begun\n" in out and "│" not in out and "seconds" not in out


def test_a_front_of_one_point_has_no_table(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead, behind = make_trial(0, value=80.0), make_trial(1, value=70.0)
    behind.rows[-1]["val/forgetting"] = 9.0
    show_search(searched(spec, [ahead, behind], tmp_path, make_best_file(spec, ahead, 2)), spec, "")
    assert "Pareto" not in capsys.readouterr().out
    behind.rows[-1]["val/forgetting"] = 0.5
    show_search(searched(spec, [ahead, behind], tmp_path / "other", make_best_file(spec, ahead, 2)), spec, "")
    assert "Pareto" in capsys.readouterr().out


def test_a_front_of_one_point_is_shown_where_fresh_runs_chose_another(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead, behind = make_trial(0, value=80.0), make_trial(1, value=70.0)
    behind.rows[-1]["val/forgetting"] = 9.0
    named = (("val/final_accuracy", "maximize"), ("val/forgetting", "minimize"))
    aims = tuple(Objective(metric=metric, direction=direction) for metric, direction in named)
    both = spec.model_copy(update={"objectives": aims, "prefer": "val/final_accuracy"})
    for chosen, shown in ((ahead, False), (behind, True)):
        found = searched(both, [ahead, behind], tmp_path / str(chosen.number), make_best_file(both, chosen, 2))
        show_search(found, both, "")
        assert ("Pareto" in capsys.readouterr().out) is shown


def test_a_long_front_is_cut_after_its_most_accurate_trials(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(12)]
    for trial in trials:
        trial.rows[-1]["val/forgetting"] = float(trial.number)
    show_status(read_status(recorded(spec.model_copy(update={"trials": 12}), trials, tmp_path)))
    lines = lines_of(capsys)
    front = lines[lines.index("Pareto front of accuracy and forgetting") :]
    shown = [line.removeprefix("│ ").split(" │")[0] for line in front if line.startswith("│")]
    assert shown == ["* 11", *map(str, range(10, 1, -1))] and "and 2 less accurate ones; --format json has all" in front
    show_status(read_status(recorded(spec.model_copy(update={"trials": 10}), trials[:10], tmp_path / "ten")))
    assert not any("less accurate" in line for line in lines_of(capsys))


def test_of_many_trials_the_best_and_those_that_run_are_shown(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 3)
    trials = [make_trial(number, value=70.0 + number) for number in range(6)]
    trials += [make_trial(6, tasks=1, status="running"), make_trial(7, tasks=1, status="pruned")]
    show_status(read_status(recorded(spec.model_copy(update={"trials": 8}), trials, tmp_path)))
    lines = lines_of(capsys)
    rows = lines[: lines.index("and 4 more: 3 no better, 1 that cannot be chosen; --format json has all")]
    assert [line.removeprefix("│ ").split(" │")[0] for line in rows if line.startswith("│")] == ["3", "4", "* 5", "6"]


def test_of_many_seeds_of_a_final_run_the_first_are_shown(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 2)
    failed = make_trial(0, tasks=1, status="failed")
    trials = [failed, *(replace(make_trial(number, value=70.0 + number), seed=number) for number in (1, 2, 3))]
    final = final_spec(spec, trials=4, seeds=(0, 1, 2, 3))
    show_status(read_status(recorded(final, trials, tmp_path)))
    lines = lines_of(capsys)
    rows = lines[: lines.index("and 2 more; --format json has all")]
    assert [line.removeprefix("│ ").split(" │")[0] for line in rows if line.startswith("│")] == ["0", "1"]


def test_of_many_trials_those_that_break_a_constraint_come_after_the_others(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 2)
    bounded = spec.model_copy(update={"constraints": (Constraint(metric="val/forgetting", relation="<=", bound=5),)})
    trials = [make_trial(number, value=70.0 + number) for number in range(3)]
    trials[2].rows[-1]["val/forgetting"] = 9.0
    show_status(read_status(recorded(bounded, trials, tmp_path)))
    rows = [line.removeprefix("│ ").split(" │")[0] for line in lines_of(capsys) if line.startswith("│")]
    assert rows[:2] == ["0", "* 1"]


def test_fresh_runs_are_shown_in_the_order_of_candidates_and_the_chosen_one_is_marked(spec: SearchSpec) -> None:
    standing = race([3, 1], 2, {(3, 0): 80.0, (3, 1): 82.0, (1, 0): 90.0, (1, 1): 91.0})
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2)}))
    table = reevaluation_table(Reevaluation(asked, standing, verdict(standing), ()))
    assert [row[:4] for row in table.rows] == [(3, 80.0, 82.0, 81.0), (1, 90.0, 91.0, 90.5)]
    assert table.emphasis == {1: "marked"}
    rounds = race([3], 3, {(3, 0): 80.0, (3, 1): 82.0, (3, 2): 87.0})
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=3)}))
    assert reevaluation_table(Reevaluation(asked, rounds, verdict(rounds), ())).rows[0][4] == 83.0  # their mean


def test_the_best_trial_is_marked_and_unfinished_ones_are_faint(spec: SearchSpec) -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, value=80.0), make_trial(2, tasks=1, status="pruned")]
    assert trials_table(spec, trials, 1).emphasis == {1: "marked", 2: "faint"}
    assert trials_table(final_spec(spec), trials, 1).emphasis == {2: "faint"}  # no seed is chosen


def result_of(directory: RunDirectory, trials: list[TrialSummary], **outcome: Any) -> Any:
    about = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None}
    stopped = {"signal": outcome.pop("signal", None), "out_of_time": outcome.pop("out_of_time", False), "over": True}
    kind: Any = FinalResult if "summary" in outcome else SearchResult
    return kind(directory.name, directory.path, trials, **stopped, **about, **outcome)


def searched(spec: SearchSpec, trials: list[TrialSummary], folder: Path, best: BestFile | None, **stopped: Any) -> Any:
    directory = recorded(spec, trials, folder)
    found = {"best": best, "best_file": None if best is None else directory.best_file, "reevaluation": None}
    return result_of(directory, trials, **found, **stopped)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_list_of_runs_loses_no_letter_in_a_narrow_terminal(
    width: int, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Console(width=width, file=io.StringIO(), highlight=False)
    monkeypatch.setattr(statuses, "console", lambda: out)
    names = ("c-digits-tasks-2-epochs-1-finetune-final", "odd-1")
    benchmark = "folder:/tmp/odd?epochs=2&task=eins=cat,dog"
    found = []
    for name in names:
        named = spec.model_copy(update={"name": name, "benchmark": benchmark})
        found.append(read_status(recorded(named, [make_trial(0, value=70.0)], tmp_path)))
    show_statuses(found)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines)
    header = [cell.strip() for cell in lines[1].strip("┃").split("┃")]
    rows = [line.strip("│").split("│") for line in lines if line.startswith("│")]
    shown = {name: "".join(row[place].strip() for row in rows) for place, name in enumerate(header)}
    assert shown["run"] == "".join(names) and {"state", "trials"} <= shown.keys()
    assert "best" in shown or width == 40
    assert shown.get("benchmark", 2 * benchmark) == 2 * benchmark and (width > 80) == ("benchmark" in shown)


@pytest.mark.parametrize(("forgotten", "said"), [(83.0, True), (50.0, False)])
def test_little_left_of_earlier_tasks_is_said(
    forgotten: float, said: bool, spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(0, value=44.0)
    trial.rows[-1]["val/forgetting"] = forgotten
    show_search(searched(spec, [trial], tmp_path, make_best_file(spec, trial, 1)), spec, "")
    out = capsys.readouterr().out
    assert (f"trial 0 forgets 83 points: little is left of earlier tasks {SEE}" in out) is said


def test_what_is_left_of_a_task_is_said_of_the_chosen_trial(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poor, chosen = make_trial(0, value=44.0), make_trial(1, value=60.0)
    poor.rows[-1]["val/accuracy/task_1"] = 0.0
    chosen.rows[-1]["val/accuracy/task_1"] = 40.0
    show_search(searched(spec, [poor, chosen], tmp_path, make_best_file(spec, chosen, 2)), spec, "")
    found = [line for line in lines_of(capsys) if "little is left" in line]
    assert found == [f"trial 1: little is left of task 1 (40 %, 90 % when it was learned) {SEE}"]


@pytest.mark.parametrize(
    ("gpus", "waited", "said"),
    [(0.5, (4.0, 1.0), "50 %"), (0.5, (1.5, 1.0), "25 %"), (0.5, (1.0, 1.0), None), (0.0, (4.0, 4.0), None)],
)
def test_gpus_that_wait_for_images_are_spoken_of(
    gpus: float,
    waited: tuple[float, float],
    said: str | None,
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trials = [make_trial(number, value=44.0 + number, tasks=1) for number in range(2)]
    for trial, seconds in zip(trials, waited, strict=True):
        trial.rows[0].update({"seconds/training": 5.0, "seconds/waiting": seconds})
    spec = spec.model_copy(update={"resources": spec.resources.model_copy(update={"gpus_per_trial": gpus})})
    show_search(searched(spec, trials, tmp_path, None), spec, "")
    found = [line for line in lines_of(capsys) if "waited for images" in line]
    assert [line.split(" in ")[1].split(" of ")[0] for line in found] == ([] if said is None else [said])
    final = final_spec(spec, name="final")
    show_final(result_of(recorded(final, [], tmp_path), trials, summary={}, results_file=None), final, "")
    assert [line for line in lines_of(capsys) if "waited for images" in line] == found


def test_a_final_run_says_how_a_seed_that_failed_is_run_again(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    final = final_spec(spec, name="final")
    trials = [
        replace(make_trial(number), seed=number + 4, status=status)
        for number, status in enumerate(("complete", "failed", "diverged", "failed"))
    ]
    show_final(result_of(recorded(final, [], tmp_path), trials, summary={}, results_file=None), final, "")
    (line,) = [line for line in lines_of(capsys) if "--seeds" in line]
    assert line == "`resume` does not run what has failed again; train another run with --seeds 5,7"


@pytest.mark.parametrize(
    ("transform", "code"),
    [
        (TransformSpec(channels=1, size=16, mean=(0.5,), std=(0.5,)), " --allow-code nets:NET"),
        (None, " --allow-code nets:NET --allow-code data:BIRDS"),
    ],
)
def test_a_final_run_advises_the_permissions_that_predict_needs(
    transform: TransformSpec | None,
    code: str,
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    protocol = spec.protocol.model_copy(update={"backbone": "nets:NET"})
    changes = {"protocol": protocol, "benchmark": "data:BIRDS?tasks=2", "method": "my_method:Mine"}
    final = final_spec(spec, name="final").model_copy(update=changes)
    result = result_of(recorded(final, [], tmp_path), [], summary={}, results_file=None)
    folder = result.path / "task_vectors"
    folder.mkdir(parents=True)

    def advised() -> str:
        show_final(result, final, " --storage s")
        return next(line for line in lines_of(capsys) if line.startswith("predict")).split(" IMAGES --storage s")[1]

    every = " --allow-code data:BIRDS --allow-code my_method:Mine --allow-code nets:NET"
    assert advised() == every  # nothing describes the vectors
    given = {"benchmark": final.benchmark, "protocol": protocol, "runs": ("final",), "methods": (final.method,)}
    ModelDescription(**given, class_names=("a", "b"), tasks=(1, 1), transform=transform).save(folder)
    assert advised() == code


def test_a_result_stands_beside_its_bounds_and_a_task_of_which_little_is_left_is_named(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(0, value=44.0)
    trial.rows[-1]["val/accuracy/task_1"] = 40.0  # 90 when it was learned
    best = make_best_file(spec, trial, 1)
    spec = spec.model_copy(update={"address": "auto", "method": "my_method:Mine"})
    result = searched(spec, [trial], tmp_path, best)
    resume = f"{command_on('resume', 'digits-ita-lora-1', result.path.parent)} --allow-code my_method:Mine"
    missing = f"missing here: probe, joint (`{resume} --address auto --with-bounds` runs them)"
    show_search(result, spec, "")
    show_status(read_status(RunDirectory(result.path)), result.bounds)
    lines = lines_of(capsys)
    assert lines.count(f"bounds {missing}") == 2
    assert f"trial 0: little is left of task 1 (40 %, 90 % when it was learned) {SEE}" in lines
    assert search_as_dict(result, spec)["bounds"] == result.bounds.as_dict()
    assert result.bounds.as_dict()["missing"] == ["probe", "joint"]


def test_a_search_says_at_its_end_what_its_status_says_and_what_to_do(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(4)]
    for trial in trials:
        for row in trial.rows:
            row["val/average_accuracy"] = 60.0 + trial.number
    trials[1].rows[-1]["val/forgetting"] = 83.0  # it is not chosen
    trials.append(make_trial(4, tasks=1, status="failed", error="out of memory"))
    five = spec.model_copy(update={"trials": 5})
    result = searched(five, trials, tmp_path, make_best_file(five, trials[3], 4))
    found = read_status(RunDirectory(result.path))
    mine = five.model_copy(update={"method": "my_method:Mine"})
    show_search(replace(result, ending=found.ending, tracking_error="full"), mine, " --storage s")
    said = lines_of(capsys)
    show_status(found)
    status = lines_of(capsys)
    trust = "rank correlation of accuracy after task k with final accuracy, 4 finished trials 1: "
    for what in ("ended trials: all 5", "start 70.00 %", trust, "trial 4 failed: out of memory"):
        (line,) = [line for line in said if line.startswith(what)]
        assert line in status
    assert any(line.endswith(" --seeds 0,1,2 --storage s --allow-code my_method:Mine") for line in said)
    assert any(line.startswith(f"MLflow does not have all of {spec.name} (full)") for line in said)
    assert not any("forgets" in line or line.startswith("figures") for line in said)


@pytest.mark.parametrize(
    ("stopped", "bounds", "said"),
    [
        ({}, True, ["As nothing is chosen, what was to follow is not run: the re-evaluation and the bounds."]),
        ({}, False, ["As nothing is chosen, what was to follow is not run: the re-evaluation."]),
        ({"signal": signal.SIGINT}, True, []),
        ({"out_of_time": True}, True, []),
    ],
)
def test_a_search_that_chose_nothing_says_what_does_not_follow(
    stopped: dict[str, Any],
    bounds: bool,
    said: list[str],
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {"with_bounds": bounds, "reevaluate": Reevaluate(best=1, runs=1, start=True)}
    spec = spec.model_copy(update={**asked, "constraints": (Constraint.parse("forgetting <= 0", ["val/forgetting"]),)})
    show_search(searched(spec, [make_trial(0, value=70.0)], tmp_path, None, **stopped), spec, "")
    assert [line for line in lines_of(capsys) if "follow" in line] == said


def test_programs_find_the_choice_and_the_trials_under_the_same_names_at_the_end_and_later(
    spec: SearchSpec, tmp_path: Path
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(2)]
    result = searched(spec, trials, tmp_path, best_file := make_best_file(spec, trials[1], 2))
    best_file.save(RunDirectory(result.path).best_file)
    status = read_status(RunDirectory(result.path))
    at_the_end, later = search_as_dict(result, spec), status_as_dict(status, None, None)
    best = at_the_end["best"]
    assert (best["trial"], best["value"], best["selection"]["trial"]) == (1, 71.0, 1)
    assert later["best"] == {"trial": 1, "value": 71.0, "hyperparameters": best["hyperparameters"]}
    assert best["hyperparameters"].keys() > trials[1].hyperparameters.keys()  # it has defaults, too
    assert at_the_end["trials"] == later["trials"] and later["counts"] == status.counts
    about: dict[str, Any] = {"benchmark": "digits", "method": "ita-lora", "title": "t", "search": "s", "final": "f"}
    runs, scores = CellRuns(**about, trials=2, seeds=1, steps=1), {"test/final_accuracy": Score(50.0, None, 1)}
    cell = CellStatus(runs, "done", status, scores=scores)
    assert cell.as_dict()["best"] == later["best"]
    assert cell.as_dict()["summary"] == {"test/final_accuracy": {"mean": 50.0, "std": None, "seeds": 1}}
    make_best_file(spec, trials[0], 2).save(RunDirectory(result.path).best_file)  # an earlier choice
    earlier = status_as_dict(status, None, None)["best"]
    assert earlier == {"trial": 1, "value": 71.0, "hyperparameters": trials[1].hyperparameters}


@pytest.mark.parametrize(("count", "value"), [(1, "forgetting 1.00 points"), (2, "final_accuracy 71.00 %")])
def test_a_search_for_something_else_says_its_value_and_has_a_front_of_several(
    count: int, value: str, spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(2)]
    aims = (("val/forgetting", "minimize"), ("val/final_accuracy", "maximize"))
    objectives = tuple(Objective.model_validate({"metric": name, "direction": way}) for name, way in aims[:count])
    aimed = spec.model_copy(update={"objectives": objectives})
    result = searched(aimed, trials, tmp_path, make_best_file(aimed, trials[1], 2))
    show_search(result, aimed, "")
    (best,) = [line for line in lines_of(capsys) if line.startswith("best forgetting 1.00 points")]
    assert best.endswith(f"{value}: lr=0.01 alpha=2")
    assert ("front" in search_as_dict(result, aimed)) == (count == 2)


def test_a_metric_at_its_limit_is_said_of_each_trial(
    spec: SearchSpec, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = mock.Mock(warn=lambda number, rows: f"trial {number} is at the limit" if number else None)
    monkeypatch.setattr("trainables.methods.known_method", lambda _: mock.Mock(metrics=[metric]))
    results._show_metric_warnings(run_lines.Lines(console(), 9), spec, [make_trial(n) for n in range(3)])
    assert lines_of(capsys) == ["trial 1 is at the limit", "trial 2 is at the limit"]


def test_a_task_that_was_hardly_learned_is_not_said_to_be_lost(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(0, value=44.0)
    for row in trial.rows:
        row["val/accuracy/task_1"] = 12.0
    spec = spec.model_copy(update={"tasks": tuple(NamedTask((f"{n}", f"{n}+")) for n in range(0, 10, 2))})
    show_search(searched(spec, [trial], tmp_path, make_best_file(spec, trial, 1)), spec, "")
    lines = [line for line in lines_of(capsys) if "of task" in line]
    said = f"trial 0: hardly more than chance (10 %) was learned of task 1: 0, 0+ (12 %) {SEE}"
    assert lines == [said]
    trial.rows[-1]["val/forgetting"] = 83.0
    show_search(searched(spec, [trial], tmp_path / "forgotten", make_best_file(spec, trial, 1)), spec, "")
    lines = lines_of(capsys)
    assert said in lines and f"trial 0 forgets 83 points: little is left of earlier tasks {SEE}" in lines


ENDED, FAILED = make_trial(0, value=70.0), make_trial(1, tasks=1, status="failed")


@pytest.mark.parametrize(
    ("trials", "stopped", "code", "said"),
    [
        ([ENDED, ENDED], {}, 0, ""),
        ([ENDED, FAILED], {}, 1, ""),
        ([FAILED], {}, 1, ""),
        ([ENDED, FAILED], {"out_of_time": True}, 0, "the time budget is used up; continue with: "),
        ([FAILED], {"out_of_time": True}, 1, "the time budget is used up; continue with: "),
        ([ENDED], {"signal": signal.SIGINT, "out_of_time": True}, 130, "interrupted; continue with: "),
        ([ENDED], {"signal": signal.SIGTERM}, 143, "stopped by SIGTERM; continue with: "),
    ],
)
@pytest.mark.parametrize("purpose", ["search", "final"])
def test_a_command_says_how_to_go_on_and_ends_as_its_trials_did(
    trials: list[TrialSummary],
    stopped: dict[str, Any],
    code: int,
    said: str,
    purpose: str,
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A search has succeeded once it has chosen, whatever its other trials did; a final run needs every seed."""
    best = make_best_file(spec, ENDED, 1) if ENDED in trials else None
    spec = spec.model_copy(update={"method": "my_method:Mine"})
    if purpose == "search":
        result = searched(spec, trials, tmp_path, best, **stopped)
        code = 0 if (code, ENDED in trials) == (1, True) else code
    else:
        _, directory = make_run_directory(final_spec(spec, name="final"), Storage(tmp_path))
        result = result_of(directory, trials, summary={}, results_file=None, **stopped)
    try:
        launch._show_result(result, DriveRequest(storage=tmp_path, callbacks=["m:C"], tracking="none"), format="json")
        ended = 0
    except SystemExit as error:
        ended = int(error.code or 0)
    out, err = capsys.readouterr()
    assert ended == code and json.loads(out)["name"] == result.name
    command = f"resume {result.name} --storage {tmp_path} --allow-code my_method:Mine --callback m:C --tracking none\n"
    unchosen = purpose == "search" and ENDED not in trials and not stopped
    assert ("No trial finished its last task, so there is no best configuration." in err) == unchosen
    assert err.startswith(said) and (not said or err.endswith(command))


def test_the_cache_is_listed_from_the_latest_and_summed_by_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    about = [{"benchmark": "glyphs", "task": "1"}, {"benchmark": "digits", "task": "2", "zone": "x"}]
    about.append({"benchmark": "digits", "task": "3", "zone": "x"})
    entries = [Entry(Path(f"{n}.none"), 1000 * (n + 1), 1.7e9 + n, each) for n, each in enumerate(about)]
    show_cache(entries, entries[:1])
    lines = lines_of(capsys)
    assert lines[0] == "removed 1 entry, 1.0 kB; 3 in use stay" and "task ┃ zone ┃ size" in lines[2]
    assert [line.split()[1] for line in lines if line.startswith("│")] == ["digits", "digits", "glyphs"]
    assert lines[-3:] == ["digits: 2 entries, 5.0 kB", "glyphs: 1 entry, 1.0 kB", "3 entries, 6.0 kB"]
    show_cache(entries[:1], None)
    assert [line for line in lines_of(capsys) if "entry" in line] == ["1 entry, 1.0 kB"]  # of one benchmark, no sums


def test_predictions_name_the_next_two_classes_and_count_images_of_named_folders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shares = {"sun": 0.1, "sea": 0.6, "tree": 0.25, "sky": 0.05}
    images = ("sea/a.png", "sun/b.png", "elsewhere/c.png", "elsewhere/d.png", "elsewhere/e.png")
    model = mock.Mock(classes=tuple(shares))
    show_predictions(model, [Prediction(image, "sea", 0.6, shares) for image in images], ["z.png: is broken"], "text")
    lines = lines_of(capsys)
    assert "│ sea/a.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ │" in lines
    assert "│ sun/b.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ wrong: is sun │" in lines
    assert "│ elsewhere/c.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ │" in lines
    assert "│ sun │ 1 │ 0 │ 0.00 │ sea 1 │" in lines and "│ sea │ 1 │ 1 │ 100.00 │ │" in lines
    assert lines[-1] == (
        "right: 1 of 2 images whose folder is named after a class of the model: 50.00 % (3 images elsewhere not"
        " counted)"
    )


def test_a_class_with_a_comma_stands_in_quotes_among_others(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"sun": 0.1, "sea": 0.6, "ring, thin": 0.25, "sky": 0.05}
    show_predictions(mock.Mock(classes=tuple(shares)), [Prediction("a.png", "sea", 0.6, shares)], [], "text")
    assert "│ a.png │ sea │ 0.600 │ 'ring, thin' 0.250, sun 0.100 │" in lines_of(capsys)
    report = mock.Mock(classes=[mock.Mock(number=n, task=1) for n in (2, 3)], left_out=("a vector",), remains=("b",))
    report.classes[0].name, report.classes[1].name = "ring, thin", "sea"
    with mock.patch.multiple(compositions, removal_tables=lambda *_: (), few_images=lambda _: "few images"):
        compositions._show_removal(console(), mock.Mock(removal=report))
    lines = lines_of(capsys)
    assert lines[0] == "forgotten: 'ring, thin' (class 2, task 1), sea (class 3, task 1)"
    assert lines[-5:] == ["few images", "Left out:", "- a vector", "What remains:", "- b"]


def test_a_confusion_matrix_needs_one_image_below_a_folder_of_a_class() -> None:
    model: Any = SimpleNamespace(classes=("owl", "sea"))
    require_truth(model, [Path("holiday/a.png"), Path("owl/b.png")], Path("c.png"))
    with pytest.raises(InputError, match=r"--confusion c.png: no image lies in a folder named after a class"):
        require_truth(model, [Path("holiday/a.png")], Path("c.png"))


def test_a_composition_has_its_address_and_the_forms_that_it_lacks_in_json() -> None:
    about: dict[str, Any] = {"runs": ("r",), "benchmark": "digits", "weights": (1.0,), "seeds": (0,), "label": "keep-1"}
    result = CompositionResult(accuracies=((60.0,),), **about)
    done = Composed(result, None, not_exported={"adapter": "no"}, version=Version("digits", 2, best=True))
    found = composed_as_dict(done)
    assert found["registered"] == {"model": "digits", "number": 2, "best": True, "uri": "models:/digits/2"}
    assert found["not_exported"] == {"adapter": "no"}


@pytest.mark.parametrize(("word", "listed"), [("", ["glyph_vit", "vit_a"]), ("vit", ["glyph_vit", "vit_a", "vit_b"])])
def test_backbones_without_a_word_are_those_that_are_here(
    word: str, listed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "installed", lambda kind: ["my_vit", "other"] if kind == "backbone" else [])
    offers = [
        Offer("glyph_vit", 1, 28, True, "glyph_vit", (28,)),
        Offer("vit_a", 3, 224, True, "vit_a?img_size=224", (96, 224)),
        Offer("vit_b", 3, 224, False),
    ]
    show_backbones(offers, word)
    lines = lines_of(capsys)
    rows = [[cell.strip() for cell in line.split("│")[1:6]] for line in lines if line.startswith("│")]
    assert [row[3:] for row in rows[:2]] == [["glyph_vit", "28 x 28"], ["vit_a?img_size=224", "96 x 96, 224 x 224"]]
    where = {"glyph_vit": "embedded", "vit_a": "here", "vit_b": "on the hub"}
    assert [(row[0], row[2]) for row in rows] == [(name, where[name]) for name in listed]
    assert rows[0][1] == "28 x 28 grey" and rows[1][1] == "224 x 224 RGB"
    assert any(line.startswith("timm offers 1 more") for line in lines) is (word == "")
    assert f"of installed packages: my_vit{', other' * (word == '')}" in lines


def test_a_name_that_clashes_is_listed_once_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {f"backbones {name}": f"taker:{name}" for name in ("glyph_vit", "vit_b", "mine")}
    install(tmp_path, "taker", points)
    monkeypatch.syspath_prepend(tmp_path)
    show_backbones([Offer("glyph_vit", 1, 28, True), Offer("vit_b", 3, 224, False)], "")
    lines = lines_of(capsys)
    assert "of installed packages: mine" in lines
    for name, owner in (("glyph_vit", "tausearch itself"), ("vit_b", "timm")):
        claims = f"{owner} and package 'taker' (taker:{name})"
        assert f"backbone {name!r}: {claims} have one of this name; uninstall all but one" in lines


def test_a_file_wins_over_a_run_of_its_name(spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trials = [make_trial(0, value=70.0), make_trial(1, value=60.0)]
    directory = recorded(spec, trials, tmp_path / "tausearch-runs")
    assert launch._best_of([spec.name], "tausearch-runs").selection.trial == 0  # type: ignore[union-attr]
    make_best_file(spec, trials[1], 1).save(tmp_path / spec.name)
    assert launch._best_of([spec.name], "tausearch-runs").selection.trial == 1  # type: ignore[union-attr]
    assert directory.path.is_dir() and os.path.isfile(spec.name)
    with pytest.raises(InputError, match=f"{spec.name} is a run; name it alone: "):  # with a method it is no file
        launch._best_of([spec.name, "finetune"], "tausearch-runs")


@pytest.mark.usefixtures("quick_report")
def test_a_report_lies_in_the_runs_folder_or_in_a_file_of_its_own(tmp_path: Path, ask: Ask) -> None:
    make_search(Storage(tmp_path))
    make_final(Storage(tmp_path))
    code, out, err = ask("report", "the-final", "--storage", str(tmp_path))
    file = tmp_path / "the-final" / "report.html"
    assert (code, out, err) == (0, f"report: {file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert "<title>ita-lora on digits: the-final</title>" in page and "the paper has no digits" in page
    assert page.count('class="run"') == 2  # with its search
    file = tmp_path / "new" / "page.html"
    code, out, _ = ask("report", "the-search", "--storage", str(tmp_path), "--output", str(file), "--format", "json")
    assert code == 0 and json.loads(out) == {"report": str(file)} and file.stat().st_size > 1e6


@pytest.mark.usefixtures("quick_report")
def test_a_report_of_own_images_does_not_speak_of_the_paper(tmp_path: Path, ask: Ask) -> None:
    final = make_final(Storage(tmp_path), benchmark="folder:/none/birds")
    assert ask("report", "the-final", "--storage", str(tmp_path))[0] == 0
    page = (final.path / "report.html").read_text(encoding="utf-8")
    assert "accuracy on each task" in page and "the paper has no" not in page
    assert "<title>ita-lora on folder:birds: the-final</title>" in page  # without the path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "no run named 'none' in"),
        (["../x"], "name '../x': must be letters"),
        (["the-search", "--output", "/proc/none/page.html"], "report /proc/none/page.html: cannot be written"),
    ],
)
@pytest.mark.usefixtures("quick_report")
def test_a_report_that_cannot_be_written_is_one_line(words: list[str], message: str, tmp_path: Path, ask: Ask) -> None:
    make_search(Storage(tmp_path))
    code, out, err = ask("report", *words, "--storage", str(tmp_path))
    assert code == 2 and out == "" and err.count("\n") == 1 and message in err
