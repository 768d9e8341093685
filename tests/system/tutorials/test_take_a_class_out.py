"""The tutorial on taking a class out as a reader follows it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tutorials import ONE_AT_A_TIME, follow, run, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_a_class_is_taken_out_and_gone(call: Callable[..., str], tmp_path: Path) -> None:
    (drawing,) = (text for _, text in steps("own-images") if "ImageDraw" in text)
    (tmp_path / "shapes.py").write_text(drawing, encoding="utf-8")
    run([sys.executable, "shapes.py"], tmp_path)
    said: dict[str, str] = {}
    lines = [line for kind, text in steps("take-a-class-out") if kind == "shell" for line in text.splitlines()]
    for line in lines:
        if line.startswith("tausearch"):
            more = ["--yes"] if "delete" in line else ONE_AT_A_TIME if line.startswith("tausearch train") else []
            said[line] = follow(line, tmp_path, call, *more)
        if line.endswith("--export unlearned"):  # the runs are deleted at the end
            _look_at_dropped(tmp_path)
    assert len(said) == len(lines) - 1 == 11  # all but `grep`, in whose place the files are read below
    _look(said, tmp_path)


def _look_at_dropped(folder: Path) -> None:
    far = folder / "tausearch-runs/shapes-far/compositions"
    whole, dropped = (_accuracies(far / f"{label}.json") for label in ("uniform", "drop-2"))
    assert dropped[0] >= 75 and dropped[1] <= 25 and dropped[1] <= whole[1] - 50  # task 2 is unlearned, task 1 kept


def _accuracies(file: Path) -> list[float]:
    """Test accuracy on each task, mean over the seeds."""
    summary = json.loads(file.read_text(encoding="utf-8"))["summary"]
    return [summary[f"test/accuracy/task_{task}"]["mean"] for task in (1, 2)]


def _look(said: dict[str, str], folder: Path) -> None:
    """What the page says that its reader will see."""
    assert "Still answered" not in said["tausearch compose shapes-far"]
    (left,) = re.findall(r"(\d+) of 40 images", said["tausearch predict unlearned shapes/"])
    assert int(left) <= 28 and (folder / "unlearned" / "vectors" / "README.md").exists()
    assert not re.search(r"│ triangle +│ +0\.", said["tausearch predict forgotten shapes/"])  # no answer is a triangle
    assert not _naming("triangle", folder / "forgotten") and _naming("square", folder / "forgotten")
    (check,) = (text for kind, text in steps("take-a-class-out") if kind == "python")
    assert run([sys.executable, "-c", check], folder) == "['anchor', 'head']\n"
    about = json.loads((folder / "forgotten/timm/seed_0/model.json").read_text(encoding="utf-8"))
    assert about["class_names"] == ["circle", "ring", "square"]
    (retrained,) = (text for line, text in said.items() if "--retrain-later" in line)
    assert "No part of this model was learned from images of the forgotten classes" in " ".join(retrained.split())
    assert not _naming("circle", folder / "retrained") and _naming("square", folder / "retrained")
    assert len(list((folder / "tausearch-runs").glob("*/run.yaml"))) == 1  # of the new run


def _naming(word: str, folder: Path) -> list[Path]:
    """The files below a folder that have a word."""
    return [file for file in folder.rglob("*") if file.is_file() and word.encode() in file.read_bytes()]
