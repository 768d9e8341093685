"""Searchers: the sources of a run's trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from search_spaces import Scalar
from tausearch.runs import ReevaluationSpec, SearchSpec, Status, TrialSummary, TrialTable, reevaluation_of
from tausearch.studies.grid import grid_points, spread
from tausearch.studies.study import SearchStudy
from tausearch.studies.warm_start import without_repeats


class Searcher(Protocol):
    """A source of trials, which is told their results."""

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; None if there is none now.

        While trials are under way there may be one later. None when all have ended means that there are no more.
        """
        ...

    def report(self, number: int, step: int, value: float) -> bool:
        """Note a running trial's average accuracy after task `step`; returns whether the trial should stop."""
        ...

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a trial."""
        ...


class OptunaSearcher:
    """Trials of an Optuna study that is rebuilt from the record.

    The search's starting point comes first; of a grid, if it is one of its points. What is known from elsewhere comes
    next. A grid is the list of its points, handed to the study in order (spread, where only some of them are tried), so
    that every algorithm leaves the same kind of history.

    Args:
        spec: The specification of the search: its space, algorithm, scheduler, seed and number of trials.
        history: The trials that are known already, when a search is continued. Those that have not ended are handed out
            first, under their own numbers.
        trials: The table of all trials as the driver knows them; constraints are judged by what it has.
    """

    def __init__(
        self, spec: SearchSpec, history: Sequence[TrialSummary] = (), trials: TrialTable | None = None
    ) -> None:
        self.trials = TrialTable() if trials is None else trials
        self.study = SearchStudy(spec, [trial for trial in history if trial.status != "running"])
        self.unfinished = [trial for trial in history if trial.status == "running"]
        self.unused = iter(sorted(set(range(spec.trials)) - {trial.number for trial in history}))
        tried = [self.study.point(trial) for trial in history]
        for trial in self.unfinished:
            self.study.enqueue(self.study.point(trial))
        for point in points_ahead(spec):
            if point not in tried:
                self.study.enqueue(point)

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; see `Searcher`."""
        if self.unfinished:
            trial = self.unfinished.pop(0)
            hyperparameters = self.study.ask(trial.number)
            self.study.replay_rows(trial)
            return trial.number, hyperparameters
        number = next(self.unused, None)
        return None if number is None else (number, self.study.ask(number))

    def report(self, number: int, step: int, value: float) -> bool:
        """Note a running trial's accuracy; see `Searcher`."""
        return self.study.report(number, step, value)

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a trial; see `Searcher`."""
        self.study.tell(number, status, value, self.trials.get(number))


class FixedSearcher:
    """Trials of a fixed list: the seeds of a final run.

    Args:
        trials: Number and hyperparameters of each trial, in the order in which they are handed out.
    """

    def __init__(self, trials: Iterable[tuple[int, Mapping[str, Scalar]]]) -> None:
        self.left = [(number, dict(hyperparameters)) for number, hyperparameters in trials]

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; see `Searcher`."""
        return self.left.pop(0) if self.left else None

    def report(self, number: int, step: int, value: float) -> bool:
        """Return False: no seed is stopped early."""
        return False

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a trial; see `Searcher`."""


class ReevaluationSearcher:
    """The re-evaluations of a search, round by round; eliminated candidates have no more.

    Args:
        spec: The re-evaluations that are asked for.
        trials: The trials of the search, all of which have ended.
        runs: The re-evaluations that are known already, when a search is continued.
    """

    def __init__(self, spec: ReevaluationSpec, trials: Iterable[TrialSummary], runs: Iterable[TrialSummary]) -> None:
        self.spec = spec
        self.trials = {trial.number: trial for trial in trials}
        self.runs = {run.number: run for run in runs if run.status != "running"}
        self.out: set[int] = set()

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next re-evaluation; see `Searcher`."""
        standing = reevaluation_of(self.spec, self.trials.values(), list(self.runs.values()))
        for candidate, round_ in standing.race.wanted:
            number = self.spec.number(candidate, round_)
            if number not in self.out:
                self.out.add(number)
                return number, dict(self.trials[candidate].hyperparameters)
        return None

    def report(self, number: int, step: int, value: float) -> bool:
        """Return False: re-evaluations are compared by their last task."""
        return False

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a re-evaluation; see `Searcher`."""
        self.out.discard(number)
        seed, hyperparameters = self.spec.seed_of(number), self.trials[self.spec.candidate(number)].hyperparameters
        self.runs[number] = TrialSummary(number, seed, status, hyperparameters, value=value)


def points_ahead(spec: SearchSpec) -> list[dict[str, Scalar]]:
    """Return the points that a search tries before its algorithm proposes any, each once; for a grid all points."""
    grid = grid_points(spec.space) if spec.algorithm == "grid" else []
    start = [spec.start] if spec.algorithm != "grid" or spec.start in grid else []
    first = without_repeats([*start, *(known.point for known in spec.warm_start)])
    return without_repeats([*first, *spread(grid, first, spec.trials, spec.seed)])
