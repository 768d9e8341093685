"""The request of a campaign: its fields are the arguments in Python and the options of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

from checked_input import bounds
from tausearch.api import CheckedRequest, within
from tausearch.runs import DEFAULT_STORAGE


@dataclass(frozen=True)
class CampaignRequest(CheckedRequest):
    """A campaign to plan, start or continue.

    Attributes:
        file: The campaign's file.
        redo: Titles of cells to start anew, such as `digits/ita-lora`; what they have so far is left alone.
        max_concurrent_trials: Trials at a time, of all cells together; by default as many as fit.
        time_budget: Seconds after which the campaign is stopped; the same command goes on with it.
        data_root: Folder of the published datasets; by default that of TAUSEARCH_DATA, or `./tausearch-data`.
        storage: The storage root, the folder that holds the run directories.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`.
        address: Address of a running Ray cluster; by default a Ray of our own is started on this machine.
        progress_to: The stream on which progress is shown: "stdout" or "stderr".
    """

    file: str | Path
    _: KW_ONLY
    redo: Sequence[str] = ()
    max_concurrent_trials: int | None = within(bounds.CONCURRENT, None)
    time_budget: float | None = within(bounds.TIME, None)
    data_root: str | Path | None = None
    storage: str | Path = DEFAULT_STORAGE
    tracking_uri: str | None = None
    address: str | None = None
    progress_to: Literal["stdout", "stderr"] = "stdout"
