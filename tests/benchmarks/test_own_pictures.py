"""The benchmark of own pictures: its pictures, and its page, whose tables are what the kept files say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.own_pictures import measuring as own_pictures, removability
from benchmarks.own_pictures.page import (
    BENCHMARKS,
    DOCS,
    DRAWN,
    MEASURED,
    NAME,
    PAGES,
    REMOVABILITY,
    tables,
    write_pages,
)
from benchmarks.results.page import places
from trainables.metrics import VALIDATION


@pytest.mark.parametrize("pictures", own_pictures.SETS, ids=lambda each: each.name)
def test_train_and_test_pictures_differ(
    pictures: own_pictures.Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_pictures, "_TEST", 2)
    pictures.draw(tmp_path)
    train, test = ([*(tmp_path / part).glob("*/*.png")] for part in ("train", "test"))
    assert {each.parent.name for each in train} == {each.parent.name for each in test}
    assert len({each.parent.name for each in train}) == 2 * pictures.tasks and len(test) == 4 * pictures.tasks
    assert not {each.read_bytes() for each in train} & {each.read_bytes() for each in test}


def test_the_tutorials_pictures_are_those_of_its_program(tmp_path: Path) -> None:
    own_pictures.SETS[0].draw(tmp_path)
    assert sorted(str(each.relative_to(tmp_path / "train")) for each in (tmp_path / "train").glob("*/*.png")) == sorted(
        f"{shape}/{number}.png" for shape in ("circle", "ring", "square", "triangle") for number in range(10)
    )


@pytest.mark.parametrize(("name", "expected"), [("few-images.md", [DRAWN, NAME]), ("removability.md", [REMOVABILITY])])
def test_the_page_is_what_the_kept_files_say(name: str, expected: list[str], tmp_path: Path) -> None:
    for each in PAGES:
        shutil.copy(DOCS / each, tmp_path)
    write_pages(tmp_path)
    text = (DOCS / name).read_text(encoding="utf-8")
    assert (tmp_path / name).read_text(encoding="utf-8") == text and places(text) == expected
    rest = re.sub(r"<!-- table: .*?<!-- end -->", "", text, flags=re.DOTALL)
    assert "±" in text and "±" not in rest  # no accuracy is typed
    assert {file.stem for file in MEASURED.iterdir()} == {DRAWN, *BENCHMARKS}


def test_another_figure_changes_the_table(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(MEASURED, tmp_path / "measured"))
    content = json.loads((folder / f"{NAME}.json").read_text())
    (start,) = [row for row in content["rows"] if (row["pictures"], row["what"]) == ("textures", "start")]
    start["mean"] = 12.345
    (folder / f"{NAME}.json").write_text(json.dumps(content))
    line = "| textures | 25 | 92.3 ± 2.4 | 12.3 ± 1.3 | 91.5 ± 2.2 | 99.2 ± 0.3 |"
    assert line in tables(folder)[NAME] and line not in tables()[NAME]


def test_a_measurement_replaces_what_was_carried_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(shutil.copytree(MEASURED, tmp_path / "measured"))
    rows = [
        {"pictures": each.name, "what": what, "mean": 50.0, "std": 1.0}
        for each in own_pictures.SETS
        for what in ("12 trials and re-evaluation", "start", "probe", "joint")
    ]
    monkeypatch.setitem(command.FOLDERS, NAME, folder)
    monkeypatch.setitem(command.BENCHMARKS, NAME, lambda: rows)
    assert command.measured(NAME) == rows
    content = json.loads((folder / f"{NAME}.json").read_text())
    assert "carried_over" not in content and content["machine"]["cores"] > 0
    assert (
        f"Figures of {content['day']}, commit {content['commit']}." in tables(folder)[NAME]
        and "91.5" not in tables(folder)[NAME]
    )


def test_a_row_of_removability_has_means_deviations_and_gains() -> None:
    found = [(80.0, 30.0, -4.0), (90.0, 50.0, 2.0)]
    assert removability.row("test", found) == {
        "measured on": "test",
        "all": 85.0,
        "without": 45.0,
        "gain": 1.0,
        "all std": pytest.approx(50**0.5),
        "without std": pytest.approx(50**0.5),
        "gain std": pytest.approx(18**0.5),
    }
    assert set(removability.row("one", found[:1])) == {"measured on", "all", "without", "gain"}


def test_what_a_best_file_measured_is_found_by_its_names() -> None:
    metrics = VALIDATION
    objectives = dict.fromkeys((metrics.final_accuracy, metrics.removability[1]), 50.0)
    assert removability._on_validation(objectives, {"val/removability/rest <= 3": 1.0}) == (50.0, 50.0, 1.0)
    final = {"test/final_accuracy": 60.0, "test/removability/target": 20.0, "test/removability/rest": -5.0}
    assert removability._on_test(final) == (60.0, 20.0, -5.0)
