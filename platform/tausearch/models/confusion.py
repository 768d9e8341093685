"""Count which class is predicted for the images of each true class, where the true class is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tausearch.models.model import Prediction


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix; empty if no true class is known.

    Attributes:
        classes: The classes that are true for an image or predicted for one whose true class is known.
        counts: Number of images; a line for each true class, a column for each predicted one.
    """

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, classes: Sequence[str], predictions: Iterable[Prediction]) -> Confusion:
        """Count predictions; `classes` gives the order."""
        pairs = Counter((each.true_label, each.label) for each in predictions if each.true_label is not None)
        seen = {name for pair in pairs for name in pair}
        shown = tuple(name for name in classes if name in seen)
        return cls(shown, tuple(tuple(pairs[true, predicted] for predicted in shown) for true in shown))

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(map(sum, self.counts))

    @property
    def right(self) -> int:
        """Number of images that are predicted as their true class."""
        return sum(line[place] for place, line in enumerate(self.counts))

    def mistakes(self, true: int) -> list[tuple[str, int]]:
        """Return the wrong classes that images of a class, by its place, are taken for: the most frequent first."""
        line = self.counts[true]
        wrong = [(self.classes[n], count) for n, count in enumerate(line) if count and n != true]
        return sorted(wrong, key=lambda pair: -pair[1])
