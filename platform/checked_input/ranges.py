"""Ranges of numbers and limits of texts from users: the same for command-line options, Python calls and files.

The upper limits are far beyond any machine. They refuse a typing error, or a foreign file, in one line before any work
starts and before memory runs out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checked_input.text_files import shown

LONGEST_TEXT = 4096  # characters; as long as a path may be


@dataclass(frozen=True)
class NumberRange:
    """A range of numbers, both ends included and finite; messages name the unit."""

    low: float
    high: float
    whole: bool = True
    unit: str = ""

    @property
    def words(self) -> str:
        """The allowed values, in words."""
        unit = f" {self.unit}" if self.unit else ""
        return f"a {'whole ' if self.whole else ''}number from {self.low:.12g} to {self.high:.12g}{unit}"

    def fault(self, value: object) -> str | None:
        """Return the fault of a value, such as `must be a number from 1 to 9, got 0`; None without a fault."""
        number = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        if number and self.low <= value <= self.high:  # type: ignore[operator]
            return None
        return f"must be {self.words}, got {shown(value, 40)}"

    def checked(self, value: float) -> float:
        """Return a value in the range; another value is a ValueError."""
        if fault := self.fault(value):
            raise ValueError(fault)
        return value


TRIALS = NumberRange(1, 100_000)  # file names have five digits
CONCURRENT = NumberRange(1, 100_000)
SEED = NumberRange(0, 2**32 - 1)  # numpy's and scikit-learn's
THREADS = NumberRange(1, 4096)
GIGABYTES = NumberRange(0, 1e6, whole=False, unit="gigabytes")
TIME = NumberRange(0.001, 10 * 366 * 86400.0, whole=False, unit="seconds")
REEVALUATED = NumberRange(1, 1000)
REEVALUATE = NumberRange(0, 1000)  # as users give it: 0 re-evaluates nothing
ROUNDS = NumberRange(1, 100)
TASKS = NumberRange(1, 100_000)
IMAGE_BYTES = NumberRange(1, 2**31)  # of one image file
CLASSES_PER_TASK = NumberRange(2, 100_000)
VALUE = NumberRange(-1e15, 1e15, whole=False)  # of a metric: percent, seconds or bytes
EPOCHS = NumberRange(1, 100_000)
BATCH = NumberRange(1, 1_000_000)
SHARE = NumberRange(0, 1, whole=False)
WEIGHT = NumberRange(-1e6, 1e6, whole=False)
MOST_SEEDS = 1000


def different_fault(numbers: Sequence[int]) -> str | None:
    """Return the fault of a list of seeds: that it is empty, too long, or has one twice; None without a fault."""
    if 0 < len(set(numbers)) == len(numbers) <= MOST_SEEDS:
        return None
    return f"must be 1 to {MOST_SEEDS} different numbers, got {shown(list(numbers))}"


def text_fault(text: str) -> str | None:
    """Return the fault of a user's text, such as `must not be empty`; None without a fault."""
    if not text.strip():
        return "must not be empty"
    if len(text) > LONGEST_TEXT:
        return f"must have at most {LONGEST_TEXT} characters, has {len(text)}"
    if not text.isprintable():
        return f"must be a line of printable characters, got {shown(text)}"
    return None
