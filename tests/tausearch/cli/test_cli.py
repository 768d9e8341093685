"""Bad input on the command line: one line that names what, where and what is allowed, exit code 2, nothing started."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.main import get_command

from tausearch.cli.application import app, several_values
from tausearch.cli.sections import SECTIONS
from tests.support.command_line import run
from tests.support.imports import ROOT
from trainables.methods import METHODS

SPACES = {
    "low": "space: {lr: {low: -1000, high: 0.02, grid: [0.01]}}",
    "inf": "space: {lr: {low: 0.001, high: .inf, grid: [0.01]}}",
    "half": "space: {rank: {low: 0.5, high: 8, log: true, integer: true, grid: [4]}}",
    "name": "space: {momentum: {low: 0.5, high: 1, grid: [1]}}",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "digit", "ita-lora"], "unknown benchmark 'digit'; allowed: digits, glyphs"),
        (["search", "digits", "ita"], "unknown method 'ita'; allowed: ita-fft"),
        (
            ["search", "digits", "ita-lora", "--algorithm", "tree"],
            "unknown algorithm 'tree'; allowed: tpe, gp, random, grid",
        ),
        (
            ["search", "digits", "ita-lora", "--scheduler", "hyper"],
            "unknown scheduler 'hyper'; allowed: none, asha, median",
        ),
        (
            ["search", "digits", "ita-lora", "--scheduler", "asha", "--algorithm", "gp"],
            "gp learns nothing from trials that were stopped",
        ),
        (["search", "digits", "joint", "--scheduler", "asha"], "stops no trial before task 3, and a trial has 1"),
        (["search", "digits", "ita-lora", "--time-budget", "90"], "a number and s, m, h or d, such as 90m, got '90'"),
        (["search", "digits", "ita-lora", "--time-budget", "-1h"], "--time-budget must be a number"),
        (
            ["search", "digits", "ita-lora", "--cache-size", "-1"],
            "must be a number from 0 to 1000000 gigabytes, got -1",
        ),
        (["search", "digits", "ita-lora", "--set", "lr"], "--set 'lr': must be KEY=VALUE"),
        (
            ["search", "digits", "ita-lora", "--set", "lr=-1"],
            "--set lr=-1: .*'lr': .*greater than 0, got -1",
        ),
        (["search", "digits", "ita-lora", "--set", "momentum=1"], "unknown hyperparameter 'momentum'; allowed: lr"),
        (["search", "digits", "ita-lora", "--trials", "0"], "must be a whole number from 1 to 100000, got 0"),
        (["search", "digits", "joint", "--algorithm", "grid", "--trials", "9"], "--trials 9: the grid has 4 points"),
        (["search", "digits", "joint", "--set", "lr=0.1", "--trials", "2"], "every hyperparameter is fixed"),
        (
            ["search", "digits", "ita-lora", "--seed", "-1"],
            "--seed must be a whole .* to 4294967295, got -1",
        ),
        (["search", "digits", "ita-lora", "--seed", "4294967296"], "--seed must be a whole number from 0 to"),
        (["search", "digits", "ita-lora", "--precision", "fp8"], "unknown precision 'fp8'; allowed: fp32, bf16"),
        (["search", "digits", "ita-lora", "--cpus-per-trial", "999"], "--cpus-per-trial 999: this machine has"),
        (["search", "digits", "ita-lora", "--name", "cache"], "reserved for files that all runs share"),
        (
            ["search", "digits", "ita-lora", "--address", "nonsense"],
            "--address must be auto, HOST:PORT or ray://HOST:PORT",
        ),
        (["search", "digits", "ita-lora", "--address", "127.0.0.1"], "HOST:PORT .*, got '127.0.0.1'"),
        (["search", "digits", "ita-lora", "--address", "127.0.0.1:"], "HOST:PORT .*, got '127.0.0.1:'"),
        (
            ["search", "digits", "ita-lora", "--tracking-uri", "foo://bar"],
            "--tracking-uri must start with one of http://",
        ),
        (["sync", "--tracking-uri", "foo://bar"], "--tracking-uri must start with one of http://"),
        (
            ["search", "digits", "ita-lora", "--gpus-per-trial", "auto"],
            "--gpus-per-trial auto: this machine has no GPU",
        ),
        (["search", "digits", "ita-lora", "--space", "low.yaml"], "low.yaml: .*'lr': .*greater than 0, got -1000"),
        (["search", "digits", "ita-lora", "--space", "inf.yaml"], "inf.yaml: space.lr.high: .*finite"),
        (["search", "digits", "ita-lora", "--space", "half.yaml"], "half.yaml: space.rank: .*whole numbers"),
        (
            ["search", "digits", "ita-lora", "--space", "name.yaml"],
            "name.yaml: space: unknown .* 'momentum'",
        ),
        (["spaces", "ita-lora", "--set", "lr=-5"], "hyperparameter 'lr': .*greater than 0, got -5"),
        (["search", "digits", "ita-lora", "--address", "127.0.0.1:9"], "no Ray cluster answers there"),
        (
            ["search", "digits", "ita-lora", "--max-concurrent-trials", "0"],
            "--max-concurrent-trials must be .* from 1 to 100000, got 0",
        ),
        (
            ["search", "digits", "ita-lora", "--cpus-per-trial", "0"],
            "--cpus-per-trial must be .* from 1 to 4096, got 0",
        ),
        (["search", "digits", "ita-lora", "--gpus-per-trial", "0.3"], "must be 0, 1 or 1/k .*got 0.3"),
        (["search", "digits", "ita-lora", "--gpus-per-trial", "all"], "--gpus-per-trial must be a number, .*got 'all'"),
        (["search", "digits", "ita-lora", "--gpus-per-trial", "2/3"], "must be 0, 1 or 1/k .*got 0.666"),
        (["search", "digits", "ita-lora", "--gpus-per-trial", "1/3"], "this machine has no GPU"),
        (["search", "digits", "ita-lora", "--gpus-per-trial", "auto"], "this machine has no GPU"),
        (["search", "digits", "ita-lora", "--name", "a/b"], "name 'a/b': must be letters"),
        (["search", "digits", "ita-lora", "--name", "taken"], "a run named 'taken' exists"),
        (["search", "digits", "ita-lora", "--space", "none.yaml"], "none.yaml: cannot be read"),
        (
            ["search", "digits", "ita-lora", "--weights", "none.safetensors"],
            "weights .*none.safetensors: cannot be read",
        ),
        (["search", "digits", "ita-lora", "--backbone", "vit_x"], "unknown backbone 'vit_x'"),
        (["search", "digits", "ita-lora", "--warm-start", "paper", "nope"], "--warm-start nope: no run named 'nope'"),
        (["search", "digits", "joint", "--warm-start", "paper"], "the paper lists no hyperparameters for joint"),
        (
            ["search", "digits", "ita-lora", "--warm-start", "low.yaml"],
            "--warm-start low.yaml: best file low.yaml: key",
        ),
        (
            ["search", "digits", "ita-lora", "--reevaluate", "-1"],
            "--reevaluate must be a whole number from 0 to 1000, got -1",
        ),
        (
            ["search", "digits", "ita-lora", "--reevaluate", "0", "--reevaluate-runs", "2"],
            "--reevaluate-runs 2: goes with",
        ),
        (
            ["search", "digits", "ita-lora", "--reevaluate", "3", "--trials", "2"],
            "--reevaluate 3: the search has 2 trials",
        ),
        (
            ["search", "digits", "joint", "--trials", "4", "--reevaluate-runs", "2"],
            "--reevaluate-runs 2: goes with --reevaluate",
        ),
        (
            ["search", "digits", "ita-lora", "--reevaluate", "2", "--reevaluate-runs", "101"],
            "--reevaluate-runs must be a whole number from 1 to 100, got 101",
        ),
        (["train", "none.yaml"], "best file none.yaml: cannot be read"),
        (["train", "digits", "ita-lora"], "no search of 'ita-lora' on 'digits'"),
        (["train", "none.yaml", "--class-orders", "label"], "--class-orders must be whole numbers, got 'label'"),
        (["train", "a", "b", "c"], "train needs a best file, or a benchmark and a method"),
        (["status", "nope"], "no run named 'nope'"),
        (["export", "digits", "ita-lora"], "no search of 'ita-lora' on 'digits'"),
        (["spaces", "nope"], "unknown method 'nope'; allowed: "),
        (["spaces", "--benchmark", "nope"], "unknown benchmark 'nope'"),
        (["ui"], "has no runs yet"),
        (["compare", "nope"], "unknown benchmark 'nope'; allowed: imagenet_r, cifar100, .*digits"),
        (["compare", "--json", "--csv"], "--json and --csv: choose one of them"),
        (["compare", "--transfer", "--figure", "x.png"], "--figure: .* does not go with --transfer"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    (tmp_path / "tausearch-runs" / "taken").mkdir(parents=True)
    for name, text in SPACES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, out, err = run(arguments, capsys, monkeypatch)
    assert code == 2 and out == ""
    assert len(err.strip().splitlines()) == 1
    assert re.search(message, err), err
    assert [path.name for path in (tmp_path / "tausearch-runs").iterdir()] == ["taken"]


def test_storage_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    arguments = ["search", "digits", "ita-lora", "--storage", str(tmp_path / "file")]
    code, _, err = run(arguments, capsys, monkeypatch)
    assert code == 2 and "cannot be written" in err


@pytest.mark.parametrize("arguments", [["search"], ["serach"], ["search", "digits", "ita-lora", "--trails", "3"]])
def test_usage_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(arguments, capsys, monkeypatch)[0] == 2


def test_spaces_prints_what_a_search_uses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    code, out, _ = run(["spaces", "ita-lora", "--set", "lr=0.001", "--json"], capsys, monkeypatch)
    content = json.loads(out)
    assert code == 0
    assert set(content) == {"method", "benchmark", "space", "start", "paper", "fixed", "defaults"}
    assert set(content["space"]["alpha"]) >= {"low", "high", "log", "grid"}
    assert content["fixed"]["lr"] == 0.001
    assert content["defaults"]["regularise"] == "all" and not {"alpha", "lr"} & set(content["defaults"])
    code, out, _ = run(["spaces", "ita-lora"], capsys, monkeypatch)
    assert code == 0 and "log scale" in out and "all, head, none" in out


def test_spaces_lists_all_methods(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    code, out, _ = run(["spaces", "--benchmark", "mit67", "--json"], capsys, monkeypatch)
    found = {each["method"]: each for each in json.loads(out)}
    assert code == 0 and set(found) == set(METHODS) and len(found) == 17
    assert found["inflora"]["paper"] == {"lr": 0.001, "r": 10, "epsilon": 0.95}
    _, out, _ = run(["spaces"], capsys, monkeypatch)
    assert {line.split("│")[1].strip() for line in out.splitlines() if "│" in line} - {""} == set(METHODS)


def test_status_without_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["status"], capsys, monkeypatch)[1].strip() == "no runs yet"
    assert run(["status", "--json"], capsys, monkeypatch)[1].strip() == "[]"


def test_compare_without_final_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["cifar100"], ["--transfer"]):
        code, out, err = run(["compare", *arguments], capsys, monkeypatch)
        assert (code, err) == (0, "") and out.startswith("no final runs in ") and len(out.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ("train f --seeds 0 1 --json", ["train", "f", "--seeds", "0 1", "--json"]),
        ("train f --seeds 0 --class-orders 3 4", ["train", "f", "--seeds", "0", "--class-orders", "3 4"]),
        ("train --seeds 0 1 f 2", ["train", "--seeds", "0 1", "f", "2"]),
        ("train --seeds x 2", ["train", "--seeds", "x", "2"]),
        (
            "search d --warm-start a b.yaml --json",
            ["search", "d", "--warm-start", "a", "--warm-start", "b.yaml", "--json"],
        ),
        *((same, same.split()) for same in ("train f", "status a b", "search --warm-start --warm-start a")),
        ("search --warm-start", ["search", "--warm-start"]),
    ],
)
def test_some_options_take_several_values(given: str, parsed: list[str]) -> None:
    assert several_values(given.split()) == parsed


def test_the_command_is_installed() -> None:
    done = subprocess.run([sys.executable, "-m", "tausearch", "--help"], capture_output=True, text=True, check=True)
    assert "search" in done.stdout


@pytest.mark.parametrize("arguments", [["-h"], ["search", "-h"], ["data", "check", "-h"], ["predict", "-h"]])
def test_help_is_short_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run(arguments, capsys, monkeypatch)
    long = run([*arguments[:-1], "--help"], capsys, monkeypatch)[1]
    assert code == 0 and out == long and "Usage: " in out and "-h, --help" in out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import tausearch

    code, out, _ = run(["--version"], capsys, monkeypatch)
    assert (code, out) == (0, f"tausearch {tausearch.__version__}\n")
    assert {"search", "train", "load_model", "Model"} <= set(dir(tausearch))


def test_what_libraries_tell_their_callers_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(["--version"], capsys, monkeypatch)
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


def test_the_help_has_every_command_in_one_section_with_a_whole_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
    code, out, _ = run(["--help"], capsys, monkeypatch)
    lines = out.partition("Search and train:\n")[2].splitlines()
    described = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert code == 0 and list(described) == listed and all(line.endswith(".") for line in described.values())
    assert described["train"] == "  train     Train a chosen configuration on several seeds, and test it."
    assert all(f"{title}:" in out for title in SECTIONS)
