"""Trials on several benchmarks, put together from their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tausearch.runs.parts.scores import Scale, Scales, score_of
from tausearch.runs.parts.spec import MultiSearchSpec, PartsSpec, parts_of
from tausearch.runs.record.record import Record
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.specs.search import SearchSpec
from tausearch.runs.trials import Status, TrialSummary
from trainables.metrics import CACHE_HIT, PEAK_GPU_BYTES, TRAIN_LOSS, WAITING, MetricNames, is_seconds

_FAULTS: tuple[Status, ...] = ("failed", "diverged", "pruned")  # a part that ended so ends its trial


@dataclass
class MultiTrial(TrialSummary):
    """One configuration on several benchmarks; see `TrialSummary` for the other fields.

    A row belongs to a benchmark, once all before it are finished, too: accuracies in percent, those of `task_k` on
    benchmark k, the others means over the benchmarks so far. They never change; `value` and `scores` do.
    """

    parts: tuple[TrialSummary | None, ...] = ()  # by the places of their benchmarks; None for one not started
    scores: tuple[float, ...] = ()  # after each row: the mean over the benchmarks so far

    @property
    def accuracies(self) -> tuple[float | None, ...]:
        """Final accuracy on each benchmark, percent; None for one that is not finished."""
        return tuple(_accuracy(part) for part in self.parts)

    @property
    def measured_rows(self) -> Sequence[Mapping[str, float]]:
        """The rows of all parts: a bound must hold on every benchmark."""
        return [row for part in self.parts if part is not None for row in part.rows]

    def judged(self, metric_names: MetricNames) -> list[dict[str, float]]:
        """Return the rows with the score in place of the average accuracy."""
        return [
            {**row, metric_names.average_accuracy: score} for row, score in zip(self.rows, self.scores, strict=True)
        ]


def combine_parts(
    spec: PartsSpec, parts: Iterable[TrialSummary], scales: Scales | None = None, known: Mapping[int, MultiTrial] = {}
) -> list[MultiTrial]:
    """Return the trials of all parts that have started, by number.

    `scales` are by default those of these trials. Rows of earlier summaries, `known`, are kept: listeners know them.
    """
    found: dict[int, list[TrialSummary | None]] = defaultdict(lambda: [None] * spec.count)
    for part in parts:
        found[spec.trial_of(part.number)][spec.place_of(part.number)] = part
    trials = [_combined(spec, number, found[number], known.get(number)) for number in sorted(found)]
    used = scales_of(spec.search, trials) if scales is None else scales
    return [_scored(trial, used) for trial in trials]


def recorded_trials(spec: RunSpec, record: Record, scales: Scales | None = None) -> list[TrialSummary]:
    """Return the trials of a run's record, put together where they have parts; see `combine_parts`."""
    parts, trials = parts_of(spec), record.trials()
    return trials if parts is None else list(combine_parts(parts, trials, scales))


def scales_of(search: MultiSearchSpec, trials: Sequence[MultiTrial]) -> Scales:
    """Return the scale of each benchmark, from all trials that have finished it."""
    started = [trial for trial in trials if is_start(search, trial)]
    scales = []
    for place in range(len(search.parts)):
        start = next((each for trial in started if (each := trial.accuracies[place]) is not None), None)
        known = (each for trial in trials if (each := trial.accuracies[place]) is not None)
        scales.append(Scale.of(search.across, start, known))
    return scales


def is_start(search: SearchSpec, trial: TrialSummary) -> bool:
    """Whether a trial has the configuration that the search tries first."""
    return all(trial.hyperparameters.get(name) == value for name, value in search.start.items())


def _combined(
    spec: PartsSpec, number: int, parts: Sequence[TrialSummary | None], known: MultiTrial | None
) -> MultiTrial:
    begun = next(part for part in parts if part is not None)
    done = [] if known is None else known.rows
    rows = [*done, *list(_rows(spec.metrics, parts))[len(done) :]]
    faulty = next((part for each in _FAULTS for part in parts if part is not None and part.status == each), None)
    status: Status = "complete" if len(rows) == spec.count else "running" if faulty is None else faulty.status
    error = None
    if faulty is not None and faulty.error is not None:
        error = f"{spec.search.titles[spec.place_of(faulty.number)]}: {faulty.error}"
    return MultiTrial(number, begun.seed, status, begun.hyperparameters, rows, None, error, tuple(parts))


def rescored(trials: Iterable[TrialSummary], scales: Scales | None) -> list[TrialSummary]:
    """Return trials with the finished ones on other scales; None leaves them as they are."""
    return [
        _scored(trial, scales)
        if scales is not None and isinstance(trial, MultiTrial) and None not in trial.accuracies
        else trial
        for trial in trials
    ]


def _scored(trial: MultiTrial, scales: Scales) -> MultiTrial:
    accuracies = trial.accuracies
    counted = [score_of(scales[: done + 1], accuracies[: done + 1]) for done in range(len(trial.rows))]
    value = counted[-1] if trial.status == "complete" else None
    return replace(trial, scores=tuple(counted), value=value)


def _rows(metric_names: MetricNames, parts: Sequence[TrialSummary | None]) -> Iterator[dict[str, float]]:
    """Yield the row of each benchmark that is finished, up to the first that is not."""
    done: list[TrialSummary] = []
    for place, part in enumerate(parts, start=1):
        if part is None or _accuracy(part) is None:
            return
        done.append(part)
        accuracies = [each.value or 0.0 for each in done]
        row = {"task": float(place), metric_names.average_accuracy: round(fmean(accuracies), 9)}
        row |= {metric_names.accuracy(k): value for k, value in enumerate(accuracies, start=1)}
        if place == len(parts):
            row[metric_names.final_accuracy] = row[metric_names.average_accuracy]
        for name in (
            metric_names.pooled_accuracy,
            metric_names.average_incremental_accuracy,
            metric_names.forgetting,
            *metric_names.removability,
        ):
            if all(name in each.final for each in done):
                row[name] = round(fmean(each.final[name] for each in done), 9)
        yield row | _costs(part)


def _costs(part: TrialSummary) -> dict[str, float]:
    """Return the loss, the seconds of each stage, the memory of a part, and whether the cache had all that it needs."""
    found: dict[str, float] = {TRAIN_LOSS: part.final[TRAIN_LOSS]} if TRAIN_LOSS in part.final else {}
    for row in part.rows:
        for name, value in row.items():
            if is_seconds(name) or name == WAITING:
                found[name] = found.get(name, 0.0) + value
            elif name == PEAK_GPU_BYTES:
                found[name] = max(found.get(name, 0.0), value)
            elif name == CACHE_HIT:
                found[name] = min(found.get(name, 1.0), value)
    return found


def _accuracy(part: TrialSummary | None) -> float | None:
    return part.value if part is not None and part.status == "complete" else None
