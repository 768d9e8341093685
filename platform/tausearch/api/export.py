"""Export results: the best file of a search, and the task vectors of a final run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tausearch.models import about_source, find_source, write_card
from tausearch.presentation import tool
from tausearch.runs import RunStatus, Storage, all_statuses, nothing_left, require_new_folder, require_output
from tausearch.studies import BestFile, best_of_all, best_of_run
from trainables.composition import copy_vector, vector_folders
from trainables.errors import InputError


def export_best(
    storage: Storage,
    benchmark: str,
    method: str,
    target: Path,
    left_out: Callable[[InputError], None] = lambda fault: None,
    adapters: Path | None = None,
) -> BestFile:
    """Write the best configuration of all searches of a benchmark and method. A failed export leaves no file.

    Args:
        storage: The storage root.
        benchmark: Name of the benchmark.
        method: Name of the method.
        target: The file to write.
        left_out: Called with the error of every run that cannot be read.
        adapters: The folder for its task vectors; see `export_adapters`. None for no vectors.

    Returns:
        The configuration that was written.

    Raises:
        InputError: If there is no such configuration, or something cannot be written.
    """
    return _export(storage, best_of_all(storage, benchmark, method, left_out), target, adapters)


def export_best_of(storage: Storage, name: str, target: Path, adapters: Path | None = None) -> BestFile:
    """Write the best configuration of a search, and its task vectors to `adapters`; see `export_best`."""
    return _export(storage, best_of_run(storage, name), target, adapters)


def _export(storage: Storage, best: BestFile, target: Path, adapters: Path | None) -> BestFile:
    """Write file and folder, or neither."""
    require_output(storage, target, "--output")
    with nothing_left(target, adapters):
        if adapters is not None:
            export_adapters(storage, best, adapters)
        _write(best, target)
    return best


def _write(best: BestFile, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        best.save(target)
    except OSError as error:
        raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error


def export_adapters(storage: Storage, best: BestFile, target: Path) -> Path:
    """Copy the task vectors (and PEFT adapters, where there are any) of the latest final run of a configuration.

    Returns:
        The folder: `seed_<s>/task_<t>/` and `model.json`, so that `compose` reads it.

    Raises:
        InputError: If the method leaves no task vectors, no final run of this configuration has finished, or an export
            must not write to the folder.
    """
    require_new_folder(storage, target, "--adapters")
    runs = [found for found in all_statuses(storage)[0] if _is_final(found, best)]
    if not runs:
        raise InputError(
            f"no finished final run of this configuration of {best.method!r} on {best.benchmark!r} in {storage.root}"
            f" left task vectors; run `{tool()} train` first"
        )
    return export_vectors(storage, runs[-1].spec.name, target)


def export_vectors(storage: Storage, name: str, target: Path) -> Path:
    """Copy the task vectors of a final run; see `export_adapters`.

    Returns:
        The folder written.

    Raises:
        InputError: If there is no such run, it has no task vectors, one is damaged or a link, or an export must not
            write to the folder; no file is left behind.
    """
    require_new_folder(storage, target, "--adapters")
    source = find_source(storage, name)
    with nothing_left(target):
        try:
            for seed in source.seeds:
                for folder in vector_folders(source.of_seed(seed)):
                    copy_vector(folder, target / f"seed_{seed}" / folder.name)
            write_card(target, about_source(source))
        except OSError as error:
            raise InputError(f"--adapters {target}: cannot be written ({error.strerror or error})") from error
    return target


def _is_final(found: RunStatus, best: BestFile) -> bool:
    spec = found.spec
    return (
        (spec.purpose, spec.benchmark, spec.method) == ("final", best.benchmark, best.method)
        and spec.fixed == best.hyperparameters
        and found.counts["complete"] == spec.trials
    )
