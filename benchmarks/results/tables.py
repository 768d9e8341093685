"""The tables themselves, as Markdown, from what the runs have left."""

from __future__ import annotations

import datetime
import json
import platform
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from benchmarks.overhead import inside
from benchmarks.performance.kept import commit_here
from benchmarks.results.page import as_table
from tausearch.campaigns import CampaignStatus, CellStatus, pilots_of
from tausearch.cluster import local_cpus
from tausearch.presentation import brief, clock
from tausearch.reports import as_ablation_text, as_evaluation_text, read_final_runs
from tausearch.runs import Storage, TrialSummary
from trainables.metrics import TEST

SPREAD = "validation: worst / start / chosen"
HEADER = ("method", "chosen configuration", SPREAD, "test", "incremental", "pooled", "forgetting", "trial")


def provenance(status: CampaignStatus) -> str:
    """Return which code made the tables, when, on what, and how long it took."""
    drives = [json.loads(line) for line in status.directory.drives_file.read_text().splitlines()]
    seconds = sum(drive["seconds"] for drive in drives)
    busy = inside(status.cells) / (local_cpus() * seconds)
    machine = f"{local_cpus()} cores ({platform.machine()}), no GPU"
    return (
        f"Commit {commit_here()}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {machine}; the campaign of"
        f" {len(status.cells)} cells took {clock(seconds)}"
        f" ([hours:]minutes:seconds), {100 * busy:.0f} % of the slots' time inside trials.{_plan(status)}"
    )


def _plan(status: CampaignStatus) -> str:
    """Return the estimate of `campaign plan --pilot` and the actual time inside trials, by benchmark."""
    pilots = pilots_of(status.directory)
    said: defaultdict[str, float] = defaultdict(float)
    took: defaultdict[str, float] = defaultdict(float)
    for each in status.cells:
        if each.runs.title in pilots:
            trials, seeds = each.runs.trials, each.runs.seeds
            said[each.runs.benchmark] += pilots[each.runs.title].pace.seconds(trials + seeds, min(1, trials) + seeds)
            took[each.runs.benchmark] += inside([each])
    parts = [f"{clock(said[name])} and {clock(took[name])} on {name}" for name in said]
    return f" Estimate of `campaign plan --pilot` and actual time: {'; '.join(parts)}." if parts else ""


def tables(storage: Storage, status: CampaignStatus) -> dict[str, str]:
    """Return every table of the page by the name of its place."""
    benchmarks = list(dict.fromkeys(each.runs.benchmark for each in status.cells))
    by_name = {name: [each for each in status.cells if each.runs.benchmark == name] for name in benchmarks}
    found = {name: _cells(cells) for name, cells in by_name.items()}
    found |= {f"{name} searches": searches(cells) for name, cells in by_name.items()}
    names = {each.runs.final for each in status.cells}
    runs = [run for run in read_final_runs(storage)[0] if any(run.spec.name.startswith(name) for name in names)]
    return {**found, "ablations": as_ablation_text(runs), "evaluation": as_evaluation_text(storage, runs)}


def searches(cells: Sequence[CellStatus]) -> str:
    """Say in a sentence how far the trials of a search lie apart, and what searching gained over the start."""
    searched = [(each, [t.value for t in each.search.trials]) for each in cells if each.search and each.best]
    if not searched:
        return ""
    worst_below = [_best(values) - min(v for v in values if v is not None) for _, values in searched]
    gained = {each.runs.method: _best(values) - values[0] for each, values in searched if values[0] is not None}
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


def _cells(cells: Sequence[CellStatus]) -> str:
    ranked = sorted(cells, key=lambda each: -1.0 if each.accuracy is None else -each.accuracy.mean)
    return as_table(HEADER, map(_row, ranked))


def _row(each: CellStatus) -> tuple[str, ...]:
    scores = each.scores or {}
    others = map(scores.get, (TEST.average_incremental_accuracy, TEST.pooled_accuracy, TEST.forgetting))
    return (
        f"`{each.runs.method}`",
        _chosen(each),
        _spread(each),
        each.reason or "" if each.accuracy is None else each.accuracy.text(),
        *("" if score is None else score.text() for score in others),
        _seconds(each),
    )


def _chosen(each: CellStatus) -> str:
    if each.search is None or each.best is None:
        return ""
    return brief(dict(each.best.hyperparameters), list(each.search.spec.dimensions)).replace("=", " ")


def _spread(each: CellStatus) -> str:
    """Return the worst, the first and the best value of a search: what searching gains, and how much depends on it."""
    if each.search is None or each.best is None:
        return ""
    values = [trial.value for trial in each.search.trials if trial.value is not None]
    return f"{min(values):.1f} / {_value(each.search.trials[0])} / {max(values):.1f}"


def _value(trial: TrialSummary) -> str:
    return trial.status if trial.value is None else f"{trial.value:.1f}"


def _seconds(each: CellStatus) -> str:
    trials = [] if each.search is None else [trial for trial in each.search.trials if trial.status == "complete"]
    return f"{sum(trial.seconds for trial in trials) / len(trials):.1f} s" if trials else ""
