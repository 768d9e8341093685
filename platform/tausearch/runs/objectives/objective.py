"""An objective of a search: a metric of its trials, and whether more or less of it is better (`--objective`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isfinite

from checked_input.names import choices
from checked_input.schema import Strict
from checked_input.text_files import shown
from tausearch.runs.constraints import SECONDS, Direction, metric_kind, short_name
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError
from trainables.metrics import PEAK_GPU_BYTES, VALIDATION

ACCURACY = VALIDATION.final_accuracy
KNEE = "knee"
_BYTES = "bytes"  # short for the memory of a GPU


class Objective(Strict):
    """A metric that a search aims at: a name in the last row of a trial, or "seconds" for the whole trial."""

    metric: str
    direction: Direction

    @property
    def name(self) -> str:
        """The metric without `val/`, as users give it."""
        return short_name(self.metric)

    @property
    def unit(self) -> str:
        """The unit of the metric."""
        return metric_kind(self.metric).unit

    @property
    def label(self) -> str:
        """The name with the unit, as at an axis."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def difference(self) -> str:
        """The unit of a difference."""
        return "points" if self.unit == "%" else self.unit

    def value(self, trial: TrialSummary) -> float | None:
        """Return the metric of a trial, in its unit; None unless the trial is complete and has a finite one."""
        if trial.status != "complete" or trial.value is None:
            return None
        value = self._metric_value(trial)
        return value if value is not None and isfinite(value) else None

    def _metric_value(self, trial: TrialSummary) -> float | None:
        if self.metric == SECONDS:
            return trial.own_seconds
        if self.metric == PEAK_GPU_BYTES:
            return max((row[self.metric] for row in trial.rows if self.metric in row), default=None)
        return trial.final.get(self.metric)

    def goodness(self, trial: TrialSummary) -> float | None:
        """Return the metric of a trial with the sign that makes more of it better; None as `value`."""
        value = self.value(trial)
        return None if value is None else self.signed(value)

    def signed(self, value: float) -> float:
        """Return a value with the sign that makes more of it better; the same call leads back."""
        return value if self.direction == "maximize" else -value

    def target_fault(self, target: float) -> str | None:
        """Return why a target ends no search, or every one; None where trials may differ in reaching it."""
        low, high, *_ = metric_kind(self.metric)
        if self.signed(target) > max(self.signed(low), self.signed(high)):
            says = "no trial can reach it"
        elif self.signed(target) <= min(self.signed(low), self.signed(high)):
            says = "every trial reaches it"
        else:
            return None
        return f"{says}; {self.name} goes from {low:g} to {high:g} {self.unit}".rstrip()

    def text(self, value: float | None) -> str:
        """Return a value with its unit, such as `93.20 %`."""
        return "not measured" if value is None else f"{self.number(value)} {self.unit}".rstrip()

    @staticmethod
    def number(value: float) -> str:
        """Return a value without its unit; bytes are many."""
        return f"{value:.2f}" if abs(value) < 1e5 else f"{value:.4g}"

    @property
    def aim(self) -> str:
        """The objective in words: `more final_accuracy`."""
        return f"{'more' if self.direction == 'maximize' else 'less'} {self.name}"


FINAL_ACCURACY = Objective(metric=ACCURACY, direction="maximize")


def objectives_of(texts: Sequence[str], metrics: Collection[str]) -> tuple[Objective, ...]:
    """Return the objectives that a user names, with the direction of each; none for the final accuracy alone.

    In `texts`, `val/` can be left out, and `bytes` is the peak memory of a GPU.

    Raises:
        InputError: If a metric is unknown, named twice, or neither more nor less of it is better.
    """
    names = {short_name(name): name for name in [*metrics, SECONDS]}
    names = {name: metric for name, metric in names.items() if metric_kind(metric).direction is not None}
    found: list[Objective] = []
    for text in texts:
        short = short_name(str(text).strip())
        metric = names.get(short, PEAK_GPU_BYTES if short == _BYTES and PEAK_GPU_BYTES in metrics else None)
        direction = None if metric is None else metric_kind(metric).direction
        if metric is None or direction is None:
            why = "trials on a CPU report no memory of a GPU" if short == _BYTES else choices(short, names)
            raise InputError(f"--objective {shown(str(text), 60)}: unknown metric; {why}")
        if any(each.metric == metric for each in found):
            raise InputError(f"--objective {short}: is given twice")
        found.append(Objective(metric=metric, direction=direction))
    return () if [each.metric for each in found] == [ACCURACY] else tuple(found)


def preferred(text: str | None, objectives: Sequence[Objective]) -> str:
    """Return the rule that chooses a point of the front: "knee", or the full name of one of several objectives."""
    if text is None:
        return KNEE
    if len(objectives) < 2:
        raise InputError(
            f"--prefer {shown(text, 60)}: goes with two --objective or more, to choose a point of the front"
        )
    names = {KNEE: KNEE, **{each.name: each.metric for each in objectives}}
    found = names.get(short_name(text))
    if found is None:
        raise InputError(f"--prefer {shown(text, 60)}: {choices(text, names)}")
    return found
