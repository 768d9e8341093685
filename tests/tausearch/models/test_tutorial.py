"""Tutorials as a reader follows them: every command and every piece of Python, read from their pages, in order."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.support.imports import ROOT

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(name: str) -> list[tuple[str, str]]:
    """The kind and the text of each block of a page that is to be run, in order."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    return [(kind or "shell", text) for kind, text in _BLOCK.findall(page) if kind != "text"]


def run(command: list[str], cwd: Path) -> str:
    own = {"PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)])}
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_tutorial_can_be_followed_to_its_end(tmp_path: Path) -> None:
    said: dict[str, str] = {}
    for kind, text in steps("own-images"):
        if kind == "python":
            name = "shapes.py" if "ImageDraw" in text else "predict.py"
            (tmp_path / name).write_text(text, encoding="utf-8")
            if name == "predict.py":
                said[name] = run([sys.executable, name], tmp_path)
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            start = [sys.executable] if program == "python" else [sys.executable, "-m", "tausearch"]
            said[line] = run([*start, *arguments], tmp_path)
    assert sum(1 for _ in (tmp_path / "shapes").rglob("*.png")) == 40 and len(said) == 17
    _look(said, tmp_path)


def _look(said: dict[str, str], folder: Path) -> None:
    """What the page says that its reader will see."""
    results = json.loads((folder / "tausearch-runs/shapes-final/results.json").read_text(encoding="utf-8"))
    assert results["summary"]["test/final_accuracy"]["mean"] >= 70  # of eight images; 25 is guessing
    assert results["summary"]["test/forgetting"]["mean"] <= 15
    far = folder / "tausearch-runs/shapes-far/compositions"
    whole, dropped = (_accuracies(far / f"{label}.json") for label in ("uniform", "drop-2"))
    assert dropped[0] >= 75 and dropped[1] <= 40 and dropped[1] < whole[1] - 20  # task 2 is unlearned, task 1 kept
    (right,) = re.findall(r"(\d+) of 40 images", said["tausearch predict shapes-final shapes/"])
    assert int(right) > 28
    one = json.loads(said["tausearch predict shapes-final shapes/triangle/0.png --format json"])
    assert one["classes"] == ["circle", "ring", "square", "triangle"] and len(one["predictions"]) == 1
    assert len(said["tausearch predict shapes-final shapes/ --format csv"].splitlines()) == 41
    assert said["predict.py"].count("shapes/triangle/") == 10 and Image.open(folder / "sure.png").width > 600
    alone = said["tausearch predict shapes-final shapes/ --keep 2"]
    assert "triangle" in alone and not re.search(r"│ (circle|ring) ", alone)
    (left,) = re.findall(r"(\d+) of 40 images", said["tausearch predict unlearned shapes/"])
    assert "Still answered" not in said["tausearch compose shapes-far"]
    assert not re.search(r"│ triangle +│ +0\.", said["tausearch predict forgotten shapes/"])  # no answer is a triangle
    about = json.loads((folder / "forgotten/timm/seed_0/model.json").read_text(encoding="utf-8"))
    assert about["class_names"] == ["circle", "ring", "square"]
    assert int(left) < int(right) and (folder / "unlearned" / "vectors" / "README.md").exists()


def _accuracies(file: Path) -> list[float]:
    """Test accuracy on each task, mean over the seeds."""
    summary = json.loads(file.read_text(encoding="utf-8"))["summary"]
    return [summary[f"test/accuracy/task_{task}"]["mean"] for task in (1, 2)]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_class_is_taken_out_and_gone(tmp_path: Path) -> None:
    (drawing,) = (text for _, text in steps("own-images") if "ImageDraw" in text)
    (tmp_path / "shapes.py").write_text(drawing, encoding="utf-8")
    run([sys.executable, "shapes.py"], tmp_path)
    said: dict[str, str] = {}
    lines = [line for kind, text in steps("take-a-class-out") if kind == "shell" for line in text.splitlines()]
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "tausearch":
            unasked = ["--yes"] if "delete" in arguments else []
            said[line] = run([sys.executable, "-m", "tausearch", *arguments, *unasked], tmp_path)
    assert len(said) == len(lines) - 1 == 9  # all but `grep`, in whose place the files are read below
    assert not _naming("triangle", tmp_path / "forgotten") and _naming("square", tmp_path / "forgotten")
    about = json.loads((tmp_path / "forgotten/timm/seed_0/model.json").read_text(encoding="utf-8"))
    assert about["class_names"] == ["circle", "ring", "square"]
    (retrained,) = (text for line, text in said.items() if "--retrain-later" in line)
    assert "No part of this model was learned from images of the forgotten classes" in " ".join(retrained.split())
    assert not _naming("circle", tmp_path / "retrained") and _naming("square", tmp_path / "retrained")
    assert sorted(each.name for each in (tmp_path / "tausearch-runs").glob("*/run.yaml")) == [
        "run.yaml"
    ]  # of the new run


def _naming(word: str, folder: Path) -> list[Path]:
    """The files below a folder that have a word."""
    return [file for file in folder.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]
