"""Rebuild MLflow from the Parquet record: what it lacks of a run is written, what it has is left alone."""

from __future__ import annotations

from dataclasses import dataclass

from tausearch.drive import Conclusion
from tausearch.files import RunDirectory, Storage
from tausearch.final_run import conclude_final
from tausearch.lock import driver_lock
from tausearch.mlflow_run import MlflowRun
from tausearch.mlflow_store import checked_uri, reason
from tausearch.quiet import chatter_to
from tausearch.record import Record, TrialSummary
from tausearch.search_run import conclude_search
from tausearch.spec import RunSpec, read_spec
from trainables.errors import InputError


@dataclass(frozen=True)
class Synced:
    """What MLflow has of a run now.

    Attributes:
        name: Of the run.
        tracking_uri: Where.
        trials: How many.
        tasks: How many, of all trials together.
        written: How many of these tasks it lacked before.
    """

    name: str
    tracking_uri: str
    trials: int
    tasks: int
    written: int


def sync(storage: Storage, directory: RunDirectory, tracking_uri: str | None = None) -> Synced:
    """Bring MLflow up to date with the record of a run that no process drives.

    Args:
        storage: Its root.
        directory: Of the run.
        tracking_uri: Where to write, and where the run is tracked from now on; by default where it was.

    Returns:
        What MLflow has of it now.

    Raises:
        InputError: If there is no such run, a process drives it, or MLflow cannot be written.
    """
    spec = read_spec(directory)
    uri = checked_uri(tracking_uri) or spec.tracking_uri or storage.mlflow_uri
    with driver_lock(directory), chatter_to(directory.log_file):
        trials = Record(directory.record).trials()
        ended = len(trials) == spec.trials and all(trial.status != "running" for trial in trials)
        try:
            run = MlflowRun(spec, storage, uri)
            for trial in trials:
                run.write(trial)
            run.conclude("FINISHED" if ended else "KILLED", _conclude(spec, directory, trials))
        except InputError:
            raise
        except Exception as error:  # MLflow's own, SQLAlchemy's, requests': whatever is behind the URI
            raise InputError(f"run {spec.name!r}: MLflow at {uri} cannot be written ({reason(error)})") from error
        if tracking_uri is not None:
            spec.model_copy(update={"tracking_uri": tracking_uri}).save(directory)
    return Synced(spec.name, uri, len(trials), sum(trial.tasks_done for trial in trials), run.written)


def _conclude(spec: RunSpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    conclude = conclude_search if spec.purpose == "search" else conclude_final
    return conclude(spec, directory, trials)
