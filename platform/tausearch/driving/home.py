"""Where a driver keeps what is its own, be it of one run or of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Home(Protocol):
    """The folder of what is driven; a `RunDirectory` is one."""

    @property
    def path(self) -> Path:
        """The folder."""
        ...

    @property
    def spec_file(self) -> Path:
        """The file that says what was asked for; there as long as the storage is."""
        ...

    @property
    def ray(self) -> Path:
        """The folder of Ray Tune's own files: checkpoints and logs of trials, one folder per attempt."""
        ...

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name that the folder of a trial has in an attempt's."""
        ...
