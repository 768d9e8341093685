"""The tables themselves, as Markdown, from what the runs have left."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from benchmarks.overhead import inside
from benchmarks.results.page import as_table
from tausearch.campaigns import CampaignStanding, CellStanding, pilots_of
from tausearch.cluster import local_cpus
from tausearch.presentation import brief, clock
from tausearch.reports import as_ablation_text, as_evaluation_text, read_final_runs
from tausearch.runs import Storage, TrialSummary
from trainables.metrics import TEST

SPREAD = "validation: worst / start / chosen"
HEADER = ("method", "chosen configuration", SPREAD, "test", "incremental", "pooled", "forgetting", "trial")


def provenance(standing: CampaignStanding) -> str:
    """Return which code made the tables, when, on what, and how long it took."""
    drives = [json.loads(line) for line in standing.directory.drives_file.read_text().splitlines()]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    seconds = sum(drive["seconds"] for drive in drives)
    busy = inside(standing.cells) / (local_cpus() * seconds)
    machine = f"{local_cpus()} cores ({platform.machine()}), no GPU"
    return (
        f"Commit {commit.strip()}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {machine}; the campaign of"
        f" {len(standing.cells)} cells took {clock(seconds)}"
        f" ([hours:]minutes:seconds), {100 * busy:.0f} % of the slots' time inside trials.{_plan(standing)}"
    )


def _plan(standing: CampaignStanding) -> str:
    """Return the estimate of `campaign plan --pilot` and the actual time inside trials, by benchmark."""
    pilots = pilots_of(standing.directory)
    said: defaultdict[str, float] = defaultdict(float)
    took: defaultdict[str, float] = defaultdict(float)
    for each in standing.cells:
        if each.cell.title in pilots:
            trials, seeds = each.cell.trials, each.cell.seeds
            said[each.cell.benchmark] += pilots[each.cell.title].pace.seconds(trials + seeds, min(1, trials) + seeds)
            took[each.cell.benchmark] += inside([each])
    parts = [f"{clock(said[name])} and {clock(took[name])} on {name}" for name in said]
    return f" Estimate of `campaign plan --pilot` and actual time: {'; '.join(parts)}." if parts else ""


def tables(storage: Storage, standing: CampaignStanding) -> dict[str, str]:
    """Return every table of the page by the name of its place."""
    benchmarks = list(dict.fromkeys(each.cell.benchmark for each in standing.cells))
    by_name = {name: [each for each in standing.cells if each.cell.benchmark == name] for name in benchmarks}
    found = {name: _cells(cells) for name, cells in by_name.items()}
    found |= {f"{name} searches": searches(cells) for name, cells in by_name.items()}
    names = {each.cell.final for each in standing.cells}
    runs = [run for run in read_final_runs(storage)[0] if any(run.spec.name.startswith(name) for name in names)]
    return {**found, "ablations": as_ablation_text(runs), "evaluation": as_evaluation_text(storage, runs)}


def searches(cells: Sequence[CellStanding]) -> str:
    """Say in a sentence how far the trials of a search lie apart, and what searching gained over the start."""
    searched = [(each, [t.value for t in each.search.trials]) for each in cells if each.search and each.best]
    if not searched:
        return ""
    worst_below = [_best(values) - min(v for v in values if v is not None) for _, values in searched]
    gained = {each.cell.method: _best(values) - values[0] for each, values in searched if values[0] is not None}
    text = f"The worst trial of a search lies {_range(worst_below)} points below its best."
    if gained:
        text += f" The best lies {_range(list(gained.values()))} points above the start."
        unbeaten = [f"`{method}`" for method, points in gained.items() if points == 0]
        text += f" No trial beat the start of {', '.join(unbeaten)}." if unbeaten else ""
    return text


def _best(values: Sequence[float | None]) -> float:
    return max(value for value in values if value is not None)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f} (median {median(values):.1f})"


def _cells(cells: Sequence[CellStanding]) -> str:
    ranked = sorted(cells, key=lambda each: -1.0 if each.accuracy is None else -each.accuracy.mean)
    return as_table(HEADER, map(_row, ranked))


def _row(each: CellStanding) -> tuple[str, ...]:
    scores = each.scores or {}
    others = map(scores.get, (TEST.average_incremental_accuracy, TEST.pooled_accuracy, TEST.forgetting))
    return (
        f"`{each.cell.method}`",
        _chosen(each),
        _spread(each),
        each.reason or "" if each.accuracy is None else each.accuracy.text(),
        *("" if score is None else score.text() for score in others),
        _seconds(each),
    )


def _chosen(each: CellStanding) -> str:
    if each.search is None or each.best is None:
        return ""
    return brief(dict(each.best.hyperparameters), list(each.search.spec.dimensions)).replace("=", " ")


def _spread(each: CellStanding) -> str:
    """Return the worst, the first and the best value of a search: what searching gains, and how much depends on it."""
    if each.search is None or each.best is None:
        return ""
    values = [trial.value for trial in each.search.trials if trial.value is not None]
    return f"{min(values):.1f} / {_value(each.search.trials[0])} / {max(values):.1f}"


def _value(trial: TrialSummary) -> str:
    return trial.status if trial.value is None else f"{trial.value:.1f}"


def _seconds(each: CellStanding) -> str:
    trials = [] if each.search is None else [trial for trial in each.search.trials if trial.status == "complete"]
    return f"{sum(trial.seconds for trial in trials) / len(trials):.1f} s" if trials else ""
