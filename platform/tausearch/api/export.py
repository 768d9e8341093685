"""Export results: the best file of a search, and the task vectors of a final run."""

from __future__ import annotations

from pathlib import Path

from tausearch.models import about_source, find_source, write_card
from tausearch.presentation import tool
from tausearch.runs import RunStatus, Storage, all_statuses, nothing_left, require_new_folder, require_output
from tausearch.studies import BestFile
from trainables.composition import copy_vector, vector_folders
from trainables.errors import InputError


def export_best(storage: Storage, best: BestFile, target: Path, adapters: Path | None = None) -> None:
    """Write a best file to `target`, and its task vectors to the folder `adapters`; a failed export leaves neither.

    Raises:
        InputError: If a target cannot be written, or as `export_adapters`.
    """
    require_output(storage, target, "--output")
    with nothing_left(target, adapters):
        if adapters is not None:
            export_adapters(storage, best, adapters)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            best.save(target)
        except OSError as error:
            raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error


def export_adapters(storage: Storage, best: BestFile, target: Path) -> None:
    """Copy the task vectors, and PEFT adapters if there are any, of a configuration's latest final run.

    The folder has `seed_<s>/task_<t>/` and `model.json`, so `compose` reads it.

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
    export_vectors(storage, runs[-1].spec.name, target)


def export_vectors(storage: Storage, name: str, target: Path) -> None:
    """Copy the task vectors of a final run; see `export_adapters`.

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


def _is_final(found: RunStatus, best: BestFile) -> bool:
    spec = found.spec
    return (
        (spec.purpose, spec.method) == ("final", best.method)
        and best.is_on(spec.benchmark)
        and spec.fixed == best.hyperparameters
        and found.counts["complete"] == spec.trials
    )
