"""Export the best file of a search."""

from __future__ import annotations

from pathlib import Path

from tausearch.runs import Storage, nothing_left, require_output
from tausearch.studies import BestFile
from trainables.errors import InputError


def export_best(storage: Storage, best: BestFile, target: Path) -> None:
    """Write a best file to `target`; a failed export leaves no file.

    Raises:
        InputError: If the target cannot be written.
    """
    require_output(storage, target, "--output")
    with nothing_left(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            best.save(target)
        except OSError as error:
            raise InputError(f"--output {target}: cannot be written ({error.strerror})") from error
