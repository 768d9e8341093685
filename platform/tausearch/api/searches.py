"""Search the hyperparameters of a method on a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import optuna
from ray.tune import Trainable

from tausearch.api.benchmarks import allow_typed
from tausearch.api.outcome import conclude, identify, is_over
from tausearch.api.plans import plan_search
from tausearch.api.requests import SearchRequest, with_fields_of
from tausearch.cluster import with_measured_share
from tausearch.execution import Job, Listener, Preview, drive, preview_of
from tausearch.presentation import Stream
from tausearch.runs import (
    Conclusion,
    Confirmation,
    ConfirmationSpec,
    Plan,
    Record,
    RunDirectory,
    RunResult,
    RunSpec,
    Storage,
    TrialSummary,
    TrialTable,
    read_confirmation,
    read_spec,
)
from tausearch.studies import (
    BestFile,
    BestListener,
    ConfirmationSource,
    OptunaSource,
    SearchStudy,
    StudyMirror,
    load_best,
    warm_start_lines,
)
from trainables.trial import Trial


@dataclass(frozen=True, repr=False)
class SearchResult(RunResult):
    """What a search found.

    Attributes:
        best: The chosen configuration; None if no trial finished.
        best_file: The file that has it.
        confirmation: What fresh runs of the best trials said; None if none were asked for.
    """

    best: BestFile | None
    best_file: Path | None
    confirmation: Confirmation | None

    @property
    def study(self) -> optuna.Study:
        """The trials that have ended as an Optuna study in memory, for Optuna's own plots and importances."""
        spec = read_spec(RunDirectory(self.path))
        return SearchStudy(spec, [trial for trial in self.trials if trial.status not in ("running", "pending")]).optuna


@with_fields_of(SearchRequest)
def search(request: SearchRequest) -> SearchResult:
    """Search the hyperparameters of a method on a benchmark, judged on the validation split.

    Takes the fields of `SearchRequest`.

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: Before any work, if something in the request is wrong.
        SpaceError: Before any work, if the search space is wrong.
    """
    allow_typed(request.benchmark)
    plan = plan_search(request)
    if request.gpus_per_trial == "auto":
        plan = _measured(request, plan)
    for line in warm_start_lines(plan.spec):
        print(line, file=sys.stdout if request.progress_to == "stdout" else sys.stderr, flush=True)
    with plan.entered() as (spec, directory):
        return run_search(
            spec,
            plan.storage,
            directory,
            address=request.address,
            time_budget=request.time_budget,
            progress_to=request.progress_to,
        )


@with_fields_of(SearchRequest)
def preview_search(request: SearchRequest) -> Preview:
    """Say what `search` would do: its trials, where they come from, and what they would take; starts nothing.

    Takes the fields of `SearchRequest`.

    Returns:
        The preview; `print` shows it.

    Raises:
        InputError: If something in the request is wrong.
        SpaceError: If the search space is wrong.
    """
    allow_typed(request.benchmark)
    return preview_of(plan_search(request), request.address)


def _measured(request: SearchRequest, plan: Plan) -> Plan:
    """Run a pilot trial, and give every trial the share of a GPU that it needs; a run that goes on keeps its share."""
    if plan.exists:
        return replace(plan, spec=plan.spec.model_copy(update={"resources": read_spec(plan.directory).resources}))
    pilot = plan.spec.trial(0, dict(plan.spec.start), store=plan.storage.store)
    spec, line = with_measured_share(plan.spec, pilot, request.address)
    print(line, file=sys.stdout if request.progress_to == "stdout" else sys.stderr, flush=True)
    return replace(plan, spec=spec)


def run_search(
    spec: RunSpec,
    storage: Storage,
    directory: RunDirectory,
    *,
    address: str | None = None,
    time_budget: float | None = None,
    progress_to: Stream = "stdout",
    listeners: Sequence[Listener] = (),
    trainable: type[Trainable] = Trial,
) -> SearchResult:
    """Run a search that has been planned and created, from wherever its record says that it is.

    Args:
        spec: What was asked for; saved already.
        storage: Its root.
        directory: Its run directory, which exists.
        address: Of a running Ray cluster, or None.
        time_budget: Seconds after which the search is stopped.
        progress_to: The stream on which progress is shown: "stdout" or "stderr".
        listeners: Told of every change after the record, the best file and the study file.
        trainable: What a trial runs; another one measures the platform alone.

    Returns:
        All trials and the best configuration.
    """
    job = search_job(spec, storage, directory, listeners=listeners, trainable=trainable)
    run = drive(job, address=address, time_budget=time_budget, progress_to=progress_to)
    best = load_best(directory.best_file) if directory.best_file.exists() else None
    confirmation = read_confirmation(spec, directory.confirmation, run.trials)
    return SearchResult(
        **vars(run), best=best, best_file=directory.best_file if best else None, confirmation=confirmation
    )


def search_job(
    spec: RunSpec,
    storage: Storage,
    directory: RunDirectory,
    *,
    listeners: Sequence[Listener] = (),
    trainable: type[Trainable] = Trial,
) -> Job:
    """Return a search as it is driven, from wherever its record says that it is; see `run_search`."""
    history = Record(directory.record).trials()
    trials = TrialTable(history)
    source = OptunaSource(spec, history, trials)
    mirror = StudyMirror(directory.study_file, spec.name, source.study.as_optuna, history)

    def conclude_search(trials: list[TrialSummary]) -> Conclusion:
        mirror.conclude()
        return conclude(spec, directory, trials)

    naming = partial(identify, spec, directory)
    everyone: tuple[Listener, ...] = (BestListener(spec, directory, trials), mirror, *listeners)
    job = Job(spec, storage, directory, trials, source, conclude_search, everyone, naming, trainable)
    if spec.confirm is None:
        return job
    return replace(job, is_over=partial(is_over, spec, directory), follow=partial(confirmation_job, job))


def confirmation_job(search: Job) -> Job:
    """Return the confirmations of a search whose trials have ended, from wherever their record says that they are."""
    spec, directory = ConfirmationSpec.of(search.spec), search.directory.confirmation
    runs = TrialTable(Record(directory.record).trials())
    source = ConfirmationSource(spec, search.trials, runs)
    keeper = BestListener(search.spec, search.directory, search.trials)
    job = Job(spec, search.storage, directory, runs, source, lambda runs: Conclusion(), (keeper,))
    over = partial(is_over, search.spec, search.directory, list(search.trials))
    return replace(job, is_over=lambda runs: over(), trainable=search.trainable)
