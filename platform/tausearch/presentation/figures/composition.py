"""Pictures of task vectors and of what is composed of them, after the figures of the paper.

The rows of each picture, as `models.analysis` makes them, with the columns that it reads:

- risks, a row for each run and seed: `run`, `composed`, `individuals`, `pretrained` (nats; None where unknown);
- Theorem 1, for each run and scale: `run`, `scale`, `size`, `composed`, `second_order`, `gap`;
- cosines, for each seed and pair of tasks: `task`, `other`, `cosine`;
- alignment, for each pair of runs, seed and task: `run`, `other`, `task` (0: composed), `cosine`;
- times, for each run, benchmark, task and stage: `run`, `benchmark`, `stage`, `seconds`, `cache` (1: from the cache).
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tausearch.presentation.figures.style import (
    WIDE,
    legend_layout,
    make_logarithmic,
    new_figure,
    one_pair_of_axes,
    plain,
)
from trainables.metrics import STAGES
from trainables.task_names import titles

_LEAST_SIDE = 1.7  # inches of a square of cosines: beside a smaller one the colour bar has no room for its label
_LARGE_RISK = 10.0  # nats, far above that of guessing
Rows = Sequence[Mapping[str, Any]]
_KINDS = {"composed": "composed model", "individuals": "mean of individual models", "pretrained": "theta_0 with h0"}
_MARKS = "osD^v"  # for each ten colours
_TIMED = STAGES[:2]  # the paper times what comes before evaluation


def risk_figure(rows: Rows) -> Figure:
    """Draw the risk of composed models against its bound and the pre-trained model's; the paper's Figure 1."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    figure, axes = one_pair_of_axes((7.0, 1.6 + 0.6 * len(runs)))
    for shift, (kind, name) in zip((-0.22, 0.0, 0.22), _KINDS.items(), strict=True):
        by_run = [[r[kind] for r in rows if r["run"] == run and r[kind] is not None] for run in runs]
        found = [_mean_and_deviation(values) for values in by_run]
        places = [number + shift for number, value in enumerate(found) if value]
        axes.errorbar(
            [value[0] for value in found if value],
            places,
            xerr=[value[1] for value in found if value],
            fmt="o",
            label=name,
        )
    axes.set_yticks(range(len(runs)), list(map(plain, runs)), fontsize=8)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlabel("cross-entropy on the test images of all tasks (nats)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def theorem_figure(rows: Rows) -> Figure:
    """Draw both sides of Theorem 1 over the size of the task vectors, and the gap between them."""
    figure = new_figure((9.0, 4.0), layout="constrained")
    risks, gaps = figure.subplots(1, 2)
    for number, run in enumerate(dict.fromkeys(row["run"] for row in rows)):
        own = [row for row in rows if row["run"] == run]
        x, colour = [row["size"] for row in own], f"C{number}"
        risks.plot(x, [row["composed"] for row in own], "o-", color=colour, label=plain(run))
        risks.plot(x, [row["second_order"] for row in own], "--", color=colour)
        gaps.plot(x, [abs(row["gap"]) for row in own], "o-", color=colour, label=plain(run))
        below = [row for row in own if row["gap"] < 0]
        negative = ([row["size"] for row in below], [-row["gap"] for row in below])
        gaps.plot(*negative, "o", color=colour, markerfacecolor="white")
        (learned,) = [row["size"] for row in own if row["scale"] == 1]
        gaps.axvline(learned, color=colour, linestyle=":", linewidth=0.8)
    risks.set(xlabel="mean size of the scaled task vectors", ylabel="nats")
    values = [abs(row[name]) for row in rows for name in ("composed", "second_order")]
    if max(values) > max(_LARGE_RISK, 100 * min(values)):  # far vectors, which would flatten all others
        risks.set_yscale("symlog")
    risks.set_title("composed risk (solid), bound less Omega (dashed)", fontsize=9)
    gaps.set(xlabel="mean size of the scaled task vectors", ylabel="nats")
    make_logarithmic(gaps, "x")
    if any(row["gap"] for row in rows):  # of one task it is 0
        make_logarithmic(gaps, "y")
    gaps.set_title("size of the gap, hollow where negative; dotted: the vectors as learned", fontsize=9)
    for axes in (risks, gaps):
        axes.grid(alpha=0.3)
    risks.legend(fontsize=7)
    return figure


def cosine_figure(rows: Rows, labels: Sequence[str] = ()) -> Figure:
    """Draw the cosines of all pairs of tasks of a run, averaged over its seeds; `labels` are the names of the tasks."""
    count = max(row["task"] for row in rows)
    cells = [[0.0] * count for _ in range(count)]
    for s in range(count):
        for t in range(count):
            cells[s][t] = statistics.fmean(r["cosine"] for r in rows if (r["task"], r["other"]) == (s + 1, t + 1))
    side = max(0.42 * count, _LEAST_SIDE)
    figure, axes = one_pair_of_axes((1.8 + side, 1.4 + side))
    image = axes.imshow(cells, vmin=-1, vmax=1, cmap="RdBu_r")
    for s, line in enumerate(cells):
        for t, value in enumerate(line):
            ink = "white" if abs(value) > 0.6 else "black"
            axes.text(t, s, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
    named = [plain(title) for title in titles(labels, count)]
    axes.set_xticks(range(count), named, rotation=90 if labels else 0, fontsize=8)
    axes.set_yticks(range(count), named, fontsize=8)
    axes.set(xlabel="task", ylabel="task")
    figure.colorbar(image, label="cosine of task vectors")
    return figure


def alignment_figure(rows: Rows) -> Figure:
    """Draw how the task vectors of pairs of runs lie to each other; the paper's Figure 2."""
    pairs = list(dict.fromkeys((row["run"], row["other"]) for row in rows))
    width, height = WIDE
    abreast, fits = legend_layout([*map(" and ".join, pairs)], width, most=2)
    figure, axes = one_pair_of_axes((width, height + 0.2 * len(pairs) / abreast))
    for number, pair in enumerate(pairs):
        own = [row for row in rows if (row["run"], row["other"]) == pair]
        tasks = sorted({row["task"] for row in own} - {0})
        found = [_mean_and_deviation([r["cosine"] for r in own if r["task"] == task]) for task in (*tasks, 0)]
        values, spreads = zip(*(value for value in found if value), strict=True)
        colour, mark = f"C{number % 10}", _MARKS[number // 10 % len(_MARKS)]
        name = plain(textwrap.fill(" and ".join(pair), fits))
        axes.errorbar(tasks, values[:-1], yerr=spreads[:-1], fmt=f"{mark}-", color=colour, label=name)
        axes.axhline(values[-1], color=colour, linestyle="--")
    axes.set(xlabel="task t", ylabel="cosine", title="task vectors tau_t (points) and composed ones (dashed)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=abreast, frameon=False, fontsize=8)
    return figure


def time_figure(rows: Rows) -> Figure:
    """Draw the time that a task takes in preconsolidation and training; the paper's Figure 3."""
    bars = list(dict.fromkeys((row["run"], row["benchmark"]) for row in rows))
    runs = [run for run, _ in bars]
    names = [run if runs.count(run) == 1 else f"{run} on {benchmark}" for run, benchmark in bars]
    figure, axes = one_pair_of_axes((7.0, 1.4 + 0.4 * len(bars)))
    left = [0.0] * len(bars)
    for stage in _TIMED:
        own = [[row for row in rows if (row["run"], row["benchmark"], row["stage"]) == (*bar, stage)] for bar in bars]
        # What the cache had says nothing of the time that it takes.
        computed = [[row["seconds"] for row in each if not row["cache"]] for each in own]
        for place, each in enumerate(own):
            if each and not computed[place]:
                names[place] += f"\n{stage} from the cache"
        widths = [statistics.fmean(each) if each else 0.0 for each in computed]
        axes.barh(range(len(bars)), widths, left=left, label=stage)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(bars)), list(map(plain, names)))
    axes.invert_yaxis()
    axes.set(xlabel="seconds per task, mean over tasks and seeds")
    axes.tick_params(axis="y", labelsize=8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float] | None:
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
