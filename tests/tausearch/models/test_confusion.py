"""The confusion matrix of predictions whose true class their folder names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.models import Confusion, Prediction, named_after

CLASSES = ("tree", "sea", "sun", "sky", "moon")


def predicted(folder: str, label: str) -> Prediction:
    return Prediction(f"{folder}/a.png", label, 0.5, dict.fromkeys(CLASSES, 0.25))


def test_lines_are_true_classes_and_columns_predicted_ones() -> None:
    pairs = [("sun", "sun"), ("sun", "sky"), ("sun", "sea"), ("sun", "tree"), ("sun", "sea"), ("sea", "sea")]
    found = Confusion.of(CLASSES, [predicted(*pair) for pair in [*pairs, ("holiday", "moon")]])
    assert found == Confusion(CLASSES[:4], ((0, 0, 0, 0), (0, 1, 0, 0), (1, 2, 1, 1), (0, 0, 0, 0)))
    assert (found.images, found.right, found.mistakes(2)) == (6, 2, [("sea", 2), ("tree", 1), ("sky", 1)])


def test_without_folders_of_classes_it_is_empty() -> None:
    assert Confusion.of(CLASSES, [predicted("holiday", "sky")]).images == 0
    assert predicted("holiday", "sky").true_label is None and not predicted("holiday", "sky").wrong


def test_a_folder_in_another_unicode_form_is_that_of_the_class() -> None:
    classes, others = ("K\u00e4fer", "Mo\u0308we"), ("Ka\u0308fer", "M\u00f6we")
    found = [named_after(f"{folder}/a.png", classes) for folder in (*others, "Kafer", "Ka\u0308ferle")]
    assert found == [*classes, None, None]


def test_the_folder_of_a_relative_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sun").mkdir()
    monkeypatch.chdir(tmp_path / "sun")
    paths = {"a.png": "sun", "../b.png": None, "../sky/c.png": "sky", "sea/d.png": "sea", "e": "sun", "0": None}
    assert {path: named_after(path, CLASSES) for path in paths} == paths
