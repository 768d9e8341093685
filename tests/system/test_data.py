"""Searches and final runs on data that lies on disk, and on a benchmark in code, through the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tausearch.runs import Record, Storage, read_spec
from tausearch.studies import load_best
from tests.support.layouts import encoded, put, resisc45_split
from trainables.metrics import repeatable

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).parents[2] / "examples"
FAST = ("--backbone", "glyph_vit", "--trials", "1", "--epochs", "1")


def rows(folder: Path, name: str) -> list[list[dict[str, float]]]:
    trials = Record(Storage(folder / "tausearch-runs").run(name).record).trials()
    assert [trial.status for trial in trials] == ["complete"] * len(trials)
    return [[repeatable(row) for row in trial.rows] for trial in trials]


@pytest.mark.slow
def test_a_published_benchmark_prepared_searched_and_trained(call: Callable[..., str], tmp_path: Path) -> None:
    resisc45_split(tmp_path / "data" / "resisc45", "images.zip")
    options = (*FAST, "--partial", "--data-root", "data", "--tracking", "none")
    call("data", "prepare", "resisc45", "--partial", "--data-root", "data")
    call("search", "resisc45", "finetune", *options, "--name", "s")
    spec = read_spec(Storage(tmp_path / "tausearch-runs").run("s"))
    assert spec.benchmark == "resisc45?epochs=1&partial=yes" and spec.data_root == str(tmp_path / "data")
    assert len(rows(tmp_path, "s")[0]) == spec.protocol.tasks == 9
    shutil.move(tmp_path / "data", tmp_path / "moved")
    best = Storage(tmp_path / "tausearch-runs").run("s").best_file
    arguments = ("--seeds", "0", "--name", "final", "--data-root", "moved")
    assert "test/final_accuracy" in call("train", str(best), *arguments)


def test_a_folder(call: Callable[..., str], tmp_path: Path) -> None:
    put(tmp_path / "My Things", {f"{c}/{n}.png": encoded(10, c, n % 6) for c in range(6) for n in range(8)})
    arguments = ("--tasks", "3", "--class-order", "1", *FAST, "--tracking", "none")
    found = json.loads(call("search", "folder:My Things", "finetune", *arguments, "--format", "json"))
    name = "folder-My-Things-tasks-3-class_order-1-epochs-1-finetune-1"
    assert found["name"] == name and [trial["status"] for trial in found["trials"]] == ["complete"]
    best = load_best(tmp_path / "tausearch-runs" / name / "best.yaml")
    assert best.benchmark == f"folder:{tmp_path}/My Things?tasks=3&class_order=1&epochs=1"


@pytest.mark.slow
def test_a_benchmark_in_code_is_found_by_the_workers(tmp_path: Path) -> None:
    """In their processes, too, a file of the working folder stands in for no package."""
    shutil.copy(EXAMPLES / "own_benchmark.py", tmp_path)
    for name in ("dill", "pynvml", "xformers", "flash_attn", "tensorboardX", "cupy", "orjson"):
        (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('ran').touch()\n")

    def called(*arguments: str, code: int = 0) -> str:
        command = Path(sys.executable).with_name(
            "tausearch"
        )  # as a user calls it: the working folder is not on its path
        done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    out = called("search", "own_benchmark:STRIPES", "ita-lora", "--trials", "1", "--epochs", "1", "--name", "own")
    assert "ita-lora on own_benchmark:STRIPES" in out and len(rows(tmp_path, "own")[0]) == 4
    assert "--allow-code own_benchmark:STRIPES" in out  # of the final run that it proposes
    final = ("train", "own", "--seeds", "0", "--name", "final")
    assert "--allow-code own_benchmark:STRIPES" in called(*final, code=2)
    called(*final, "--allow-code", "own_benchmark:STRIPES")
    assert not (tmp_path / "ran").exists()
