"""The doors of the command line are in Python under the same names, with the same options."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import click
import pytest
import typer

import tausearch
from tausearch.api import SearchResult
from tausearch.cli.application import app
from tausearch.runs import Record, SearchSpec, Storage, open_storage
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import make_trial

COMMANDS: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
GROUPS = {name: command.commands for name, command in COMMANDS.items() if hasattr(command, "commands")}

# What is called otherwise in Python, and why.
DOORS = {
    "search": "search",
    "resume": "resume",
    "extend": "extend",
    "train": "train",
    "compose": "compose",
    "evaluate": "evaluate",
    "figures": "draw",  # `tausearch.presentation` is the room that draws
    "predict": "load_model",  # whose answer has `predict`
    "campaign run": "campaign",
}
LOOKING = {  # they print what lies in run directories, which Python reads as it is
    "status", "report", "compare", "export", "campaign plan", "campaign status", "campaign report", "campaign delete",
    "data check", "data prepare", "list benchmarks", "list backbones", "list spaces",
    "runs note", "runs rename", "runs delete", "runs sync", "runs replay", "runs cache", "runs ui",
}  # fmt: skip
RENAMED = {
    "format": "progress_to",  # a program says where progress is shown
    "callback": "callbacks",
    "pruner_option": "pruner_options",
    "sampler_option": "sampler_options",
}
ON_THE_COMMAND_LINE_ALONE = {
    "": {"no_cache", "allow_code"},  # cache_size=0; the function `tausearch.allow_code`
    "search": {"dry_run"},  # preview_search, which answers with something else
    "train": {"dry_run"},  # preview_train
    # Of the model's `predict`, and how it is shown.
    "predict": {"images", "figure", "confusion", "format", "skip_broken", "max_image_bytes"},
    "evaluate": {"format"}, "compose": {"format"}, "figures": {"format"},  # they return what the others print
}  # fmt: skip
IN_PYTHON_ALONE = {
    "": set[str](),
    "resume": {"trials", "reevaluate", "reevaluate_runs"},  # on the command line `extend`
}


def command_of(name: str) -> click.Command:
    first, _, second = name.partition(" ")
    return GROUPS[first][second] if second else COMMANDS[first]


def test_every_command_is_a_door_or_looks() -> None:
    below = {f"{group} {name}" for group, commands in GROUPS.items() for name in commands}
    assert DOORS.keys() | LOOKING == below | COMMANDS.keys() - GROUPS.keys()
    assert set(DOORS.values()) <= set(tausearch.__all__)


@pytest.mark.parametrize("name", DOORS)
def test_a_door_has_the_options_of_its_command(name: str) -> None:
    alone = ON_THE_COMMAND_LINE_ALONE[""] | ON_THE_COMMAND_LINE_ALONE.get(name, set())
    options = set()
    for each in command_of(name).params:
        longest = max(each.opts, key=len).removeprefix("--").replace("-", "_")
        if longest not in alone:
            options.add(RENAMED.get(longest, longest))
    parameters = set(inspect.signature(getattr(tausearch, DOORS[name])).parameters)
    parameters -= IN_PYTHON_ALONE.get(name, set())
    called = {"best" if each == "what" and name == "train" else each for each in options}  # a file, opened
    called = {"what" if each == "model" else each for each in called}
    assert called == parameters


@pytest.mark.parametrize(("preview", "door"), [("preview_search", "search"), ("preview_train", "train")])
def test_a_preview_is_asked_as_its_door(preview: str, door: str) -> None:
    asked = [list(inspect.signature(getattr(tausearch, name)).parameters) for name in (preview, door)]
    assert asked[0] == asked[1]


def test_what_there_is_can_be_listed() -> None:
    assert set(tausearch.__all__) <= set(dir(tausearch)) and {"search", "load_model", "Preview"} <= set(dir(tausearch))
    stub = Path(tausearch.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert all(name in stub for name in tausearch.__all__) and (Path(tausearch.__file__).parent / "py.typed").exists()
    assert tausearch.__version__ and inspect.signature(tausearch.search).parameters["set"].annotation


@pytest.fixture
def result(spec: SearchSpec, tmp_path: Path) -> SearchResult:
    spec, directory = make_run_directory(spec, open_storage(tmp_path, write=True))
    trials = [make_trial(0, value=70.0), make_trial(1, value=75.0), make_trial(2, tasks=1, status="pruned")]
    trials[0].rows[0]["seconds/preconsolidation"] = 40.0
    record = Record(directory.record, {}, tasks=3, metric_names=spec.metrics)
    for trial in trials:
        record.write(trial)
    where = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None}
    return SearchResult(
        spec.name, directory.path, trials, None, False, True, **where, best=None, best_file=None, reevaluation=None
    )  # type: ignore[arg-type]


def test_a_result_as_a_table(result: SearchResult) -> None:
    table = result.dataframe()
    assert list(table["trial"]) == [0, 1, 2] and list(table["status"]) == ["complete", "complete", "pruned"]
    assert list(table["alpha"]) == [1.0, 2.0, 3.0] and list(table["value"])[:2] == [70.0, 75.0]
    assert list(table["seconds"]) == [44.5, 4.5, 1.5] and list(table["val/forgetting"])[:2] == [1.0, 1.0]


def test_a_result_shows_itself_in_a_line_and_in_a_notebook_as_a_table(result: SearchResult) -> None:
    assert repr(result) == f"<SearchResult digits-ita-lora-1: 3 trials ended, best 75.00 %; {result.path}>"
    shown = result._repr_html_()
    assert (
        "<p>digits-ita-lora-1: 3 trials ended" in shown
        and ">75.00</td>" in shown
        and ">alpha</th>" in shown
        and "<img" not in shown
    )
    assert "seconds/training" not in shown  # of the last task alone, beside `seconds` of all
    picture = result.path / "figures" / "history.png"
    picture.parent.mkdir()
    picture.write_bytes(b"drawn")
    assert 'alt="history"' in result._repr_html_() and b64encode(b"drawn").decode() in result._repr_html_()


def test_a_result_counts_the_trials_that_ended_and_their_best(result: SearchResult) -> None:
    waiting = [make_trial(3, tasks=1, status="pending"), make_trial(4, tasks=1)]
    early = replace(result, trials=[*result.trials[::-1], *waiting])
    assert "digits-ita-lora-1: 3 trials ended, best 75.00 %" in repr(early)
    assert "digits-ita-lora-1: 1 trial ended; " in repr(replace(result, trials=[result.trials[2], *waiting]))


def test_a_result_as_a_study_of_optuna(result: SearchResult) -> None:
    study = result.study
    assert study.best_value == 75.0 and study.best_params == {"alpha": 2.0, "lr": 0.01}
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert study.trials[2].intermediate_values == {1: 90.0}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["search", "digits", "ita-"], ["ita-fft", "ita-ia3", "ita-lora"]),
        (["search", "digits", "ita-lora", "--algo"], ["--algorithm"]),
        (["resume", "--storage", "ROOT", ""], ["digits-ita-lora-1"]),
        (["status", "--format", "json", "--storage", "ROOT", ""], ["digits-ita-lora-1"]),
    ],
)
def test_the_shell_completes_names_without_torch(
    spec: SearchSpec, tmp_path: Path, words: list[str], offered: list[str]
) -> None:
    make_run_directory(spec, Storage(tmp_path))
    line = ["tausearch", *(str(tmp_path) if word == "ROOT" else word for word in words)]
    code = (
        "import sys, json; from tausearch.cli import main; sys.argv[:] = ['tausearch']\n"
        "try: main()\nexcept SystemExit: print(json.dumps([m for m in ('torch', 'ray') if m in sys.modules]))"
    )
    asked = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words)), "_TAUSEARCH_COMPLETE": "complete_bash"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    *names, imported = done.stdout.splitlines()
    assert sorted(names) == sorted(offered) and json.loads(imported) == []
