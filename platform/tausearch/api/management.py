"""Manage run directories: delete a run, rename a run. Its runs in MLflow stay."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tausearch.models import CompositionResult, describe_run, with_renamed_run
from tausearch.presentation import print_notices
from tausearch.runs import (
    AnySpec,
    DrivenDirectory,
    FinalSpec,
    Record,
    RunDirectory,
    Storage,
    all_ended,
    driver_lock,
    is_driven,
    read_spec,
    require_unmistakable,
    write_results,
)
from tausearch.studies import load_best, with_renamed_source
from trainables.errors import InputError
from trainables.methods import get_method


def delete_run(directory: RunDirectory) -> None:
    """Delete the directory of a run, completely or not at all; see `delete_driven`."""
    read_spec(directory)
    delete_driven(directory, "run")


def delete_driven(directory: DrivenDirectory, kind: str) -> None:
    """Delete the directory of a run or campaign that is there; `kind` names it in errors.

    It gets a hidden name first, so that an interrupted deletion leaves no half of it.

    Raises:
        InputError: If a process drives it, or its directory is a link or cannot be deleted.
    """
    what = f"{kind} directory {directory.path}"
    if directory.path.is_symlink():
        raise InputError(f"{what}: is a link; delete what it leads to, then the link")
    if (closed := _closed_folder(directory.path)) is not None:
        inside = "" if closed == directory.path else f"{closed} in it "
        raise InputError(f"{what}: {inside}cannot be changed; nothing was deleted")
    doomed = _doomed(directory)
    try:
        with driver_lock(directory, kind):
            shutil.rmtree(doomed, ignore_errors=True)
            directory.path.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise InputError(f"{what}: cannot be deleted ({error.strerror})") from error


def finish_deletion(directory: DrivenDirectory) -> bool:
    """Delete what an interrupted deletion left of a run or campaign that is no more; returns whether there was any."""
    doomed = _doomed(directory)
    if directory.path.exists() or not doomed.exists():
        return False
    try:
        shutil.rmtree(doomed)
    except OSError as error:
        raise InputError(f"{doomed}: cannot be deleted ({error.strerror})") from error
    return True


def _doomed(directory: DrivenDirectory) -> Path:
    return directory.path.with_name(f".{directory.name}.deleted")


def _closed_folder(folder: Path) -> Path | None:
    """Return the first folder in a tree whose content this user cannot remove; None if there is none."""
    rights = os.R_OK | os.W_OK | os.X_OK
    closed: list[OSError] = []
    for path, _, _ in os.walk(folder, onerror=closed.append):
        if not os.access(path, rights):
            return Path(path)
    return Path(closed[0].filename) if closed else None


def rename_run(storage: Storage, old: str, new: str) -> list[str]:
    """Rename a run. Its id stays, so MLflow still knows the run.

    Returns:
        The names of the final runs whose source it is or that train its tasks again, of the searches with points of it
        in their warm start, and of the runs that keep compositions of it; they now have the new name.

    Raises:
        InputError: If there is no such run, a process drives it or a run that names it, or the new name is taken or
            is no valid name.
    """
    directory, target = storage.run(old), storage.run(new)
    require_unmistakable(new)
    spec = read_spec(directory)
    get_method(spec.method)  # its best file is read with this code; refused before anything has changed
    renamed, runs = spec.model_copy(update={"name": new}), storage.runs()
    driven = [each for each in runs if each.name != old and is_driven(each)]
    naming, _ = storage.read_each(partial(_with_new_name, old, renamed), among=driven)
    if names := [now.name for now, *changes in naming if any(changes)]:
        raise InputError(f"run {old!r}: is named by {', '.join(names)}, driven now; rename it when that has ended")
    with driver_lock(directory):
        if target.path.exists():
            raise InputError(f"name {new!r}: is taken in {storage.root}; choose another")
        try:
            directory.path.rename(target.path)
            renamed.save(target)
        except OSError as error:
            if target.path.exists():  # its `run.yaml` could not be written
                target.path.rename(directory.path)
            raise InputError(f"run directory {directory.path}: cannot be renamed ({error.strerror})") from error
        _renew(renamed, target)
    others = [target if each.name == old else each for each in runs]
    pointed, _ = storage.read_each(partial(_point_to, old, renamed), among=others)
    return [name for name in pointed if name not in (None, new)]  # it may name itself, in what remains of a removal


def _point_to(old: str, renamed: AnySpec, directory: RunDirectory) -> str | None:
    """Write the new name of a run into another run that names it; returns the name of this one, None if it does not."""
    now, is_new, compositions = _with_new_name(old, renamed, directory)
    if not is_new and not compositions:
        return None
    try:
        for composition in compositions:
            composition.save(directory)
        if not is_new:
            return now.name
        now.save(directory)
    except OSError as error:
        print_notices(f"{directory.path}: cannot be written ({error.strerror}); it still names {old!r}")
        return None
    if isinstance(now, FinalSpec):
        _renew(now, directory)
    return now.name


def _with_new_name(
    old: str, renamed: AnySpec, directory: RunDirectory
) -> tuple[AnySpec, bool, list[CompositionResult]]:
    """Return a run with the new name of another one, whether it names that, and its compositions that do."""
    spec = read_spec(directory)
    now, compositions = _with_renamed_source(spec, old, renamed), list[CompositionResult]()
    with _faults_said():  # a damaged composition; its neighbours keep the old name
        compositions = with_renamed_run(directory, old, renamed.name)
    return now, now != spec, compositions


def _with_renamed_source(spec: AnySpec, old: str, renamed: AnySpec) -> AnySpec:
    if not isinstance(spec, FinalSpec):
        return with_renamed_source(spec, old, renamed.name)
    retrained = spec.retrained
    if retrained is not None and (retrained.run, retrained.run_id) == (old, renamed.id):
        retrained = retrained.model_copy(update={"run": renamed.name})
    source = renamed.name if spec.is_of(old, renamed.id) else spec.source
    return spec.model_copy(update={"source": source, "retrained": retrained})


def _renew(spec: AnySpec, directory: RunDirectory) -> None:
    """Write the files of a run again that contain its name; a damaged one stays as it is."""
    for file in (directory.best_file, *directory.front.glob("*.yaml")):
        if file.exists():
            with _faults_said():
                best = load_best(file)
                selection = best.selection and best.selection.model_copy(update={"search": spec.name})
                best.model_copy(update={"selection": selection}).save(file)
    if spec.purpose == "final" and directory.results_file.exists():
        with _faults_said():
            trials = Record(directory.record).trials()
            if all_ended(spec, trials):
                write_results(spec, directory, trials)
            describe_run(directory)


@contextmanager
def _faults_said() -> Iterator[None]:
    """Print an `InputError` of the block and go on: a damaged file keeps no run from its new name."""
    try:
        yield
    except InputError as error:
        print_notices(error)
