"""Rename a run: its directory, and its name in the files of this storage root."""

from __future__ import annotations

from tausearch.models import describe_run
from tausearch.runs import (
    AnySpec,
    Record,
    RunDirectory,
    Storage,
    all_ended,
    driver_lock,
    is_driven,
    read_spec,
    write_results,
)
from tausearch.studies import load_best
from trainables.errors import InputError


def rename_run(storage: Storage, old: str, new: str) -> list[str]:
    """Rename a run. Its id stays, so MLflow still knows it.

    Args:
        storage: The storage root.
        old: The name of the run.
        new: The new name.

    Returns:
        The names of the final runs whose source it is; they now have the new name.

    Raises:
        InputError: If there is no such run, a process drives it, or the new name is taken or is no valid name.
    """
    directory, target = storage.run(old), storage.run(new)
    spec = read_spec(directory)
    with driver_lock(directory):
        if target.path.exists():
            raise InputError(f"name {new!r}: is taken in {storage.root}; choose another")
        renamed = spec.model_copy(update={"name": new})
        try:
            directory.path.rename(target.path)
            renamed.save(target)
        except OSError as error:
            raise InputError(f"run directory {directory.path}: cannot be renamed ({error.strerror})") from error
        _renew(renamed, target)
    return _point(storage, old, new)


def _renew(spec: AnySpec, directory: RunDirectory) -> None:
    """Write the files of a run again that contain its name."""
    if directory.best_file.exists():
        best = load_best(directory.best_file)
        selection = best.selection and best.selection.model_copy(update={"search": spec.name})
        best.model_copy(update={"selection": selection}).save(directory.best_file)
    if spec.purpose == "final" and directory.results_file.exists():
        trials = Record(directory.record).trials()
        if all_ended(trials, spec.trials):
            write_results(spec, directory, trials)
        describe_run(directory)


def _point(storage: Storage, old: str, new: str) -> list[str]:
    """Write the new name of a search into its final runs; returns their names."""
    specs, _ = storage.read_each(read_spec)
    finals = [spec for spec in specs if spec.purpose == "final" and spec.source == old]
    found = [spec for spec in finals if not is_driven(storage.run(spec.name))]
    for spec in found:
        spec.model_copy(update={"source": new}).save(storage.run(spec.name))
    return [spec.name for spec in found]
