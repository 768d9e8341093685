"""Write best file, results and figures of a run again from its record, and to trackers what they lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tausearch import runs
from tausearch.api.composition import register_again
from tausearch.api.finishing import conclude
from tausearch.models import log_compositions
from tausearch.presentation import output_to
from tausearch.runs import (
    AnySpec,
    Conclusion,
    Record,
    Reevaluation,
    RunDirectory,
    Storage,
    StorageError,
    TrackerName,
    TrialSummary,
    all_ended,
    read_reevaluation,
)
from tausearch.tracking import (
    MlflowRun,
    RunEnded,
    RunInfo,
    TensorBoardCallback,
    checked_tracking,
    checked_uri,
    reason,
    replayed_events,
    require_installed,
    tracking_uri_of,
)
from trainables.errors import InputError


@dataclass(frozen=True)
class Synced:
    """The numbers of trials, and of tasks of all trials and re-evaluations, of a run after `runs sync`.

    MLflow lacked `written` of the tasks. Without `tracking_uri`, MLflow does not have the run.
    """

    name: str
    tracking_uri: str | None
    trials: int
    tasks: int
    written: int


def sync_run(
    storage: Storage, directory: RunDirectory, tracking_uri: str | None = None, tracking: str | None = None
) -> Synced:
    """Bring files and trackers up to date with the record of a run that no process drives.

    A given `tracking` or `tracking_uri` becomes that of the run; a URI alone adds MLflow to its trackers.

    Returns:
        The numbers of trials and tasks.

    Raises:
        InputError: If there is no such run, a process drives it, or a file or MLflow cannot be written.
        StorageError: If the record of its re-evaluations cannot be read.
    """
    earlier = runs.read_spec(directory)
    spec = _tracked_as(earlier, checked_uri(tracking_uri), checked_tracking(tracking))
    require_installed(spec.trackers)
    uri = tracking_uri_of(spec, storage)
    with runs.driver_lock(directory):
        trials = runs.read_trials(spec, directory)
        try:
            Record(directory.record).remove_left()
            with output_to(directory.log_file):
                reevaluations, written = _write(spec, storage, directory, trials)
            if spec != earlier:
                spec.save(directory)
        except (InputError, StorageError):
            raise
        except Exception as error:  # MLflow, SQLAlchemy and requests raise kinds of their own
            raise InputError(f"run {spec.name!r}: {_unwritten(error, uri, directory)}") from error
    return Synced(spec.name, uri, len(trials), sum(each.tasks_done for each in (*trials, *reevaluations)), written)


def _unwritten(error: Exception, uri: str | None, directory: RunDirectory) -> str:
    """Say what could not be written: the file of an error, else MLflow, or for a run without it the folder."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be written ({error.strerror})"
    return f"{directory.path if uri is None else f'MLflow at {uri}'} cannot be written ({reason(error)})"


def _tracked_as(spec: AnySpec, uri: str | None, trackers: tuple[TrackerName, ...] | None) -> AnySpec:
    """Return a specification with other trackers, or another store of MLflow, where they are given."""
    if trackers is None:
        adds_mlflow = uri is not None and "mlflow" not in spec.trackers
        trackers = ("mlflow", *spec.trackers) if adds_mlflow else spec.tracking
    return spec.model_copy(update={"tracking": trackers, "tracking_uri": uri or spec.tracking_uri})


def _write(
    spec: AnySpec, storage: Storage, directory: RunDirectory, trials: list[TrialSummary]
) -> tuple[Sequence[TrialSummary], int]:
    """Write files, and to trackers what they lack; returns the re-evaluations, and the tasks that MLflow lacked."""
    reevaluation = read_reevaluation(spec, directory.reevaluation, trials) if spec.purpose == "search" else None
    uri, written = tracking_uri_of(spec, storage), 0
    run = None if uri is None else MlflowRun(spec, storage, uri)
    if run is not None and uri is not None:
        for trial in trials:
            run.write(trial)
        written = run.written + _write_reevaluations(reevaluation, storage, uri)
    conclusion = conclude(spec, directory, trials)
    if run is not None:
        over = all_ended(spec, trials) and (reevaluation is None or reevaluation.race.over)
        run.conclude("FINISHED" if over else "KILLED", conclusion)
    if "tensorboard" in spec.trackers:
        _write_event_files(RunInfo(spec, directory.path, storage), trials, conclusion)
        if reevaluation is not None:
            info = RunInfo(reevaluation.spec, directory.reevaluation.path, storage)
            _write_event_files(info, reevaluation.runs, Conclusion())
    if run is not None and spec.purpose == "final":
        log_compositions(spec, directory, storage)
        register_again(spec, directory, storage)  # last, as it may refuse one
    return () if reevaluation is None else reevaluation.runs, written


def _write_reevaluations(reevaluation: Reevaluation | None, storage: Storage, uri: str) -> int:
    if reevaluation is None or not reevaluation.runs:
        return 0
    nested = MlflowRun(reevaluation.spec, storage, uri)
    for trial in reevaluation.runs:
        nested.write(trial)
    nested.conclude("FINISHED" if reevaluation.race.over else "KILLED", Conclusion())
    return nested.written


def _write_event_files(run: RunInfo, trials: Sequence[TrialSummary], conclusion: Conclusion) -> None:
    """Write TensorBoard's event files anew."""
    writer = TensorBoardCallback()
    for event in replayed_events(run, trials):
        writer.on_event(event)
    writer.on_event(RunEnded(run, stopped=False, metrics=conclusion.metrics))
