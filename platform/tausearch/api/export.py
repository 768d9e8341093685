"""Export the best file of a search."""

from __future__ import annotations

from pathlib import Path

from tausearch.runs import Storage, remove_on_error, require_output
from tausearch.studies import BestFile, load_best
from trainables.errors import InputError


def export_best(storage: Storage, best: BestFile, target: Path) -> None:
    """Write a best file to `target`, in place of an earlier best file; a failed export leaves no file.

    Raises:
        InputError: If the target cannot be written, or is another file.
    """
    require_output(storage, target, "--output")
    _require_best_or_none(target)
    with remove_on_error(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            best.save(target)
        except OSError as error:
            raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error


def _require_best_or_none(target: Path) -> None:
    if not target.exists():
        return
    try:
        load_best(target)
    except InputError as error:
        raise InputError(f"--output {target}: exists and is no best file, so it is not replaced") from error
