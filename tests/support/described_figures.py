"""What a figure shows, as text: its words and its numbers, without their places on paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text


def patch_figures(patch: pytest.MonkeyPatch) -> None:
    """Have figures written as the text of what they show, without layout and drawing, which take a second each."""
    patch.setattr(Figure, "savefig", _save_as_text)
    patch.setattr(Figure, "get_layout_engine", lambda figure: None)
    patch.setattr("tausearch.presentation.figures.style.choose_fonts", lambda figure: None)


def _save_as_text(figure: Figure, path: Path, **options: object) -> None:
    Path(path).write_text("\n".join(_lines(figure)) + "\n", encoding="utf-8")


def _lines(figure: Figure) -> Iterator[str]:
    yield from (f"  text {words!r}" for words in _words(figure.texts))
    for axes in figure.axes:
        scales = f"x {axes.get_xlabel()!r} {axes.get_xscale()}, y {axes.get_ylabel()!r} {axes.get_yscale()}"
        yield f"  axes {axes.get_title()!r}, {scales}"
        yield from (f"    {line}" for line in _contents(axes))


def _contents(axes: Axes) -> Iterator[str]:
    if (legend := axes.get_legend()) is not None:
        yield f"legend {_words(legend.get_texts())}"
    yield from (f"text {words!r}" for words in _words(axes.texts))
    for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.images):
        if artist.get_visible() and (shown := _shown(artist)):
            yield f"{type(artist).__name__} {_label(artist)}{shown}"
    for axis in (axes.xaxis, axes.yaxis):
        names = _words(axis.get_ticklabels())
        if any(name[0].isalpha() for name in names):
            yield f"ticks {names}"


def _label(artist: Artist) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") or not label else f"{label!r} "


def _words(texts: Iterable[Text]) -> list[str]:
    return [text.get_text() for text in texts if text.get_text()]


def _shown(artist: Artist) -> str:
    """Return the numbers of an artist; of a line its colour and marker, too."""
    if isinstance(artist, Line2D):
        return f"{to_hex(artist.get_color())} {artist.get_marker()} {_pairs(artist.get_xydata())}"
    if isinstance(artist, Rectangle):
        return _listed([artist.get_x(), artist.get_y(), artist.get_width(), artist.get_height()])
    if isinstance(artist, AxesImage):
        return _listed(np.ma.asarray(artist.get_array()).ravel())
    if isinstance(artist, LineCollection):
        return "; ".join(_pairs(segment) for segment in artist.get_segments())
    if isinstance(artist, Collection):
        return _pairs(artist.get_offsets())
    return ""


def _pairs(pairs: Any) -> str:
    return " ".join(f"({', '.join(map(_short, pair))})" for pair in pairs)


def _listed(numbers: Iterable[Any]) -> str:
    return " ".join(map(_short, numbers))


def _short(number: Any) -> str:
    return "-" if np.ma.is_masked(number) else f"{float(number):.4g}"
