"""The plots of a search and of a final run on the page; the contour and the times are there only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from statistics import fmean

import optuna

from tausearch.presentation import ACCENT, BEST, FAINT, Axis, Facet, Plot, SearchPlots, Series, clock, number
from tausearch.reports.html.plots import COLOURS, PagePlot, draw_plot, make_plot, pointing, ticks
from tausearch.runs import RunSpec, SearchSpec, TrialSummary, importances
from tausearch.studies import study_of
from trainables.metrics import CACHE_HIT, PRECONSOLIDATION, STAGES, seconds

_MOST_IN_CONTOUR = 100  # trials: its matrix grows with their square
_LONGEST = 200  # letters of an error that are shown


def search_plots(plots: SearchPlots) -> Iterator[PagePlot]:
    """Yield the plots of a search for which it has enough trials, in the order of the page."""
    if not plots.trials:
        return
    plots = replace(plots, importances=importances(_study(plots)))
    for plot in (plots.history(), plots.task_by_task(), plots.front()):
        if plot is not None:
            yield draw_plot(plot)
    if (bars := plots.bars()) is not None:
        yield draw_plot(bars, height=90 + 34 * len(plots.importances))
    if len(plots.importances) > 1:
        yield from _contour(plots, *list(plots.importances)[:2])
    if (early := plots.early_accuracy()) is not None:
        yield draw_plot(early, height=260)


def slice_plots(slices: Plot) -> Iterator[PagePlot]:
    """Yield a small plot for each facet, with the hyperparameter as its title."""
    for facet in slices.facets:
        alone = [replace(facet, x=replace(facet.x, label=""))]
        yield draw_plot(replace(slices, title=facet.x.label, caption=facet.caption, facets=alone), height=230)


def hover_text(spec: SearchSpec, trial: TrialSummary) -> str:
    """Return the trial and its searched hyperparameters, as plotly shows them: it reads markup."""
    reached = spec.words(trial) if trial.value is not None else f"{trial.status} at {spec.step_noun} {trial.tasks_done}"
    values = [f"{name} = {number(trial.hyperparameters.get(name))}" for name in spec.space]
    lines = [*values, *([trial.error[:_LONGEST]] if trial.error else [])]
    head = f"<b>trial {trial.number}</b>: {reached}, {clock(trial.seconds)}"
    return "<br>".join([head, *(escape(line, quote=False) for line in lines)])


def time_plot(trials: Sequence[TrialSummary], spec: RunSpec) -> PagePlot | None:
    """Return seconds per task and stage, mean over trials that finished the last task; None without times."""
    by_task = list(zip(*(trial.rows for trial in trials), strict=True))
    times = {stage: [fmean(row.get(seconds(stage), 0.0) for row in rows) for rows in by_task] for stage in STAGES}
    shown = {stage: found for stage, found in times.items() if any(found)}
    if not shown:
        return None
    tasks = [int(rows[0]["task"]) for rows in by_task]
    colours = dict(zip(STAGES, (BEST, ACCENT, FAINT), strict=True))
    bars = []
    for stage, found in shown.items():
        hover = [
            f"task {spec.step_title(task)}, {stage}: {value:.1f} s" for task, value in zip(tasks, found, strict=True)
        ]
        bars.append(Series(tasks, found, stage, kind="bars", colour=colours[stage], hover=hover))
    parts = ", ".join(f"{stage} {clock(sum(found))}" for stage, found in shown.items())
    noun = spec.trial_noun
    each = f"a {noun}, mean over {noun}s" if len(trials) > 1 else f"the {noun}"
    hours = "[hours:]" if max(map(sum, shown.values())) >= 3600 else ""
    caption = f"Of {each}: {parts} ({hours}minutes:seconds)."
    if any(row.get(CACHE_HIT) for rows in by_task for row in rows):
        caption += f" What the cache had of {PRECONSOLIDATION} took no time."
    plot = Plot("Time per task and stage", caption, Axis("seconds"), [Facet(Axis("task", integer_ticks=True), bars)])
    return draw_plot(plot, height=260)


def _study(plots: SearchPlots) -> optuna.Study:
    """Return Optuna's study of trials that have ended, feasible or not."""
    return study_of(plots.spec.model_copy(update={"constraints": ()}), plots.trials, accuracy_alone=True)


def _contour(plots: SearchPlots, first: str, second: str) -> Iterator[PagePlot]:
    """Draw the two hyperparameters that matter most, if each was tried at more than one value."""
    if any(len({trial.hyperparameters[name] for trial in plots.finished}) < 2 for name in (first, second)):
        return
    best = sorted(plots.finished, key=lambda trial: -(trial.value or 0.0))[:_MOST_IN_CONTOUR]
    shown = replace(plots, all_trials=sorted(best, key=lambda trial: trial.number))
    figure = optuna.visualization.plot_contour(_study(shown), params=[first, second], target_name="accuracy")
    surface, points = figure.data[:2]
    values = [trial.value or 0.0 for trial in shown.finished]
    surface.update(zauto=False, zmin=max(shown.accuracies.floor, min(values)), zmax=max(values))
    labels = plots.spec.value_labels
    surface.update(colorscale=COLOURS, reversescale=False, colorbar={"title": labels.unit, "thickness": 12})
    points.update(marker={"color": "#ffffff", "size": 7, "line": {"color": "#1f2733", "width": 1.5}})
    points.update(**pointing([trial.number for trial in shown.finished]))
    for side in (figure.layout.xaxis, figure.layout.yaxis):
        axis = plots.axis_of(side.title.text)
        side.update(
            {} if axis.words else ticks(axis, [float(trial.hyperparameters[axis.label]) for trial in shown.finished])
        )
    every = f"the best {len(best)}" if len(best) < len(plots.finished) else "all"
    text = f"{labels.caption} over {first} and {second}, between the points of {every} finished trials."
    text += " The surface between points is interpolated, not measured." + plots.warning
    yield make_plot(figure, "The two that matter most", text, height=340)
