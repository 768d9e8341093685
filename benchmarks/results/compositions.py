"""What the page says of compositions beside the paper's protocol: readings, merging rules, risks, alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot
from pathlib import Path
from statistics import fmean

import pandas as pd

import tausearch
from benchmarks.results.page import as_table
from tausearch.campaigns import CampaignStatus
from tausearch.models import UNLEARNING_MODES, read_evaluation
from tausearch.reports import paper_results
from tausearch.runs import Storage
from trainables.composition import RULES, curvatures_of

MEASURED = "digits"  # rules, risks and alignment are shown of one benchmark
COMPOSED = ("ita-lora", "iel-lora")
RISK_HEADER = ("run", "composed", "mean of individual models", "theta_0 with h0", "second-order view", "gap")
RISKS = ("ita-lora", "iel-lora", "ita-fft", "iel-fft")
ALIGNED = (("ita-fft", "iel-fft"), ("ita-lora", "iel-lora"))


def composition_tables(storage: Storage, status: CampaignStatus) -> dict[str, str]:
    """Measure what is not on the disk yet, and return the tables by the names of their places."""
    runs = {each.runs.method: each.runs.final for each in status.cells if each.runs.benchmark == MEASURED}
    folder = _draw(storage, runs)
    pairs = [(runs[one], runs[other]) for one, other in ALIGNED if one in runs and other in runs]
    return {
        "readings": readings(storage, status),
        "rules": as_table(("", *_rules()), _merged(storage, runs)),
        "risk": as_table(RISK_HEADER, risks(folder)),
        "alignment": as_table(("runs", "task by task", "composed"), alignment(folder, pairs)),
    }


def readings(storage: Storage, status: CampaignStatus) -> str:
    """Return what each reading of unlearning does to target and control, and how far that is from the paper's mean."""
    cells = [each.runs for each in status.cells if each.runs.method in COMPOSED]
    cells.sort(key=lambda cell: COMPOSED.index(cell.method))
    found = [(cell, read_evaluation(storage.run(cell.final))) for cell in cells]
    columns = [(cell, each) for cell, each in found if each is not None]
    header = ("reading", *(f"{cell.benchmark} `{cell.method}`" for cell, _ in columns))
    rows = []
    for reading in UNLEARNING_MODES:
        parts = []
        for cell, each in columns:
            scores = each.unlearning(reading)
            gains = scores["target_gain"].mean, scores["control_gain"].mean
            away = hypot(gains[0] - paper_gains(cell.method)[0], gains[1] - paper_gains(cell.method)[1])
            parts.append(f"{gains[0]:+.1f}, {gains[1]:+.1f} ({away:.1f})")
        rows.append((f"`{reading}`", *parts))
    paper = ("the paper's mean", *("{:+.1f}, {:+.1f}".format(*paper_gains(cell.method)) for cell, _ in columns))
    return as_table(header, [*rows, paper])


def paper_gains(method: str) -> tuple[float, float]:
    """Return the paper's gains of target and control, mean over its datasets, points."""
    cells = [cells[method].unlearning for cells in paper_results().composition.values() if method in cells]
    return fmean(cell.target_gain for cell in cells), fmean(cell.control_gain for cell in cells)


def _rules() -> tuple[str, ...]:
    """Return the rules that need nothing but the task vectors: these runs have saved no curvature."""
    return tuple(name for name, rule in RULES.items() if not curvatures_of(rule()))


def _merged(storage: Storage, runs: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for method in COMPOSED:
        if method in runs:
            found = [tausearch.compose([runs[method]], rule=rule, storage=storage.root) for rule in _rules()]
            yield f"`{method}`", *(each.result.summary()["test/final_accuracy"].text() for each in found)


def _draw(storage: Storage, runs: dict[str, str]) -> Path:
    """Draw the paper's figures of the runs that the tables are of; returns where their numbers lie."""
    folder = storage.root / "figures-of-results"
    names = [runs[method] for method in RISKS if method in runs]
    names += [f"{runs[method]}-none" for method in COMPOSED if method in runs]
    if not (folder / "alignment.csv").exists():
        tausearch.draw(names, output=folder, storage=storage.root)
    return folder


def risks(folder: Path) -> Iterator[tuple[str, ...]]:
    """Return the terms of eq. (jensencl), means over the seeds; both sides of Theorem 1, of the first seed; nats."""
    theorem = pd.read_csv(folder / "theorem1.csv").query("scale == 1").set_index("run")
    runs = pd.read_csv(folder / "risk.csv").groupby("run", sort=False)
    means = runs[["composed", "individuals", "pretrained"]].mean()
    for run, *values in means.join(theorem[["second_order", "gap"]]).itertuples():
        yield f"`{run}`", *(f"{value:.3f}" for value in values)


def alignment(folder: Path, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Return the cosines of the task vectors of two runs, means over tasks and seeds, and of their compositions."""
    cosines = pd.read_csv(folder / "alignment.csv").set_index(["run", "other", "task"])["cosine"].sort_index()
    for pair in pairs:
        mine = cosines[pair]
        yield "`{}`, `{}`".format(*pair), f"{mine.drop(0).mean():.2f}", f"{mine[[0]].mean():.2f}"
