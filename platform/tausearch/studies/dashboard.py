"""optuna-dashboard on the study files of a storage root: a snapshot of all searches on one page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tausearch.runs import RunDirectory, Storage
from trainables.errors import InputError

if TYPE_CHECKING:
    from optuna.storages import InMemoryStorage


def dashboard_of(storage: Storage) -> tuple[Callable[..., None], list[InputError]]:
    """Return a function of `host` and `port` that serves all study files until Ctrl-C, and errors of damaged ones."""
    import optuna

    try:
        from optuna_dashboard import run_server
    except ImportError:
        raise InputError("--optuna: optuna-dashboard is not installed; pip install optuna-dashboard") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    studies = optuna.storages.InMemoryStorage()
    _, faults = storage.read_each(partial(_add, studies))
    if not studies.get_all_studies():
        reason = f"; {faults[0]}" if faults else ""
        raise InputError(f"--storage {storage.root}: has no study files yet{reason}")
    return partial(run_server, studies), faults


def _add(studies: InMemoryStorage, directory: RunDirectory) -> None:
    """Add the study of a run, if it has one."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    if not directory.study_file.exists():
        return
    try:
        found = optuna.storages.JournalStorage(JournalFileBackend(str(directory.study_file)))
        for study in found.get_all_studies():
            name = directory.name  # which the study has not if the run was renamed
            optuna.copy_study(
                from_study_name=study.study_name, from_storage=found, to_storage=studies, to_study_name=name
            )
    except Exception as error:  # Optuna raises many kinds for a damaged file
        raise InputError(f"study file {directory.study_file}: cannot be read ({error})") from error
