"""The tutorial on images of one's own as a reader follows it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.support.tutorials import ONE_AT_A_TIME, follow, run, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_tutorial_can_be_followed_to_its_end(call: Callable[..., str], tmp_path: Path) -> None:
    said: dict[str, str] = {}
    for kind, text in steps("own-images"):
        if "photos" in text:  # takes minutes; tests/test_documentation.py draws them and plans the runs
            continue
        if kind == "python":
            name = "shapes.py" if "ImageDraw" in text else "predict.py"
            (tmp_path / name).write_text(text, encoding="utf-8")
            if name == "predict.py":
                said[name] = run([sys.executable, name], tmp_path)
            continue
        for line in text.splitlines():
            trains = line.startswith(("tausearch search", "tausearch train"))
            said[line] = follow(line, tmp_path, call, *(ONE_AT_A_TIME if trains else ()))
    assert sum(1 for _ in (tmp_path / "shapes").rglob("*.png")) == 40 and len(said) == 11
    _look(said, tmp_path)


def _look(said: dict[str, str], folder: Path) -> None:
    """What the page says that its reader will see."""
    results = json.loads((folder / "tausearch-runs/shapes-final/results.json").read_text(encoding="utf-8"))
    assert results["summary"]["test/final_accuracy"]["mean"] >= 70  # of eight images; 25 is guessing
    assert results["summary"]["test/forgetting"]["mean"] <= 15
    (right,) = re.findall(r"(\d+) of 40 images", said["tausearch predict shapes-final shapes/"])
    assert int(right) > 28
    one = json.loads(said["tausearch predict shapes-final shapes/triangle/0.png --format json"])
    assert one["classes"] == ["circle", "ring", "square", "triangle"] and len(one["predictions"]) == 1
    assert len(said["tausearch predict shapes-final shapes/ --format csv"].splitlines()) == 41
    assert said["predict.py"].count("shapes/triangle/") == 10 and Image.open(folder / "sure.png").width > 600
    alone = said["tausearch predict shapes-final shapes/ --keep 2"]
    assert "triangle" in alone and not re.search(r"│ (circle|ring) ", alone)
