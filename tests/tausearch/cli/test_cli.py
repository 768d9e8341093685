"""Bad input on the command line: one line that names what, where and what is allowed, exit code 2, nothing started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import tausearch
from tausearch.cli.application import app, require_commas
from tausearch.cli.sections import OPTIONS, SECTIONS, section_of
from tests.support.command_line import Ask
from tests.support.imports import ROOT
from tests.test_documentation import parsed
from trainables.errors import InputError
from trainables.methods import METHODS

SPACES = {
    "low": "space: {lr: {low: -1000, high: 0.02, grid: [0.01]}}",
    "inf": "space: {lr: {low: 0.001, high: .inf, grid: [0.01]}}",
    "half": "space: {rank: {low: 0.5, high: 8, log: true, integer: true, grid: [4]}}",
    "name": "space: {momentum: {low: 0.5, high: 1, grid: [1]}}",
    "large": f"space: {{alpha: {{low: 1, high: 400, grid: {[*range(1, 401)]}}}, lr: {{low: 0.001, high: 0.4,"
    f" grid: {[n / 1000 for n in range(1, 401)]}}}}}",
}
REFUSED = [
    ("search digits joint --scheduler asha", "stops no trial before task 3, and a trial has 1"),
    ("search digits joint --algorithm grid --trials 9", "--trials 9: the grid has 4 points"),
    (
        "search digits ita-lora --algorithm grid --space large.yaml",
        "the grid has 960,000 points, of at most 100,000; tpe and",
    ),
    (
        "search digits ita-lora --algorithm gp --trials 1001",
        "--trials 1001: gp takes 1000 at most, as a ",
    ),
    ("search digits joint --set lr=0.1 --trials 2", "every hyperparameter is fixed"),
    ("search digits joint --trials 4 --reevaluate-runs 2", "--reevaluate-runs 2: goes with --reevaluate"),
    ("SEARCH --algorithm tree", "unknown algorithm 'tree'; allowed: tpe, gp, random, grid"),
    ("SEARCH --scheduler hyper", "unknown scheduler 'hyper'; allowed: none, asha, median"),
    ("SEARCH --time-budget 90", "a number and s, m, h or d, such as 90m, got '90'"),
    ("SEARCH --time-budget -1h", "--time-budget must be a number"),
    ("SEARCH --cache-size -1", "must be a number from 0 to 1000000 gigabytes, got -1"),
    ("SEARCH --set lr", "--set 'lr': must be KEY=VALUE"),
    ("SEARCH --set lr=-1", "--set lr=-1: .*'lr': .*greater than 0, got -1"),
    ("SEARCH --precision fp8", "unknown precision 'fp8'; allowed: fp32, tf32, bf16, auto"),
    ("SEARCH --cpus-per-trial 999", "--cpus-per-trial 999: this machine has"),
    ("SEARCH --max-concurrent-trials 0", "--max-concurrent-trials must be .* from 1 to 100000, got 0"),
    ("SEARCH --name cache", "reserved for files that all runs share"),
    ("SEARCH --name taken", "tausearch-runs/taken exists and is no run"),
    ("SEARCH --address nonsense", "--address must be auto, HOST:PORT or ray://HOST:PORT"),
    ("SEARCH --address 127.0.0.1", "HOST:PORT .*, got '127.0.0.1'"),
    ("SEARCH --address 127.0.0.1:", "HOST:PORT .*, got '127.0.0.1:'"),
    ("SEARCH --address 127.0.0.1:9", "no Ray cluster answers there"),
    ("SEARCH --tracking wandb", "--tracking must be none, or one or more of mlflow, tensorboard"),
    ("SEARCH --tracking-uri foo://bar", "--tracking-uri must start with one of http://"),
    ("SEARCH --gpus-per-trial auto", "--gpus-per-trial auto: this machine has no GPU"),
    ("SEARCH --gpus-per-trial 2/3", "must be auto, 0, 1 or 1/k .*got 0.666"),
    ("SEARCH --gpus-per-trial all", "--gpus-per-trial must be a number, .*got 'all'"),
    ("SEARCH --gpus-per-trial 1/3", "this machine has no GPU"),
    ("SEARCH --space low.yaml", "low.yaml: .*'lr': .*greater than 0, got -1000"),
    ("SEARCH --space inf.yaml", "inf.yaml: space.lr.high: .*finite"),
    ("SEARCH --space half.yaml", "half.yaml: space.rank: .*whole numbers"),
    ("SEARCH --space name.yaml", "name.yaml: space: unknown .* 'momentum'"),
    ("SEARCH --storage low.yaml", "low.yaml: .*cannot be written"),
    ("SEARCH --backbone-weights none.safetensors", "weights .*none.safetensors: there is no such file"),
    ("SEARCH --backbone vit_x", "unknown backbone 'vit_x'"),
    ("SEARCH --warm-start low.yaml", "--warm-start low.yaml: best file low.yaml: key"),
    ("SEARCH --reevaluate -1", "--reevaluate must be a whole number from 0 to 1000, got -1"),
    ("SEARCH --reevaluate 0 --reevaluate-runs 2", "--reevaluate-runs 2: goes with"),
    ("SEARCH --reevaluate 2 --reevaluate-runs 101", "--reevaluate-runs must be a whole number from 1 to 100, got 101"),
    ("runs sync --tracking wandb", "--tracking must be none, or one or more of mlflow, tensorboard"),
    ("runs sync --tracking-uri foo://bar", "--tracking-uri must start with one of http://"),
    ("train none.yaml", "best file none.yaml: cannot be read"),
    ("train none.yaml --class-orders label", "--class-orders must be whole numbers .*, got 'label'"),
    ("train a b c", "train needs a best file, or a benchmark and a method"),
    ("export digits ita-lora", "no search of 'ita-lora' on 'digits'"),
    ("list spaces --benchmark nope", "unknown benchmark 'nope'"),
    ("list spaces --set lr=0.1", "--set, --space: are about one method; name it: list spaces METHOD"),
    ("list spaces --space none.yaml", "--set, --space: are about one method"),
    ("list spaces ita-lora --set lr=-5", "hyperparameter 'lr': .*greater than 0, got -5"),
    ("runs ui", "has no runs yet"),
    (
        "compare nope",
        "unknown benchmark 'nope'; allowed: imagenet_r, .*digits, .*; there is no run of this name, either",
    ),
    ("status --format csv", "unknown --format 'csv'; allowed: text, json$"),
    ("compare --format html", "unknown --format 'html'; allowed: text, json, csv, markdown, latex"),
    ("compare --paper --format csv", "--paper: goes with --format latex or markdown of methods"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_bad_input(command: str, message: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tausearch-runs" / "taken").mkdir(parents=True)
    for name, text in SPACES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, out, err = ask(*command.replace("SEARCH", "search digits ita-lora").split())
    assert code == 2 and out == ""
    assert len(err.strip().splitlines()) == 1
    assert re.search(message, err), err
    assert [path.name for path in (tmp_path / "tausearch-runs").iterdir()] == ["taken"]


def test_spaces_prints_what_a_search_uses(ask: Ask) -> None:
    code, out, _ = ask("list", "spaces", "ita-lora", "--set", "lr=0.001", "--format", "json")
    content = json.loads(out)
    assert code == 0
    assert set(content) == {"method", "benchmark", "space", "start", "paper", "fixed", "defaults"}
    assert set(content["space"]["alpha"]) >= {"low", "high", "log", "grid"}
    assert content["fixed"]["lr"] == 0.001
    assert content["defaults"]["regularise"] == "all" and not {"alpha", "lr"} & set(content["defaults"])
    code, out, _ = ask("list", "spaces", "ita-lora")
    assert code == 0 and "log scale" in out and "all, head, none" in out and "--benchmark NAME" in out
    assert (
        "--benchmark NAME" not in ask("list", "spaces", "ita-lora", "--benchmark", "digits")[1]
    )  # it has been followed


def test_spaces_refuses_a_backbone_that_a_search_would_refuse(ask: Ask) -> None:
    code, _, err = ask("list", "spaces", "ita-lora", "--backbone", "vit_none")
    assert code == 2 and err.startswith("tausearch: unknown backbone 'vit_none'")


def test_spaces_lists_all_methods(ask: Ask) -> None:
    code, out, _ = ask("list", "spaces", "--benchmark", "mit67", "--format", "json")
    found = {each["method"]: each for each in json.loads(out)}
    assert code == 0 and set(found) == set(METHODS) and len(found) == 19
    assert found["inflora"]["paper"] == {"lr": 0.001, "r": 10, "epsilon": 0.95}
    _, out, _ = ask("list", "spaces")
    assert {line.split("│")[1].strip() for line in out.splitlines() if "│" in line} - {""} == set(METHODS)
    assert "list spaces METHOD; values of another benchmark, or of your own images: --benchmark NAME" in out
    assert "--benchmark NAME" not in ask("list", "spaces", "--benchmark", "digits")[1]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("status", "no runs in "),
        ("status --format json", "[]\n"),
        ("campaign status", "no campaigns yet\n"),
        ("runs cache", "the cache is empty\n"),
        ("runs sync", "no runs in "),
        ("list backbones nosuchword", "no backbone of timm has 'nosuchword' in its name\n"),
        *((f"compare {rest}", "no final runs in ") for rest in ("", "--transfer")),
    ],
)
def test_what_there_is_not_is_a_line(
    command: str, said: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(*command.split())
    assert (code, err) == (0, "") and out.startswith(said) and len(out.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "one"),
    [
        ("train f --seeds 0 1 2", "--seeds 0,1,2"),
        ("train f --seeds 0, 1 --name x", "--seeds 0,1"),
        ("train --class-orders 3 4 f", "--class-orders 3,4"),
        ("compose r --seeds 0 --weights 0.3 -0.4", "--weights 0.3,-0.4"),
        ("runs replay s --seeds 0 1", "--seeds 0,1"),
        ("search digits ita-lora --warm-start a b.yaml --seed 3", "--warm-start a,b.yaml"),
    ],
)
def test_a_list_with_blanks_is_a_line_that_says_how_to_write_it(given: str, one: str, ask: Ask) -> None:
    code, out, err = ask(*given.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and err.endswith(f": write several values with commas: {one}\n")


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ("train --seeds 0 f", "train --seeds 0 1 f"),
        ("train f --seeds 0,1 --set 0 1", "train f --seeds 0 1 --set 0 1"),
        ("search --warm-start a digits ewc", "search digits ewc --warm-start a digits"),
        ("search digits --warm-start a ewc", "search digits ewc --warm-start a b"),
        ("x --warm-start", "x y z --warm-start a b"),
    ],
)
def test_what_follows_a_list_may_be_an_argument_and_no_further_value(given: str, refused: str) -> None:
    require_commas(given.split())
    with pytest.raises(InputError, match="with commas"):
        require_commas(refused.split())


def test_without_arguments_it_says_what_to_do_first(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.cli.options.tool", lambda: "tausearch")
    code, out, err = ask()
    commands = [line.partition("#")[0].split()[1:] for line in out.splitlines() if line.startswith("  tausearch ")]
    assert (code, err) == (0, "") and max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) < 12
    assert [words[0] for words in commands] == ["search", "train", "predict", "list", "--help"]
    for words in commands[:-1]:
        parsed(tuple(words))


def test_every_help_fits_80_columns_and_long_ones_have_every_option_in_a_section(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        for words in ([name], *([name, below] for below in getattr(command, "commands", ()))):
            code, out, _ = ask(*words, "--help")
            assert code == 0 and max(map(len, out.splitlines())) <= 80, words
    for name in ("search", "train", "resume", "extend", "compose"):
        _, out, _ = ask(name, "--help")
        assert "Options:" not in out and "\nResources:" in out and "\nOutput:" in out
        options = {each.opts[0] for each in commands[name].params if each.opts[0].startswith("--")}
        assert {line.split()[0] for line in out.splitlines() if line.startswith("  --")} == options
        titles = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
        assert titles == [title for title in ("Arguments", *OPTIONS) if title in titles]


def test_what_is_set_is_a_hyperparameter_in_a_search_and_the_rules_in_a_composition() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    sections = {
        name: next(section_of(each) for each in commands[name].params if "--set" in each.opts)
        for name in ("search", "train", "compose")
    }
    assert sections == {"search": "Hyperparameters", "train": "Hyperparameters", "compose": "Merging rule"}


@pytest.mark.parametrize("words", [[], ["search"], ["data", "check"], ["predict"]])
def test_help_is_short_too(words: list[str], ask: Ask) -> None:
    code, out, _ = ask(*words, "-h")
    assert code == 0 and out == ask(*words, "--help")[1] and "Usage: " in out and "-h, --help" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search", "digits"], "Missing argument 'method' (see `tausearch search --help`)"),
        (["search", "digits", "ewc", "--trials", "2.5"], "--trials must be a whole number, got '2.5' (see "),
        (["search", "digits", "ewc", "--cache-size", "x"], "--cache-size must be a number, got 'x' (see "),
        (["runs", "nite"], "No such command 'nite'. Did you mean 'note'? (see `tausearch runs --help`)"),
        (["campaign", "run", "--dry-run", "t.yaml"], "campaign run: has no --dry-run; tausearch campaign plan FILE"),
        (["campaign", "run", "t.yaml", "--dry-run"], "campaign run: has no --dry-run; tausearch campaign plan FILE"),
        (["--nope"], "No such option: --nope (see `tausearch --help`)"),
        (["status", "--format"], "Option '--format' requires an argument (see `tausearch --help`)"),
    ],
)
def test_a_wrong_word_is_one_line_without_the_usage(words: list[str], said: str, ask: Ask) -> None:
    code, out, err = ask(*words)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(f"tausearch: {said}")


def test_the_version_is_the_packages(ask: Ask) -> None:
    code, out, _ = ask("--version")
    assert (code, out) == (0, f"tausearch {tausearch.__version__}\n")
    assert {"search", "train", "load_model", "Model"} <= set(dir(tausearch))


def test_what_libraries_tell_their_callers_is_not_shown(ask: Ask) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ask("--version")
        warnings.warn("`torch.jit.script` is deprecated", FutureWarning, stacklevel=1)
        warnings.warn("of ours", UserWarning, stacklevel=1)
    assert [each.category for each in seen] == [UserWarning]


def test_no_output_and_a_working_folder_that_is_gone_are_no_traceback(tmp_path: Path) -> None:
    start = f"{sys.executable} -m tausearch status --storage {tmp_path / 'runs'}"
    done = subprocess.run(f"{start} >&- 2>&-", shell=True)
    assert done.returncode == 0
    gone = f"mkdir gone && cd gone && rmdir ../gone && {start}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])}
    lost = subprocess.run(gone, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (lost.returncode, lost.stdout) == (2, "")
    assert lost.stderr == "tausearch: the folder that this was started in no longer exists\n"


def test_the_help_has_every_command_in_one_section_with_a_whole_line(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = [name for names in SECTIONS.values() for name in names]
    group: Any = get_command(app)
    assert sorted(listed) == sorted(group.commands) and len(listed) <= 16 and group.list_commands(None) == listed
    code, out, _ = ask("--help")
    lines = out.partition("Search and train:\n")[2].splitlines()
    described = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert code == 0 and list(described) == listed and all(line.endswith(".") for line in described.values())
    assert described["train"] == "  train     Train a chosen configuration on several seeds, and test it."
    assert all(f"{title}:" in out for title in SECTIONS)


@pytest.mark.parametrize(
    "words",
    [
        *("export s --output", "report r --output", "compare --figure", "campaign report c --output"),
        *("predict m image.png --figure", "predict m image.png --confusion"),
    ],
)
def test_a_file_to_write_may_lie_in_the_home_folder(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    given = f"{words}=~/x".split()  # a shell leaves this `~` as it is
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[given.pop(0)]
    option = words.rpartition("--")[2]
    assert command.make_context("", given).params[option] == tmp_path / "x"


def test_each_line_of_an_error_begins_with_the_tool(ask: Ask) -> None:
    code, _, err = ask("search", "digits", "finetune", "--trials", "0", "--seed", "-1")
    assert code == 2 and [line.partition(" must")[0] for line in err.splitlines()] == [
        "tausearch: --trials",
        "tausearch: --seed",
    ]
