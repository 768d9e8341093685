"""Search the hyperparameters of a method on a benchmark."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import optuna

from tausearch.api.bounds import RunWithBounds, as_beside, bound_search, bounds_of
from tausearch.api.finishing import conclude
from tausearch.api.plans.new_runs import say_if_unwritable
from tausearch.api.plans.searches import plan_search
from tausearch.api.requests import SearchRequest, allow_named, with_fields_of
from tausearch.cluster import require_room_at, with_measured_gpu_share
from tausearch.execution import DriveOptions, Preview, Run, drive, interruptible, preview_plan
from tausearch.presentation import notebook_cell, print_notices, reevaluation_table, stream_of, trials_table
from tausearch.runs import (
    BesideBounds,
    Conclusion,
    Ending,
    Gain,
    LeaveOneOut,
    Plan,
    Record,
    Reevaluation,
    ReevaluationSpec,
    RunDirectory,
    RunResult,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
    Verdict,
    combine_parts,
    ending_of,
    leave_one_out,
    parts_of,
    read_reevaluation,
    read_spec,
    recorded_trials,
    reevaluation_of,
    scales_within,
)
from tausearch.studies import (
    BestFile,
    BestListener,
    MultiSearcher,
    MultiStudyMirror,
    OptunaSearcher,
    PartTuneTrials,
    ReevaluationSearcher,
    StudyMirror,
    TrialListener,
    TuneTrials,
    load_best,
    points_to_evaluate,
    study_of,
    warm_start_lines,
)
from tausearch.tracking import BestFileWritten, ChoiceChanged, callbacks_of


@dataclass(frozen=True, repr=False)
class SearchResult(RunResult):
    """The result of a search.

    Attributes:
        best: The chosen configuration; None if no trial finished.
        best_file: The file with the chosen configuration.
        reevaluation: The result of the fresh runs of the best trials; None if none were asked for.
        ending: Why the trials have ended, or what stopped the driver; None if a failure of the storage did.
    """

    best: BestFile | None
    best_file: Path | None
    reevaluation: Reevaluation | None
    ending: Ending | None = None

    @property
    def front(self) -> list[TrialSummary]:
        """The finished trials that no other beats in all objectives; by default in final accuracy and forgetting."""
        return self._spec.aim.front(self.trials)

    @property
    def gain(self) -> Gain | None:
        """How much better the chosen trial is than the start, by the metric that chose it.

        None if a knee chose it, or the start did not finish.
        """
        selection = None if self.best is None else self.best.selection
        return None if selection is None else selection.gain

    @property
    def bounds(self) -> BesideBounds | None:
        """The chosen accuracy beside chance, `probe` and `joint`; None if no trial finished."""
        return bounds_of(RunDirectory(self.path))

    @property
    def left_out(self) -> list[LeaveOneOut]:
        """Each of several benchmarks left out of the choice in turn; empty for a search on one."""
        return leave_one_out(self._spec, self.trials)

    @property
    def study(self) -> optuna.Study:
        """The trials that have ended as an Optuna study in memory, for Optuna's own plots and importances."""
        return study_of(self._spec, [trial for trial in self.trials if trial.has_ended])

    @property
    def _spec(self) -> SearchSpec:
        spec = read_spec(RunDirectory(self.path))
        assert isinstance(spec, SearchSpec), "the result is of a search"
        return spec

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: what was gained, the trials, their fresh runs, and the history as a picture."""
        directory = RunDirectory(self.path)
        chosen = None if self.best is None or self.best.selection is None else self.best.selection.trial
        gained = [] if self.gain is None else [f"chosen: trial {chosen}, {self.gain}"]
        tables = [trials_table(self._spec, self.trials, chosen).without_empty()]
        if self.reevaluation is not None and self.reevaluation.runs:
            tables.append(reevaluation_table(self.reevaluation))
        return notebook_cell([self.in_words, *gained], tables, [directory.figures / "history.png"])


def search_with(request: SearchRequest) -> SearchResult:
    """Search the hyperparameters of a method on a benchmark, judged on the validation split.

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: Before any work, if something in the request or the space is wrong.
    """
    allow_named(request)
    options = request.drive_options()
    plan = plan_search(request)
    out = stream_of(request.progress_to)
    plan = with_measured_gpu_share(plan, request.address, out, request.time_budget)
    with interruptible(), plan.open_locked() as (spec, directory):
        for line in warm_start_lines(spec, points_to_evaluate(spec) if spec.warm_start else []):
            print(line, file=out, flush=True)
        return run_search(SearchRun(spec, plan.storage, directory), options)


search = with_fields_of(SearchRequest, search_with)


def preview_search_with(request: SearchRequest) -> Preview:
    """Return the trials that `search` would run, their origin, and estimates of time and memory. Nothing is started.

    Returns:
        The preview; `print` shows it.

    Raises:
        InputError: If something in the request or the space is wrong.
    """
    allow_named(request)
    callbacks_of(request.callbacks)  # refuses wrong ones
    plan = plan_search(request, write=False)
    say_if_unwritable(plan.storage)
    require_room_at(request.address, plan.spec.resources)
    return preview_plan(plan, request.address)


preview_search = with_fields_of(SearchRequest, preview_search_with)


def run_search(run: SearchRun, options: DriveOptions | None = None) -> SearchResult:
    """Drive a search, and its bounds if it asks for them, until all is over or stopped; returns the result."""
    result = drive(run, options)
    file = run.directory.best_file if run.directory.best_file.exists() else None
    best = None if file is None else load_best(file)
    reevaluation = run.reevaluation(result.trials)
    ending = ending_of(run.spec, run.directory, result.trials)
    return SearchResult(**vars(result), best=best, best_file=file, reevaluation=reevaluation, ending=ending)


class SearchRun(RunWithBounds):
    """A search while its trials run; it continues where the record ends."""

    spec: SearchSpec

    def __init__(self, spec: SearchSpec, storage: Storage, directory: RunDirectory) -> None:
        tune_trials, trials, self._mirror = _tune_trials_of(spec, directory)
        reevaluations = TrialTable(_reevaluations(spec, directory, trials))
        best = BestListener(spec, directory, trials, reevaluations, self.chose)
        own: list[TrialListener] = [best, self._mirror]
        super().__init__(
            spec, storage, directory, tune_trials.searcher, trials, own_listeners=own, tune_trials=tune_trials
        )
        self._choice: tuple[int, Verdict | None] | None = None  # that callbacks were told last

    @classmethod
    def open_locked(cls, plan: Plan[SearchSpec], locks: ExitStack) -> SearchRun:
        """Make or continue a planned search; its lock goes into the stack."""
        spec, directory = locks.enter_context(plan.open_locked())
        return cls(spec, plan.storage, directory)

    def is_over(self, trials: list[TrialSummary]) -> bool:
        """Whether all trials and re-evaluations have ended."""
        if not super().is_over(trials):
            return False
        reevaluation = self.reevaluation(trials)
        return reevaluation is None or reevaluation.race.over

    def reevaluation(self, trials: list[TrialSummary]) -> Reevaluation | None:
        """Return how far the re-evaluation of the best trials is; None if the search asks for none."""
        return read_reevaluation(self.spec, self.directory.reevaluation, trials)

    def follow_up(self) -> Run | None:
        """Return the re-evaluation of the best trials, if the search asks for one."""
        return None if self.spec.reevaluate is None else ReevaluationRun(self)

    def open_bound(self, method: str, locks: ExitStack) -> SearchRun:
        """Open the bound of a method; its lock goes into the stack."""
        plan = plan_search(bound_search(self.spec, method, self.storage))
        return SearchRun.open_locked(as_beside(plan, self.spec), locks)

    def conclude(self, trials: list[TrialSummary]) -> Conclusion:
        """Write study file, figures and best file."""
        self._mirror.conclude()
        conclusion = conclude(self.spec, self.directory, trials)
        if conclusion.chosen is not None:
            reevaluation = self.reevaluation(trials)
            self.chose(conclusion.chosen, None if reevaluation is None else reevaluation.verdict)
        return conclusion

    def chose(self, trial: TrialSummary, verdict: Verdict | None) -> None:
        """Tell callbacks that the best file was written, and first the choice in it, if it is another than before."""
        if (trial.number, verdict) != self._choice:
            self._choice = trial.number, verdict
            self.announce(ChoiceChanged(self.info, trial, verdict))
        self.announce(BestFileWritten(self.info, self.directory.best_file))


class ReevaluationRun(Run):
    """The re-evaluation of a search's best trials; the search's best file has the result."""

    def __init__(self, search: SearchRun) -> None:
        spec, directory = ReevaluationSpec.of(search.spec), search.directory.reevaluation
        candidates = reevaluation_of(spec, search.trials, ()).race.candidates
        spec = spec.model_copy(update={"trials": max(1, len(candidates) * spec.reevaluate.runs)})
        trials = TrialTable(_reevaluations(search.spec, search.directory, search.trials))
        searcher, tune_trials, parts = ReevaluationSearcher(spec, search.trials, trials), None, parts_of(spec)
        if parts is not None:
            begun = TrialTable(Record(directory.record).trials())
            tune_trials = PartTuneTrials(parts, begun, trials, searcher, scales_within(search.spec, search.trials))
        best = BestListener(search.spec, search.directory, search.trials, trials, search.chose)
        super().__init__(
            spec, search.storage, directory, searcher, trials, own_listeners=(best,), tune_trials=tune_trials
        )
        self._search = search

    def is_over(self, trials: list[TrialSummary]) -> bool:
        """Whether all trials and re-evaluations of the search have ended."""
        return self._search.is_over(list(self._search.trials))


def _tune_trials_of(spec: SearchSpec, directory: RunDirectory) -> tuple[TuneTrials, TrialTable, StudyMirror]:
    """Return the Tune trials of a search, its trials and its study file, as the record has them."""
    history, parts = Record(directory.record).trials(), parts_of(spec)
    if parts is not None:
        trials = TrialTable(combine_parts(parts, history))
        tune_trials = PartTuneTrials(parts, TrialTable(history), trials, MultiSearcher(parts.search, trials))
        return tune_trials, trials, MultiStudyMirror(directory.study_file, parts.search, trials)
    trials = TrialTable(history)
    searcher = OptunaSearcher(spec, history, trials)
    if not searcher.study.agrees:
        print_notices(
            f"sampler {spec.algorithm!r}: rebuilt from the record, it proposes other points than before; so the"
            " search goes on, but not as it would have gone without the stop"
        )
    mirror = StudyMirror(directory.study_file, searcher.study, history)
    return TuneTrials(spec, trials, searcher), trials, mirror


def _reevaluations(search: SearchSpec, directory: RunDirectory, trials: TrialTable) -> list[TrialSummary]:
    """Return the re-evaluations of a search that have started."""
    if search.reevaluate is None:
        return []
    record = Record(directory.reevaluation.record)
    return recorded_trials(ReevaluationSpec.of(search), record, scales_within(search, trials))
