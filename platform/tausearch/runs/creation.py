"""Make run directories: named, whole or not at all, and held by one driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tausearch.runs.directories import RunDirectory, Storage, nearest_folder, open_storage
from tausearch.runs.guards import driver_lock, remove_empty, require_space
from tausearch.runs.spec import RunSpec, differences, read_spec
from trainables.errors import InputError


def new_run(storage: str | Path, name: str | None, stem: str, *, go_on: bool = False) -> tuple[Storage, str]:
    """Return the storage and the name of a new run: the one asked for, or the first of `stem-1`, `stem-2`, ... free.

    Args:
        storage: The storage root.
        name: The name that was asked for, if any.
        stem: What a name is made of where none was.
        go_on: Whether a run of that name may exist.

    Raises:
        InputError: If the storage cannot be written or is full, or the name is taken or no name for a folder.
    """
    root = open_storage(storage, write=True)
    require_space(root.root)
    directory = root.run(name or root.free_name(stem))
    if directory.path.exists() and not (go_on and directory.spec_file.is_file()):
        raise InputError(_taken(directory))
    return root, directory.name


@contextmanager
def created(spec: RunSpec, storage: Storage, *, rename: bool = False) -> Iterator[tuple[RunSpec, RunDirectory]]:
    """Make the run directory and hold it while the run is driven.

    A run that the cluster cannot take leaves nothing behind: no trial was started.

    Args:
        spec: The specification of the run.
        storage: The storage root in which to make the run directory.
        rename: Whether to take the next free name if another process has just taken this one, because nobody chose it.

    Yields:
        The specification, under the name that it got, and the run directory.

    Raises:
        InputError: If the name has been taken, or the folder cannot be made; or whatever the block raises.
    """
    before = nearest_folder(storage.root)
    spec, directory = create(spec, storage, rename=rename)
    with driver_lock(directory):
        try:
            yield spec, directory
        except InputError:
            if not directory.record.exists():
                shutil.rmtree(directory.path)
                remove_empty(storage.root, before)
            raise


def create(spec: RunSpec, storage: Storage, *, rename: bool = False) -> tuple[RunSpec, RunDirectory]:
    """Make the run directory, with what was asked for in it: both or, if the process is killed, neither.

    Args:
        spec: The specification of the run.
        storage: The storage root in which to make the run directory.
        rename: Whether to take the next free name if another process has just taken this one, because nobody chose it.

    Returns:
        The specification, under the name that it got, and the run directory.

    Raises:
        InputError: If the name has been taken, or the folder cannot be made.
    """
    while True:
        directory = storage.run(spec.name)
        try:
            _make(spec, directory)
        except FileExistsError:
            if not rename:
                raise InputError(_taken(directory)) from None
            spec = spec.model_copy(update={"name": storage.free_name(spec.name.rpartition("-")[0])})
        else:
            return spec, directory


@dataclass(frozen=True)
class Plan:
    """What will be done.

    Attributes:
        spec: The run, in full.
        storage: The storage root.
        named: Whether somebody chose its name.
        go_on: Whether to go on with the run of its name, if there is one.
    """

    spec: RunSpec
    storage: Storage
    named: bool
    go_on: bool = False

    @property
    def directory(self) -> RunDirectory:
        """Its run directory, unless another process takes the name first."""
        return self.storage.run(self.spec.name)

    @property
    def exists(self) -> bool:
        """Whether it has been started already."""
        return self.go_on and self.directory.spec_file.is_file()

    def continued(self) -> RunSpec:
        """Return the specification of the run that exists, with what it is given to run with from now on.

        Raises:
            InputError: If it is not what is asked for.
        """
        then = read_spec(self.directory)
        if found := differences(then, self.spec):
            raise InputError(f"run {then.name!r} was started otherwise: {'; '.join(found)}")
        changed = {name: getattr(self.spec, name) for name in ("resources", "data_root", "store_gigabytes")}
        return then.model_copy(update={**changed, "tracking_uri": self.spec.tracking_uri or then.tracking_uri})

    @contextmanager
    def entered(self) -> Iterator[tuple[RunSpec, RunDirectory]]:
        """Make the run, or go on with it, and hold it while it is driven.

        Yields:
            The specification, under the name that it got, and the run directory.

        Raises:
            InputError: If it cannot be made, is not what is asked for, or is driven; or whatever the block raises.
        """
        if not self.exists:
            with created(self.spec, self.storage, rename=not self.named) as made:
                yield made
        else:
            with driver_lock(self.directory):
                spec = self.continued()
                spec.save(self.directory)
                yield spec, self.directory


def _make(spec: RunSpec, directory: RunDirectory) -> None:
    before = nearest_folder(directory.path.parent)
    unfinished = RunDirectory(directory.path.with_name(f".{directory.name}.{os.getpid()}.tmp"))
    try:
        unfinished.path.mkdir(parents=True, exist_ok=True)
        spec.save(unfinished)
        unfinished.path.rename(directory.path)
    except OSError as error:
        shutil.rmtree(unfinished.path, ignore_errors=True)
        remove_empty(directory.path.parent, before)
        if directory.path.exists():
            raise FileExistsError(directory.path) from None
        raise InputError(f"run directory {directory.path}: cannot be made ({error.strerror})") from error


def _taken(directory: RunDirectory) -> str:
    where = f"a run named {directory.name!r} exists in {directory.path.parent}"
    return f"{where}; choose another --name, or go on with it: --continue"
