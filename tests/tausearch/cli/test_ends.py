"""What a search or final run says at its end, to people and to programs, and how its command ends."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tausearch.api import DriveRequest
from tausearch.campaigns.cells import CellRuns
from tausearch.campaigns.status import CellStatus
from tausearch.cli import launch
from tausearch.cli.output import (
    results,
    run_lines,
    search_as_dict,
    show_final,
    show_search,
    show_status,
    status_as_dict,
)
from tausearch.models.descriptions import ModelDescription
from tausearch.presentation import command_on, console
from tausearch.runs import (
    Constraint,
    Objective,
    Reevaluate,
    RunDirectory,
    Score,
    SearchSpec,
    Storage,
    TrialSummary,
    read_status,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import make_best_file
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.cli.ended import lines_of, recorded, result_of, searched
from trainables.data import TransformSpec
from trainables.task_names import NamedTask

ENDED, FAILED = make_trial(0, value=70.0), make_trial(1, tasks=1, status="failed")
SEE = "(see the page troubleshooting of the documentation)"


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


def test_a_result_stands_beside_its_bounds(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(0, value=44.0)
    best = make_best_file(spec, trial, 1)
    spec = spec.model_copy(update={"address": "auto", "method": "my_method:Mine"})
    result = searched(spec, [trial], tmp_path, best)
    resume = f"{command_on('resume', 'digits-ita-lora-1', result.path.parent)} --allow-code my_method:Mine"
    missing = f"missing here: probe, joint (`{resume} --address auto --with-bounds` runs them)"
    show_search(result, spec, "")
    show_status(read_status(RunDirectory(result.path)), result.bounds)
    assert lines_of(capsys).count(f"bounds {missing}") == 2
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
