"""Fonts for names in any script: matplotlib's own, else those that are installed on this machine."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

_MOST_FONTS = 500  # files that are looked at, for names that matplotlib's own font cannot draw
_GOOD = ("sans", "fallback", "noto", "hei", "gothic")  # in the names of fonts for the screen
_USUAL = "sans-serif"


def drawn_names(names: Sequence[str]) -> dict[str, str]:
    """Return each name as figures draw it: itself, or `class 3` if no font here has all letters of the third."""
    return {name: name if families(name) is not None else f"class {place}" for place, name in enumerate(names, start=1)}


@lru_cache(maxsize=10_000)
def families(text: str) -> tuple[str, ...] | None:
    """Return the font families that together have all letters of a text, the usual one first; None without such."""
    missing = _needed(text) - _letters(_usual_font())
    found = [_USUAL]
    for path in _font_files() if missing else ():
        if missing & _letters(path):
            found.append(_registered(path))
            missing -= _letters(path)
        if not missing:
            break
    return None if missing else tuple(found)


def choose_fonts(figure: Figure) -> None:
    """Give every text of a figure fonts that have its letters; a letter that no font has becomes a question mark."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            labels = [label.get_text() for label in axis.get_ticklabels()]  # makes their texts
            if (drawn := list(map(_drawable, labels))) != labels:
                axis.set_ticklabels(drawn)  # each drawing of an axis sets its texts anew
    for each in figure.findobj(Text):
        assert isinstance(each, Text)
        if each.get_text().isascii():
            continue
        each.set_text(_drawable(each.get_text()))
        each.set_fontfamily(list(families(each.get_text()) or [_USUAL]))


def _drawable(text: str) -> str:
    return text if text.isascii() else "".join(letter if families(letter) else "?" for letter in text)


def _needed(text: str) -> set[int]:
    """Return the letters of a text that a font must have: not blanks, and not marks of format."""
    return {ord(letter) for letter in text if not letter.isspace() and unicodedata.category(letter) not in ("Cc", "Cf")}


@cache
def _usual_font() -> str:
    return str(findfont(FontProperties(family=[_USUAL])))


@cache
def _letters(path: str) -> frozenset[int]:
    """Return the letters that a font has; none for a file that cannot be read."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@cache
def _font_files() -> tuple[str, ...]:
    files = sorted(findSystemFonts(), key=lambda path: (not any(word in path.lower() for word in _GOOD), path))
    return tuple(files[:_MOST_FONTS])


@cache
def _registered(path: str) -> str:
    """Return the family of a font file, after matplotlib has been told of the file."""
    known = next((font.name for font in fontManager.ttflist if font.fname == path), None)
    if known is None:
        fontManager.addfont(path)
        known = fontManager.ttflist[-1].name
    return known
