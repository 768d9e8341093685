"""The searchers of a search on several benchmarks: one proposes its trials, the other hands out their parts."""

from __future__ import annotations

from collections.abc import Iterable

from search_spaces import Scalar
from tausearch.runs import MultiSearchSpec, MultiTrial, PartsSpec, Status, TrialSummary, TrialTable, cut_short
from tausearch.studies.searchers import ReevaluationSearcher, Searcher, points_to_evaluate
from tausearch.studies.study import SearchStudy


class MultiSearcher(Searcher):
    """Trials of Optuna studies, each made from the record when a trial is asked for.

    The values of all trials change with every result, and a study cannot be told another value later. So what is
    proposed depends on the search's seed, the trial's number and the trials so far, and a killed search goes on with
    the same points. `trials` is the driver's table, with their present values. One accuracy says nothing, so `report`
    stops no trial; `should_stop` knows the scores.
    """

    def __init__(self, spec: MultiSearchSpec, trials: TrialTable) -> None:
        self.spec = spec
        self.trials = trials
        self._points_to_evaluate = points_to_evaluate(spec)
        self._begun = {trial.number: dict(trial.hyperparameters) for trial in trials}

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; see `Searcher`."""
        number = next((each for each in range(self.spec.trials) if each not in self._begun), None)
        if number is None or cut_short(self.spec, history := self._history()):
            return None
        tried = [{name: point[name] for name in self.spec.space} for point in self._begun.values()]
        point = next((point for point in self._points_to_evaluate if point not in tried), None)
        study = SearchStudy(self.spec, [] if point is not None else history, self._points_to_evaluate)
        if point is not None:
            study.enqueue(point)
        self._begun[number] = study.ask(number)
        return number, dict(self._begun[number])

    def should_stop(self, number: int) -> bool:
        """Whether a running trial should stop after the benchmarks that it has finished."""
        trial = self.trials.get(number)
        if trial is None or not trial.rows or self.spec.scheduler == "none":
            return False
        others = [each for each in self._history() if each.number != number]
        study = SearchStudy(self.spec, others, self._points_to_evaluate)
        study.ask_again(number, study.point(trial))
        return study.last_report(trial)

    def _history(self) -> list[TrialSummary]:
        """Return all trials that have begun, by number; Tune has not started some of them yet."""
        known = {trial.number: trial for trial in self.trials}
        for number, point in self._begun.items():
            known.setdefault(number, MultiTrial(number, self.spec.seed_of(number), "running", point))
        return [known[number] for number in sorted(known)]


class PartSearcher(Searcher):
    """The parts of the trials that another searcher proposes.

    Unfinished trials come first. All parts of a trial are handed out one after the other, so that they run side by
    side. If trials may be stopped early, a part waits until the benchmark before it is finished. `trial_searcher`
    proposes the trials; both tables are the driver's.
    """

    def __init__(self, spec: PartsSpec, trial_searcher: Searcher, parts: TrialTable, trials: TrialTable) -> None:
        self.spec = spec
        self.trial_searcher = trial_searcher
        self.parts = parts
        self.trials = trials
        self._given: set[int] = set()
        # The race names unfinished re-evaluations again, if it still wants them.
        begun = () if isinstance(trial_searcher, ReevaluationSearcher) else trials
        self._points = {trial.number: dict(trial.hyperparameters) for trial in begun}
        self._one_by_one = spec.side_by_side == 1

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next part; see `Searcher`."""
        for trial, point in sorted(self._points.items()):
            if (number := self._part_of(trial)) is not None:
                return self._give(number, point)
        while (found := self.trial_searcher.next()) is not None:
            self._points.setdefault(*found)
            if (number := self._part_of(found[0])) is not None:
                return self._give(number, found[1])
        return None

    def report(self, number: int, step: int, value: float) -> bool:
        """Return whether a part should stop: if another part has ended its trial."""
        trial = self.trials.get(self.spec.trial_of(number))
        return trial is not None and trial.status not in ("running", "complete")

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Tell the searcher of the trials if a part ends its trial; the tables know of the part already."""
        trial = self.trials.get(self.spec.trial_of(number))
        ended: Status = "running" if trial is None else trial.status
        if ended == "running" and status != "complete":
            ended = status  # the table knows of it a moment later
        if ended != "running":
            self.trial_searcher.finish(self.spec.trial_of(number), ended, None if trial is None else trial.value)

    def _give(self, number: int, point: dict[str, Scalar]) -> tuple[int, dict[str, Scalar]]:
        self._given.add(number)
        return number, dict(point)

    def _part_of(self, trial: int) -> int | None:
        """Return the next part of a trial that has begun; None if it must wait, or has none left."""
        known = self.trials.get(trial)
        if known is not None and known.status != "running":
            return None
        for place in range(self.spec.count):
            number = self.spec.number(trial, place)
            part = self.parts.get(number)
            ended = part is not None and part.status != "running"
            if not ended and number not in self._given:
                return number
            if self._one_by_one and not ended:
                return None
        return None


def stopped_parts(spec: PartsSpec, trial: MultiTrial) -> Iterable[TrialSummary]:
    """Yield what the record says of the parts that a trial lost because it was stopped: pruned, without a task."""
    for place, part in enumerate(trial.parts):
        if part is None:
            yield TrialSummary(spec.number(trial.number, place), trial.seed, "pruned", dict(trial.hyperparameters))
