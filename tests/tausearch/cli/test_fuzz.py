"""Bad input of every kind to every option and file, in one process: exit code 2, one line, nothing made."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from PIL import Image

from tausearch.runs import Record, Storage
from tests.checked_input.test_yaml_text import BOMB
from tests.support.command_line import Ask
from tests.support.runs.damage import damaged
from tests.support.runs.trials import make_trial, search_spec
from tests.tausearch.studies.test_damaged_files import BEST, OWN_SPACE

SEARCH, TRAIN = ["search", "digits", "ita-lora"], ["train", "best.yaml"]
HUGE, TEXTS = "9" * 400, ["", " ", "a\nb", "\udcff", "x" * 5000]
COUNTS = ["0", "-1", HUGE, "99999999999"]
VALUES: dict[str, list[str]] = {
    "--trials": COUNTS,
    "--seed": ["-1", HUGE, "4294967296"],
    "--max-concurrent-trials": COUNTS,
    "--cpus-per-trial": COUNTS,
    "--gpus-per-trial": ["", "nan", "inf", "-1", "2", "1/0", "1e999999999", "1/" + HUGE, HUGE, "0x1", "٣"],
    "--cache-size": ["nan", "inf", "-inf", "-1", "1e300", "1e400"],
    "--time-budget": ["", "1", "h", "nanh", "infh", "-1h", "0s", "1e400h", HUGE + "h", "1 h", "1_0h", "99999999d"],
    "--class-order": ["", "-1", "x", HUGE, "4294967296", "²"],
    "--tasks": [*COUNTS, "6"],
    "--classes-per-task": [*COUNTS[:3], "1"],
    "--epochs": COUNTS,
    "--set": ["", "=", "lr", "lr=", "=1", "lr=nan", "lr=inf", "lr=1e400", "lr=1e31", f"lr={HUGE}", "lr=0", "nope=1"],
    "--algorithm": TEXTS,
    "--scheduler": [*TEXTS, "asha,median"],
    "--precision": TEXTS,
    "--name": [*TEXTS, "..", "a/b", ".a", "cache", "a" * 101, "ä"],
    "--backbone": TEXTS,
    "--data-root": TEXTS,
    "--storage": [*TEXTS, "a?b", "a#b", "a%b", "s3://a", "file", "file/below", "/proc/nope", "/dev/null", "x" * 300],
    "--tracking": [*TEXTS, "none,mlflow", ",", "mlflow,"],
    "--callback": [*TEXTS, "json:dumps", "json:", ":", "os.path:sep"],
    "--tracking-uri": [*TEXTS, "http", "ftp://u:p@h", "://", "file:///x"],
    "--address": [*TEXTS, "a", "a:b", "a:99999999", "127.0.0.1:9", "ray://"],
    "--space": ["nope", "fifo", "folder", "loop", "file", "binary", "bomb", "deep", "large"],
    "--backbone-weights": ["nope", "folder", "file"],
    "--variant": [*TEXTS, "a&tasks=2", "nope"],
}
BENCHMARKS = [
    *TEXTS,
    *("digit", "digits?tasks", "digits?tasks=2&tasks=2", f"digits?tasks={HUGE}", "digits?tasks=-1"),
    *("folder:", "folder:nope?tasks=2", "folder:file?tasks=2", "folder:fifo?tasks=2", "parquet:file?tasks=2"),
    *("parquet:folder?tasks=2", "nope:NAME", "os:path", "a:b:c", "digits?epochs=0", "digits?variant=x"),
]
OTHERS = [
    *(["train", name] for name in ("nope", "fifo", "folder", "loop", "file", "binary", "bomb", "deep", "large")),
    *([*TRAIN, "--seeds", seeds] for seeds in ("", "x", "0,0", "0 1", "-1", "4294967296", HUGE, "1.5", "²")),
    *([*TRAIN, option, value] for option in ("--benchmark", "--name") for value in TEXTS),
    *(
        [*command, name]
        for command in (["resume"], ["status"], ["runs", "sync"])
        for name in (*TEXTS, "nope", "..", "a/b", "file")
    ),
    *(["extend", "nope", "--trials", count] for count in COUNTS),
    *(["compose", "nope", option, value] for option in ("--keep", "--drop", "--weights") for value in ("", "x", HUGE)),
    *(["compose", "nope", "--density", value] for value in ("nan", "inf", "-1", "2")),
    *(["list", "spaces", name] for name in TEXTS),
    *(["export", "digits", "ita-lora", "--output", value] for value in ("made/here.yaml", "folder")),
    *(["search", "digits", name] for name in (*TEXTS, "ita", "joint ")),
    [*SEARCH, "--set", "lr=0.1", "--set", "lr=0.2"],
    *([*SEARCH, "--warm-start", value] for value in (*TEXTS, "paper,", "nope,paper")),
    ["data", "check", "digits"],
    ["data", "check", "cifar100", "--data-root", ""],
]
LONG = "y" * 300  # no file can be called so
WHICH = ["", "x", "1.5", HUGE, "²"]  # where numbers of tasks or seeds are asked for
COMPOSED = [
    *(
        ["compose", name]
        for name in (*TEXTS, LONG, f"{LONG}:1", "nope", "folder", "file", "fifo", "loop", "nope:1", "folder:x", "..:1")
    ),
    *(["compose", "folder", option, value] for option in ("--keep", "--drop", "--seeds") for value in WHICH),
    *(["compose", "folder", "--weights", value] for value in ("nan", "inf", "1e400", "0x1", "1;2")),
    *(["compose", "folder", option, "nope"] for option in ("--rule", "--coefficient", "--forms", "--backbone-weights")),
    *(["compose", "folder", "--export", value] for value in ("", "file", "made/here")),
    *([command, *names] for command in ("evaluate", "figures") for names in (["nope"], ["folder"], [LONG], ["", ""])),
    ["figures", "nope", "--output", "made/here"],
    *([*SEARCH, option, LONG] for option in ("--space", "--backbone-weights", "--storage", "--name", "--backbone")),
    *(["search", f"{kind}:{LONG}?tasks=2", "finetune"] for kind in ("folder", "parquet")),
    *([*command, LONG] for command in (["train"], ["resume"], ["campaign", "run"], ["campaign", "status"])),
    *(["predict", name, "picture.png"] for name in (*TEXTS, LONG, "nope", "folder", "file", "fifo", "loop", "foreign")),
    *(["predict", "folder", value] for value in (LONG, "nope", "fifo", "loop", "folder", "")),
    *(["predict", "nope", "picture.png", option, "x"] for option in ("--seed", "--keep", "--backbone-weights")),
    ["predict", "nope", "picture.png", "--format", "latex"],
    *(["status", "--format", value] for value in (*TEXTS, "csv")),
]
CAMPAIGNS = [
    *(
        ["campaign", "run", name]
        for name in ("nope", "fifo", "folder", "loop", "file", "binary", "bomb", "deep", "large")
    ),
    *(["campaign", "plan", name] for name in ("nope", "fifo", "folder", "bomb")),
    *(["campaign", command, name] for command in ("status", "report") for name in (*TEXTS, "nope", "..", "a/b")),
    *(["campaign", "run", "table.yaml", "--redo", cell] for cell in (*TEXTS, "digits", "digits/joint")),
    *(["campaign", "run", "table.yaml", "--max-concurrent-trials", count] for count in COUNTS),
    *(["campaign", "run", "table.yaml", "--time-budget", value] for value in ("", "1", "nanh", HUGE + "h")),
    *(["campaign", "run", "table.yaml", "--storage", value] for value in ("", "a?b", "file", "/proc/nope", "s3://a")),
    *(["campaign", "run", "table.yaml", "--address", value] for value in ("", "a", "127.0.0.1:9")),
]
MANAGED = [
    *(["runs", "rename", *names] for names in (["nope", "b"], ["", "b"], ["..", "b"], ["nope", ".."])),
    *(["runs", "note", name, "text"] for name in (*TEXTS, "nope", "..", "cache")),
    *(["runs", "delete", name, "--yes"] for name in (*TEXTS, "nope", "..", "cache", "campaigns", "folder")),
    *(["report", name] for name in (*TEXTS, "nope", "..")),
    *(["runs", "replay", name] for name in (*TEXTS, "nope")),
]
CASES = [
    *([*SEARCH, option, value] for option, values in VALUES.items() for value in values),
    *(["search", benchmark, "finetune"] for benchmark in BENCHMARKS),
    *OTHERS,
    *COMPOSED,
    *CAMPAIGNS,
    *MANAGED,
]
TABLE = "campaign: t\nbenchmarks: [digits]\nmethods: [finetune]\nsearch: {trials: 2}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    texts = {"file": "x", "bomb": BOMB, "deep": "[" * 5000, "large": "# \n" * 10**6}
    for name, text in {**texts, "best.yaml": BEST, "table.yaml": TABLE}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "model.json").write_text("{}")
    Image.new("RGB", (8, 8)).save(tmp_path / "picture.png")
    return tmp_path


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_there_are_enough() -> None:
    commands = {
        "search",
        "train",
        "resume",
        "extend",
        "compose",
        "evaluate",
        "figures",
        "predict",
        "campaign",
        "runs",
    }
    assert len(CASES) >= 400 and {case[0] for case in CASES} > commands


@pytest.mark.parametrize("number", range(10))
def test_no_bad_input_does_harm(number: int, folder: Path, ask: Ask) -> None:
    before = listing(folder)
    for case in itertools.islice(CASES, number, None, 10):
        shown = [text[:60] for text in case]
        try:
            code, out, err = ask(*case)
        except BaseException as error:
            raise AssertionError(f"{shown}: {error!r}") from error
        assert code == 2 and out == "", (shown, code, out, err)
        assert err.count("\n") == 1 or err.startswith("Usage: "), (shown, err)  # the help of a group without a command
        assert "Traceback" not in err and len(err) < 6000, (shown, err)
        assert listing(folder) == before, shown


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(space=damaged(OWN_SPACE), best=damaged(BEST))
def test_no_damaged_file_does_harm(space: bytes, best: bytes, folder: Path, ask: Ask) -> None:
    (folder / "damaged.yaml").write_bytes(space)
    (folder / "best.yaml").write_bytes(best)
    # An unknown precision and a seed given twice end what is sound before it is started.
    for case in ([*SEARCH, "--space", "damaged.yaml", "--precision", "fp0"], ["train", "best.yaml", "--seeds", "0,0"]):
        code, out, err = ask(*case)
        of_the_file = [line for line in err.splitlines() if "unknown precision 'fp0'" not in line]
        assert (code, out) == (2, "") and len(of_the_file) <= 1, err
        assert err and all(line.startswith("tausearch: ") for line in err.splitlines()), err
    assert not (folder / "tausearch-runs").exists()


def test_reading_needs_no_right_to_write(folder: Path, ask: Ask) -> None:
    storage, spec = Storage(folder / "runs ä"), search_spec()
    storage.run(spec.name).path.mkdir(parents=True)
    spec.save(storage.run(spec.name))
    Record(storage.run(spec.name).record).write(make_trial(0, value=70.0))
    before = listing(folder)
    for command in (
        ["status"],
        ["status", spec.name],
        ["compare", "--format", "csv"],
        ["runs", "cache"],
        ["list", "spaces", "ita-lora"],
    ):
        at = [] if command[0] == "list" else ["--storage", str(storage.root)]
        code, out, err = ask(*command, *at)
        assert code == 0 and (err == "" or command[0] == "compare"), (command, err)
        assert listing(folder) == before, command
