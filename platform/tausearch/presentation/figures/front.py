"""What accuracy costs: final accuracy over forgetting and time, and the trials that no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tausearch.presentation.figures.style import WIDE, new_figure
from tausearch.runs import TrialSummary, pareto_front
from trainables.metrics import VALIDATION


def draw_front(finished: Sequence[TrialSummary]) -> Figure:
    """Draw finished trials of a search by accuracy, forgetting and seconds, those of the Pareto front ringed.

    Args:
        finished: Trials that finished the last task; at least one.

    Returns:
        The figure: accuracy over forgetting on the left, over the seconds of all tasks on the right.
    """
    front = {trial.number for trial in pareto_front(finished, VALIDATION)}
    ringed = [trial for trial in finished if trial.number in front]
    figure = new_figure(WIDE, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, of in ((left, attrgetter("forgetting")), (right, attrgetter("own_seconds"))):
        axes.scatter([of(trial) for trial in finished], [trial.value or 0.0 for trial in finished], s=24, label="trial")
        axes.scatter(
            [of(trial) for trial in ringed],
            [trial.value or 0.0 for trial in ringed],
            s=90,
            facecolors="none",
            edgecolors="tab:orange",
            label="Pareto front, time included",
        )
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.grid(alpha=0.3)
    left.set(xlabel="forgetting (points)", ylabel="final accuracy (%)")
    right.set(xlabel="own time of all tasks (s)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure
