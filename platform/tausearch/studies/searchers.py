"""Searchers: the sources of a run's trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from search_spaces import Scalar
from tausearch.runs import ReevaluationSpec, SearchSpec, Status, TrialSummary, TrialTable, cut_short, reevaluation_of
from tausearch.studies.grid import grid_points, spread_order
from tausearch.studies.study import SearchStudy
from tausearch.studies.warm_start import without_repeats


class Searcher:
    """A source of trials, which learns their results. By default it stops no trial, and notes no end."""

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; None if it must wait for others, or none are left."""
        raise NotImplementedError

    def report(self, number: int, step: int, value: float) -> bool:
        """Note a running trial's average accuracy after task `step`; returns whether the trial should stop."""
        return False

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a trial."""


class OptunaSearcher(Searcher):
    """Trials of an Optuna study that is rebuilt from the record.

    Unfinished trials come first, under their own numbers, then `points_to_evaluate`. A grid has these points alone, so
    every algorithm leaves the same kind of history. `trials` is the driver's table of all, by which constraints and the
    end of the search are judged.
    """

    def __init__(
        self, spec: SearchSpec, history: Sequence[TrialSummary] = (), trials: TrialTable | None = None
    ) -> None:
        self.spec = spec
        self.trials = TrialTable() if trials is None else trials
        self._waiting: list[TrialSummary] = []  # handed out, and not started by Tune yet
        points = points_to_evaluate(spec)
        self.study = SearchStudy(spec, history, points)
        self.unfinished = [trial for trial in history if trial.status == "running"]
        self.unused = iter(sorted(set(range(spec.trials)) - {trial.number for trial in history}))
        tried = [self.study.point(trial) for trial in history]
        self.points_to_evaluate = [point for point in points if point not in tried]

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; see `Searcher`."""
        if self.unfinished:
            trial = self.unfinished.pop(0)
            return trial.number, self.study.point(trial)
        self._waiting = [trial for trial in self._waiting if self.trials.get(trial.number) is None]
        number = None if cut_short(self.spec, chain(self.trials, self._waiting)) else next(self.unused, None)
        if number is None:
            return None
        if self.points_to_evaluate:
            self.study.enqueue(self.points_to_evaluate.pop(0))
        point = self.study.ask(number)
        self._waiting.append(TrialSummary(number, self.spec.seed_of(number), "running", point))
        return number, point

    def report(self, number: int, step: int, value: float) -> bool:
        """Note a running trial's accuracy; see `Searcher`."""
        return self.study.report(number, step, value)

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a trial; see `Searcher`."""
        self.study.tell(number, status, value, self.trials.get(number))


class FixedSearcher(Searcher):
    """Trials of a fixed list: the seeds of a final run, as number and hyperparameters."""

    def __init__(self, trials: Iterable[tuple[int, Mapping[str, Scalar]]]) -> None:
        self.left = [(number, dict(hyperparameters)) for number, hyperparameters in trials]

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; see `Searcher`."""
        return self.left.pop(0) if self.left else None


class ReevaluationSearcher(Searcher):
    """The re-evaluations of a search, round by round, until a candidate is eliminated.

    They are compared by their last task, so none is stopped early. `trials` are those of the search, all of which have
    ended; `reevaluations` is the driver's table of all re-evaluations, with those of earlier drivers.
    """

    def __init__(self, spec: ReevaluationSpec, trials: Iterable[TrialSummary], reevaluations: TrialTable) -> None:
        self.spec = spec
        self.table = reevaluations
        self.trials = {trial.number: trial for trial in trials}
        # The race wants the unfinished ones again.
        self.reevaluations = {trial.number: trial for trial in reevaluations}
        self.given: set[int] = set()

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next re-evaluation; see `Searcher`."""
        reevaluation = reevaluation_of(self.spec, self.trials.values(), list(self.reevaluations.values()))
        for candidate, round_ in reevaluation.race.wanted:
            number = self.spec.number(candidate, round_)
            if number not in self.given:
                self.given.add(number)
                return number, dict(self.trials[candidate].hyperparameters)
        return None

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Note the end of a re-evaluation; see `Searcher`."""
        known = self.table.get(number)  # with its rows, by which objectives compare
        if known is None:
            hyperparameters = self.trials[self.spec.candidate(number)].hyperparameters
            known = TrialSummary(number, self.spec.seed_of(number), status, hyperparameters)
        self.reevaluations[number] = replace(known, status=status, value=value)


def points_to_evaluate(spec: SearchSpec) -> list[dict[str, Scalar]]:
    """Return the points that a search tries before its algorithm proposes any, each once.

    The start comes first (in a grid, if it is one of the points), then the warm start, then all points of a grid.
    """
    grid = grid_points(spec.space) if spec.algorithm == "grid" else []
    start = [spec.start] if spec.algorithm != "grid" or spec.start in grid else []
    first = without_repeats([*start, *(known.point for known in spec.warm_start)])
    return without_repeats([*first, *spread_order(grid, first, spec.trials, spec.seed)])
