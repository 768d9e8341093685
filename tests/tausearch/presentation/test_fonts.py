"""Names in scripts that matplotlib's own font lacks: another font, a number, never a box."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest

from tausearch.presentation import confusion_figure, drawn_names
from tausearch.presentation.figures import fonts
from tausearch.presentation.figures.style import one_pair_of_axes, save

TTF = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
STIX = TTF / "STIXGeneral.ttf"
ONLY_STIX, NOWHERE = "\u2a0a", "\u16e8\u2a0a"  # an integral sign; a rune before it


@pytest.fixture(autouse=True)
def one_more_font(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        fonts, "_font_files", lambda: (__file__, str(TTF / "cmr10.ttf"), str(STIX))
    )  # the first is no font
    fonts.families.cache_clear()
    yield
    fonts.families.cache_clear()


def test_names_that_no_font_has_become_numbers() -> None:
    assert drawn_names(["bird", NOWHERE, "نمر", ONLY_STIX]) == {
        "bird": "bird",
        NOWHERE: "class 2",
        "نمر": "نمر",
        ONLY_STIX: ONLY_STIX,
    }
    assert fonts.families("\u01c6") == ("sans-serif",)  # which is not in the font of code
    assert fonts.families("bird\N{LANGUAGE TAG}") == ("sans-serif",)  # a mark of format is not drawn
    assert fonts.families("bird") == ("sans-serif",) and fonts.families(ONLY_STIX) == ("sans-serif", "STIXGeneral")


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_no_text_of_a_saved_figure_is_a_box(tmp_path: Path, ending: str) -> None:
    figure, axes = one_pair_of_axes()
    axes.set_title(f"caption {NOWHERE}")
    axes.set_yticks([0, 1, 2], ["bird", ONLY_STIX, NOWHERE])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(figure, tmp_path / f"x.{ending}")
    assert axes.get_title() == f"caption ?{ONLY_STIX}"
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == ["bird", ONLY_STIX, f"?{ONLY_STIX}"]
    assert [label.get_fontfamily() for label in labels][1:] == [["sans-serif", "STIXGeneral"]] * 2


def test_a_confusion_matrix_of_many_classes_has_no_numbers() -> None:
    few = confusion_figure(["a", "b"], [[3, 0], [1, 2]], "t").axes[0]
    drawn = [(text.get_position(), text.get_text()) for text in few.texts]
    assert drawn == [
        ((0, 0), "3"),
        ((0, 1), "1"),
        ((1, 1), "2"),
    ]
    colours = few.images[0].get_array()
    assert colours is not None and colours[0, 0, 2] > colours[0, 0, 0]  # right: blue
    assert colours[1, 0, 0] > colours[1, 0, 2] and colours[0, 1].min() > 0.95  # wrong: orange; none: white
    many = confusion_figure([str(n) for n in range(300)], [[1] * 300] * 300, "t")
    many.savefig(io.BytesIO())
    assert not many.axes[0].texts and len(many.axes[0].get_xticks()) == 100
