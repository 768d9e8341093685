"""What a campaign leaves for people: the chosen configurations, and the table beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tausearch.campaigning.standing import CampaignStanding, CellStanding
from tausearch.choosing import load_best, start_of
from tausearch.comparison import as_texts, read_final_runs
from tausearch.runs import CampaignDirectory, RunSpec, Storage, replace_text
from trainables.data import reference

SUFFIXES: Mapping[str, str] = {"markdown": ".md", "latex": ".tex", "csv": ".csv"}


def write_outputs(storage: Storage, standing: CampaignStanding) -> list[Path]:
    """Write the best file of every cell that has chosen, and the comparison of every final run that has ended.

    Args:
        storage: The storage root.
        standing: The campaign.

    Returns:
        The files.
    """
    best = [_write_best(storage, standing.directory, each) for each in standing.cells]
    return [*(path for path in best if path is not None), *_write_comparison(storage, standing)]


def _write_best(storage: Storage, directory: CampaignDirectory, cell: CellStanding) -> Path | None:
    """Write a cell's chosen configuration; that of a cell that is not searched is the one that it was trained with."""
    target = directory.best_file(reference(cell.cell.benchmark).slug, cell.cell.method)
    if cell.cell.search is not None:
        source = storage.run(cell.cell.search).best_file
        if not source.exists():
            return None
        best = load_best(source)
    elif cell.final is not None:
        best = start_of(_untouched(cell.final.spec))
    else:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    best.save(target)
    return target


def _untouched(spec: RunSpec) -> RunSpec:
    return spec.model_copy(update={"start": {}})


def _write_comparison(storage: Storage, standing: CampaignStanding) -> list[Path]:
    """Write the campaign's own final runs beside the paper's, as Markdown, LaTeX and CSV; nothing without one."""
    names = {each.cell.final for each in standing.cells}
    runs = [run for run in read_final_runs(storage)[0] if run.spec.name in names]
    if not runs:
        return []
    files = []
    for form, text in as_texts(runs).items():
        files.append(standing.directory.path / f"comparison{SUFFIXES[form]}")
        replace_text(files[-1], text)
    return files
