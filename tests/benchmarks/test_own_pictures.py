"""The pictures of the benchmark of own pictures: the tutorial's as they are, and test pictures drawn anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import own_pictures


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
