"""A table as data: columns with formats, values in rows; the terminal, the page and text formats show the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from checked_input.text_files import escaped
from tausearch.presentation.terminal.text import number, percent
from tausearch.runs import Score

Emphasis = Literal["marked", "total", "strong", "faint", "good", "bad"]
Rank = Literal["best", "second"]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str  # the heading
    format: Callable[[Any], str] = number  # of a value; not called for text, which is put in one line, and for None
    right: bool = False  # whether cells are aligned to the right, as numbers are
    wrap: bool = False  # whether a narrow terminal breaks the text into lines
    minor: bool = False  # whether a narrow terminal leaves the column out
    heat: bool = False  # whether the page colours the cells by their values, which are percentages

    def text(self, value: object) -> str:
        """Return the text of a cell. Names of classes and files may have line breaks, which would be another row."""
        return "" if value is None else escaped(value) if isinstance(value, str) else self.format(value)


@dataclass(frozen=True)
class CellLook:
    """How one cell stands out."""

    rank: Rank | None = None  # its place in its column; None for the others, and where there is no order
    notes: tuple[int, ...] = ()  # numbers of the table's notes about it
    link: str = ""  # where the page leads from it: `#cell-3`

    @property
    def marks(self) -> str:
        """The letters of its notes: `a,b`."""
        return ",".join(note_mark(number) for number in self.notes)


@dataclass(frozen=True)
class Table:
    """A table with a title."""

    title: str  # the text above the table
    columns: Sequence[Column]  # the columns, from left to right
    rows: Sequence[tuple[Any, ...]]  # the values; each row has one for each column
    emphasis: Mapping[int, Emphasis] = field(default_factory=dict)  # by row; "total" sums up the rows above
    looks: Mapping[tuple[int, int], CellLook] = field(default_factory=dict)  # by row and column
    notes: Sequence[str] = ()  # texts below the table; cells refer to them by letters
    blocks: Sequence[int] = ()  # numbers of rows below a rule
    caption: str = ""  # what the numbers are, after the title; not in the terminal

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The rows as text."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def look(self, row: int, column: int) -> CellLook:
        """Return how a cell stands out."""
        return self.looks.get((row, column), CellLook())

    def mark(self, note: int) -> str:
        """Return the letter of a note."""
        return note_mark(note)

    def without(self, *names: str) -> Table:
        """Return the table without the columns of these names, of several the last: names of users precede it."""
        last = {name: place for place, name in enumerate(self.header) if name in names}
        return self._with_columns(place for place in range(len(self.header)) if place not in last.values())

    def without_empty(self, *names: str) -> Table:
        """Return the table without the columns that are empty in every row; with names, only these can be removed."""
        texts = self.texts
        filled = (any(row[place] for row in texts) for place in range(len(self.header)))
        kept = [bool(names and name not in names) or some for name, some in zip(self.header, filled, strict=True)]
        return self._with_columns(place for place, keep in enumerate(kept) if keep)

    def _with_columns(self, places: Iterable[int]) -> Table:
        kept = list(places)
        rows = [tuple(row[place] for place in kept) for row in self.rows]
        looks = {(row, kept.index(place)): look for (row, place), look in self.looks.items() if place in kept}
        return replace(self, columns=[self.columns[place] for place in kept], rows=rows, looks=looks)


def note_mark(number: int) -> str:
    """Return the letter of a note: a to z, then aa, bb and so on."""
    return chr(ord("a") + number % 26) * (1 + number // 26)


def numbers(*names: str, format: Callable[[Any], str] = number) -> list[Column]:
    """Return columns of numbers that share a format."""
    return [Column(name, format, right=True) for name in names]


def text_columns(*names: str) -> list[Column]:
    """Return columns of text that a narrow terminal breaks into lines."""
    return [Column(name, wrap=True) for name in names]


def score(value: Score | float) -> str:
    """Format an accuracy in percent: `92.60 ± 0.41`, or 92.60 where there is no deviation."""
    return value.text() if isinstance(value, Score) else percent(value)


def gain(value: Score | float) -> str:
    """Format a difference of accuracies, in points, with its sign."""
    return value.text("+") if isinstance(value, Score) else f"{value:+.2f}"


def emphasise(places: Iterable[int], emphasis: Emphasis = "marked") -> dict[int, Emphasis]:
    """Return the emphasis of rows, by number."""
    return dict.fromkeys(places, emphasis)
