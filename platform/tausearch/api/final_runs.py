"""The final run: the chosen configuration trained on the whole training set, tested, for several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tausearch.api.bounds import RunWithBounds, as_beside, bound_training, bounds_of
from tausearch.api.finishing import conclude
from tausearch.api.plans.final_runs import plan_training
from tausearch.api.plans.new_runs import say_if_unwritable
from tausearch.api.requests import TrainRequest, allow_named, with_fields_of
from tausearch.cluster import require_room_at, with_measured_gpu_share
from tausearch.execution import DriveOptions, Preview, drive, interruptible, preview_plan
from tausearch.presentation import notebook_cell, scores_table, stream_of, trials_table
from tausearch.runs import (
    BesideBounds,
    Conclusion,
    FinalSpec,
    Plan,
    Record,
    RunDirectory,
    RunResult,
    Score,
    Storage,
    Summary,
    TrialSummary,
    TrialTable,
    read_spec,
    summarise,
)
from tausearch.studies import FixedSearcher
from tausearch.tracking import ResultsWritten, callbacks_of


@dataclass(frozen=True, repr=False)
class FinalResult(RunResult):
    """Test results of a chosen configuration.

    Attributes:
        summary: Metric to its mean, its sample standard deviation (None for one seed) and number of seeds; percent.
        results_file: The file with these results; None before all seeds have ended.
    """

    summary: Summary
    results_file: Path | None

    @property
    def bounds(self) -> BesideBounds | None:
        """The mean test accuracy beside chance, `probe` and `joint`; None if no seed finished."""
        return bounds_of(RunDirectory(self.path))

    def _said(self, scores: Sequence[float]) -> str:
        return f"test {Score.of(scores).text()} %"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the test results, the seeds, and the accuracy matrix as a picture."""
        directory = RunDirectory(self.path)
        scores = {name: Score(each["mean"], each["std"], each["seeds"]) for name, each in self.summary.items()}
        spec = read_spec(directory)
        tables = [scores_table(spec, scores), trials_table(spec, self.trials, None).without_empty()]
        return notebook_cell([self.in_words], tables, [directory.figures / "accuracy_matrix.png"])


def train_with(request: TrainRequest) -> FinalResult:
    """Train a chosen configuration on all training data, once per seed, and test it.

    Returns:
        Every seed's trial, and mean and standard deviation of test accuracy and forgetting. Task vectors and adapters
        lie in the run directory.

    Raises:
        InputError: Before any work, if something in the request, or the best file's protocol, is wrong.
    """
    allow_named(request)
    options = request.drive_options()
    plan = plan_training(request)
    plan = with_measured_gpu_share(plan, request.address, stream_of(request.progress_to), request.time_budget)
    with interruptible(), plan.open_locked() as (spec, directory):
        return run_training(FinalRun(spec, plan.storage, directory), options)


train = with_fields_of(TrainRequest, train_with)


def preview_train_with(request: TrainRequest) -> Preview:
    """Return the seeds that `train` would run, and estimates of time and memory. Nothing is started.

    Returns:
        The preview; `print` shows it.

    Raises:
        InputError: If something in the request, or the best file's protocol, is wrong.
    """
    allow_named(request)
    callbacks_of(request.callbacks)  # refuses wrong ones
    plan = plan_training(request, write=False)
    say_if_unwritable(plan.storage)
    require_room_at(request.address, plan.spec.resources)
    return preview_plan(plan, request.address)


preview_train = with_fields_of(TrainRequest, preview_train_with)


def run_training(run: FinalRun, options: DriveOptions | None = None) -> FinalResult:
    """Drive a final run, and its bounds if it asks for them, until all is over or stopped; returns the result."""
    result = drive(run, options)
    results_file = run.directory.results_file if result.over else None  # of fewer seeds, if a run got more
    return FinalResult(**vars(result), summary=summarise(result.trials), results_file=results_file)


class FinalRun(RunWithBounds):
    """A final run while its seeds run; it continues where the record ends."""

    spec: FinalSpec

    def __init__(self, spec: FinalSpec, storage: Storage, directory: RunDirectory) -> None:
        trials = TrialTable(Record(directory.record).trials())
        ended = {trial.number for trial in trials if trial.status != "running"}
        searcher = FixedSearcher((number, {}) for number in range(spec.trials) if number not in ended)
        super().__init__(spec, storage, directory, searcher, trials)

    @classmethod
    def open_locked(cls, plan: Plan[FinalSpec], locks: ExitStack) -> FinalRun:
        """Make or continue a planned final run; its lock goes into the stack."""
        spec, directory = locks.enter_context(plan.open_locked())
        return cls(spec, plan.storage, directory)

    def open_bound(self, method: str, locks: ExitStack) -> FinalRun:
        """Open the bound of a method; its lock goes into the stack."""
        plan = plan_training(bound_training(self.spec, method, self.storage))
        return FinalRun.open_locked(as_beside(plan, self.spec), locks)

    def conclude(self, trials: list[TrialSummary]) -> Conclusion:
        """Write results and figures."""
        conclusion = conclude(self.spec, self.directory, trials)
        if conclusion.summary is not None:
            self.announce(ResultsWritten(self.info, conclusion.summary, self.directory.results_file))
        return conclusion
