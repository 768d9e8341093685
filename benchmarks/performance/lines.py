"""A line of the table of performance: what is measured, its value, its limit and its floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Sequence[Mapping[str, Any]]  # what a benchmark returns
Values = Callable[[Rows], Mapping[str, float]]  # picks values from the rows: label to value
HEADER = ("what", "measured", "limit", "floor")
LISTED = 3  # more values are shown as a range


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line."""

    what: str  # what is measured
    values: Values  # picks the values and names each; a name may be empty
    unit: str = ""  # follows each number, with its space
    shown: str = ".2f"  # format of a number
    at_most: float | None = None  # the limit of each value, where less is better
    at_least: float | None = None  # the limit of each value, where more is better
    floor: str = ""  # what cannot be beaten, or whose the measured floor is
    floors: Values | None = None  # picks a floor that is measured in the same run

    def cells(self, rows: Rows) -> tuple[str, str, str, str]:
        """Return the cells under `HEADER`."""
        values = self.values(rows)
        measured, limit = self._shown(values) or "not measured", self._limit(list(values.values()))
        if self.floors is None:
            return self.what, measured, limit, self.floor
        floor = self._shown(self.floors(rows))
        return self.what, measured, limit, f"{floor}, {self.floor}" if floor else ""

    def _shown(self, values: Mapping[str, float]) -> str:
        if len(values) > LISTED:
            ends = min(values.values()), max(values.values())
            return " to ".join(dict.fromkeys(f"{end:{self.shown}}" for end in ends)) + self.unit
        return ", ".join(
            f"{value:{self.shown}}{self.unit}{f' ({label})' if label else ''}" for label, value in values.items()
        )

    def _limit(self, values: Sequence[float]) -> str:
        if self.at_most is not None:
            limit, met = f"{self.at_most:g}", all(value <= self.at_most for value in values)
        elif self.at_least is not None:
            limit, met = f"at least {self.at_least:g}", all(value >= self.at_least for value in values)
        else:
            return ""
        return f"{limit}{self.unit}{'' if met else ', not met'}"


def column(value: str, by: str = "", times: float = 1.0, **where: Any) -> Values:
    """Return a picker of a column's values.

    Args:
        value: The column.
        by: The column whose cell names the value; empty for values without a name.
        times: Factor.
        where: Cells that a row must have.
    """

    def pick(rows: Rows) -> dict[str, float]:
        chosen = [row for row in rows if all(row.get(name) == cell for name, cell in where.items())]
        return {_label(row[by]) if by else "": times * row[value] for row in chosen if value in row}

    return pick


def _label(cell: Any) -> str:
    return f"{cell:.2g}" if isinstance(cell, float) else f"`{cell}`"
