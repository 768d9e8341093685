"""The file in a campaign's folder that lists its cells and the names of their runs."""

from __future__ import annotations

from contextlib import suppress

from pydantic import Field

from checked_input.names import choices
from checked_input.schema import Strict, read_model
from checked_input.text_files import TextFileError
from checked_input.yaml_text import yaml_of
from tausearch.runs import CampaignDirectory, Storage, replace_text
from trainables.errors import InputError


class CellRuns(Strict):
    """A cell of a campaign with the names of its runs.

    Attributes:
        title: The name of the cell: `digits/ita-lora`.
        search: Name of its search; None if it is not searched.
        final: Name of its final run.
        reevaluations: Number of re-evaluations of its search, if none is eliminated.
        steps: Number of tasks of a trial.
    """

    benchmark: str
    method: str
    title: str
    search: str | None
    final: str
    trials: int = Field(ge=0)
    reevaluations: int = Field(ge=0, default=0)
    seeds: int = Field(ge=1)
    steps: int = Field(ge=1)

    @property
    def tasks(self) -> int:
        """Number of tasks of all trials of the cell."""
        return (self.trials + self.reevaluations + self.seeds) * self.steps


KEPT = ("data_root", "tracking", "tracking_uri")
"""Options of a driver that hold for the next one if it is not given others."""


class CampaignCells(Strict):
    """The cells of a campaign, as its folder keeps them.

    Attributes:
        file: The campaign's file as the last driver was given it.
        gone: Cells that its file has named before.
        address: Address of the Ray cluster that the last driver joined; None for a Ray of its own.
        max_concurrent_trials: Trials at a time, as the last driver was asked for; None for as many as fit.
        redone: The cells that drivers were asked to start anew, until all cells are done or failed, or a driver was
            asked for none.
        data_root: The option `--data-root` as it was given last; None if it never was. So are the next two.
        tracking_uri: Without its password.
        code: The user's code, `MODULE:NAME`, that its runs import.
    """

    campaign: str
    file: str
    cells: tuple[CellRuns, ...]
    gone: tuple[CellRuns, ...] = ()
    address: str | None = None
    max_concurrent_trials: int | None = None
    redone: tuple[str, ...] = ()
    data_root: str | None = None
    tracking: str | None = None
    tracking_uri: str | None = None
    code: tuple[str, ...] = ()

    def save(self, directory: CampaignDirectory) -> None:
        """Write the cells to the campaign's folder."""
        replace_text(directory.spec_file, yaml_of(self.model_dump(mode="json")))

    def with_cell(self, runs: CellRuns) -> CampaignCells:
        """Return the cells with other names of runs for one of them."""
        cells = tuple(runs if each.title == runs.title else each for each in self.cells)
        return self.model_copy(update={"cells": cells})


def read_cells(directory: CampaignDirectory) -> CampaignCells:
    """Return the cells of a campaign.

    Raises:
        InputError: If there is no such campaign, or its file cannot be read.
    """
    path = directory.spec_file
    try:
        return read_model(path, CampaignCells.model_validate)
    except FileNotFoundError as error:
        storage = Storage(directory.path.parent.parent)
        there = choices(directory.name, [each.name for each in storage.campaigns()])
        raise InputError(f"no campaign named {directory.name!r} in {storage.root}; {there}") from error
    except TextFileError as error:
        raise InputError(f"{path}: {error}") from error


def gone_cells(directory: CampaignDirectory) -> list[CellRuns]:
    """Return the cells that have left a campaign's file; none of them is a method and benchmark that it still names."""
    kept = read_cells(directory)
    places = {(cell.benchmark, cell.method) for cell in kept.cells}
    return [cell for cell in kept.gone if (cell.benchmark, cell.method) not in places]


def campaign_of(storage: Storage, run: str) -> str | None:
    """Return the name of the readable campaign that a run belongs to; None if there is none."""
    for directory in storage.campaigns():
        with suppress(InputError):
            if any(run in (cell.search, cell.final) for cell in read_cells(directory).cells):
                return directory.name
    return None
