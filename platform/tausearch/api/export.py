"""Export the best file of a search."""

from __future__ import annotations

from pathlib import Path

from tausearch.runs import Storage, remove_on_error, replace_text, require_output
from tausearch.studies import BestFile, require_best_or_none
from trainables.errors import InputError


def export_best(storage: Storage, best: BestFile, target: Path) -> None:
    """Write a best file to `target`, in place of an earlier best file; a failed export leaves no file."""
    require_output(storage, target, "--output")
    require_best_or_none(target, "--output")
    with remove_on_error(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_text(target, best.as_yaml())
        except OSError as error:
            raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
