"""How well hyperparameters travel: chosen on all benchmarks of a search but one, and judged on this one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from tausearch.runs.objectives.aim import eligible
from tausearch.runs.parts.scores import Scales, score_of
from tausearch.runs.parts.spec import MultiSearchSpec
from tausearch.runs.parts.trials import MultiTrial, is_start, scales_of
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.trials import TrialSummary


@dataclass(frozen=True)
class LeaveOneOut:
    """One benchmark of a search on several, left out of the choice; accuracies on its validation images, percent."""

    title: str  # of the benchmark
    start: float | None  # accuracy of the search's start; None if the start was not finished
    trial: int  # the trial chosen on the other benchmarks
    accuracy: float  # its accuracy here
    best_trial: int  # the trial chosen here alone
    best: float  # its accuracy here, the highest of many noisy values and partly luck

    @property
    def lost(self) -> float:
        """What the choice on the others loses here, in points."""
        return self.best - self.accuracy

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `--format json` prints."""
        return {**asdict(self), "lost": self.lost}


def leave_one_out(spec: RunSpec, trials: Iterable[TrialSummary]) -> list[LeaveOneOut]:
    """Return each benchmark of a search left out in turn; empty for a search on one, or with fewer than 2 finished."""
    if not isinstance(spec, MultiSearchSpec):
        return []
    known = [trial for trial in trials if isinstance(trial, MultiTrial)]
    competing = [trial for trial in eligible(known, spec.aim) if isinstance(trial, MultiTrial)]
    if len(competing) < 2:
        return []
    scales = scales_of(spec, known)
    return [_without_benchmark(spec, competing, scales, place) for place in range(len(spec.parts))]


def _without_benchmark(
    spec: MultiSearchSpec, competing: Sequence[MultiTrial], scales: Scales, place: int
) -> LeaveOneOut:
    accuracy = {trial.number: trial.accuracies[place] or 0.0 for trial in competing}
    elsewhere = [other for other in range(len(spec.parts)) if other != place]
    others = min(competing, key=lambda each: (-score_of(scales, each.accuracies, place), *_tie(each, elsewhere))).number
    here = min(competing, key=lambda each: (-accuracy[each.number], *_tie(each, [place]))).number
    start = next((accuracy[trial.number] for trial in competing if is_start(spec, trial)), None)
    return LeaveOneOut(spec.titles[place], start, others, accuracy[others], here, accuracy[here])


def _tie(trial: MultiTrial, places: Sequence[int]) -> tuple[float, int]:
    """Return what decides between equal scores, as in a search: mean forgetting at some places, then the number."""
    parts = [part for part in (trial.parts[place] for place in places) if part is not None]
    return fmean(part.forgetting for part in parts), trial.number
