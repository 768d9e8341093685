"""The benchmark of own pictures: its pictures, and its page, whose tables are what the kept files say."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.own_pictures import measuring as own_pictures
from benchmarks.own_pictures.page import DRAWN, MEASURED, NAME, PAGE, tables, write_page
from benchmarks.results.page import places


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


def test_the_page_is_what_the_kept_files_say(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    write_page(page)
    assert page.read_text(encoding="utf-8") == text and places(text) == [DRAWN, NAME]
    rest = re.sub(r"<!-- table: .*?<!-- end -->", "", text, flags=re.DOTALL)
    assert "±" in text and "±" not in rest  # no accuracy is typed
    assert {file.stem for file in MEASURED.iterdir()} == {DRAWN, NAME}


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
    monkeypatch.setattr("benchmarks.own_pictures.page.MEASURED", folder)
    monkeypatch.setitem(command.BENCHMARKS, NAME, lambda: rows)
    assert command.measured(NAME) == rows
    content = json.loads((folder / f"{NAME}.json").read_text())
    assert "carried_over" not in content and content["machine"]["cores"] > 0
    assert (
        f"Figures of {content['day']}, commit {content['commit']}." in tables(folder)[NAME]
        and "91.5" not in tables(folder)[NAME]
    )
