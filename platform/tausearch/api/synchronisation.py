"""Write best file, results and figures of a run again from its record, and to MLflow what it lacks."""

from __future__ import annotations

from dataclasses import dataclass

from tausearch import runs
from tausearch.api.composition import register_again
from tausearch.api.outcome import outcome_of
from tausearch.models import record_compositions
from tausearch.presentation import draw_trial, output_to
from tausearch.runs import AnySpec, Conclusion, Reevaluation, RunDirectory, Storage, TrialSummary
from tausearch.tracking import MlflowRun, checked_uri, reason
from trainables.errors import InputError


@dataclass(frozen=True)
class Synced:
    """The numbers of trials, and of tasks of all trials, in MLflow after `sync`; MLflow lacked `written` tasks."""

    name: str
    tracking_uri: str
    trials: int
    tasks: int
    written: int


def sync_run(storage: Storage, directory: RunDirectory, tracking_uri: str | None = None) -> Synced:
    """Return the numbers in MLflow, brought up to date with the record of a run that no process drives.

    A given `tracking_uri` becomes that of the run.

    Raises:
        InputError: If there is no such run, a process drives it, or MLflow cannot be written.
    """
    spec = runs.read_spec(directory)
    wanted = checked_uri(tracking_uri)
    uri = wanted or spec.tracking_uri or storage.mlflow_uri
    with runs.driver_lock(directory):
        trials = runs.read_trials(spec, directory)
        try:
            with output_to(directory.log_file):
                written = _write(spec, storage, directory, trials, uri)
            if wanted is not None:
                spec.model_copy(update={"tracking_uri": wanted}).save(directory)
        except InputError:
            raise
        except Exception as error:  # MLflow, SQLAlchemy and requests raise kinds of their own
            raise InputError(f"run {spec.name!r}: MLflow at {uri} cannot be written ({reason(error)})") from error
    return Synced(spec.name, uri, len(trials), sum(trial.tasks_done for trial in trials), written)


def _write(spec: AnySpec, storage: Storage, directory: RunDirectory, trials: list[TrialSummary], uri: str) -> int:
    """Write to MLflow what it lacks; returns the number of written tasks."""
    run = MlflowRun(spec, storage, uri, draw_trial)
    for trial in trials:
        run.write(trial)
    outcome = outcome_of(spec, directory)
    written = _write_reevaluations(outcome.reevaluation(trials), storage, uri)
    conclusion = outcome.conclude(trials, lambda: run.run_ids)
    run.conclude("FINISHED" if outcome.is_over(trials) else "KILLED", conclusion)
    there = spec.model_copy(update={"tracking_uri": uri})
    record_compositions(there, directory, storage)
    register_again(there, directory, storage)
    return run.written + written


def _write_reevaluations(reevaluation: Reevaluation | None, storage: Storage, uri: str) -> int:
    if reevaluation is None or not reevaluation.runs:
        return 0
    nested = MlflowRun(reevaluation.spec, storage, uri, draw_trial)
    for run in reevaluation.runs:
        nested.write(run)
    nested.conclude("FINISHED", Conclusion())
    return nested.written
