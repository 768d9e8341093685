"""The plots of a search, described once for its figures and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from operator import attrgetter

from search_spaces import Range
from tausearch.presentation.plots import ACCENT, BEST, FAINT, AccuracyAxis, Axis, Facet, Mark, Plot, Series
from tausearch.runs import Importance, Objective, SearchSpec, TrialSummary, best_trial, correlation_interval

# Finished trials; with a dozen, shares of the same function go from 0.5 to 0.8 (docs/how-to/report.md).
_ENOUGH_TO_RANK = 30


@dataclass(frozen=True)
class SearchPlots:
    """The plots of a search; a plot is None where the trials do not suffice for it."""

    spec: SearchSpec
    all_trials: Sequence[TrialSummary]  # the trials, ordered by number; plots show those that have ended
    importances: Mapping[str, Importance] = field(default_factory=dict)  # by hyperparameter
    correlations: Mapping[int, float] = field(default_factory=dict)  # by task
    chosen: int | None = None  # number of the trial that is chosen, by fresh runs where there are any

    @cached_property
    def trials(self) -> list[TrialSummary]:
        """Trials that have ended."""
        return [trial for trial in self.all_trials if trial.has_ended]

    @cached_property
    def finished(self) -> list[TrialSummary]:
        """Trials that finished the last task."""
        return [trial for trial in self.trials if trial.status == "complete" and trial.value is not None]

    @cached_property
    def best(self) -> TrialSummary | None:
        """The best trial that keeps the constraints."""
        return best_trial(self.trials, self.spec.aim)

    @cached_property
    def accuracies(self) -> AccuracyAxis:
        """The axis of final accuracies."""
        return AccuracyAxis.of([trial.value or 0.0 for trial in self.finished])

    @property
    def warning(self) -> str:
        """A sentence where trials are too few to tell which hyperparameters matter; else nothing."""
        few = len(self.finished) < _ENOUGH_TO_RANK
        return " So few trials say little: another search may show another order." if few else ""

    def history(self) -> Plot | None:
        """Return the final accuracy of every trial, and the best so far; or the objective that chooses a trial."""
        if not self.finished:
            return None
        by = self.spec.aim.chosen_by
        if by is not None and by.metric != self.spec.metrics.final_accuracy:
            return self._history_of(by)
        values = {trial.number: trial.value or 0.0 for trial in self.finished}
        kept = {trial.number: values[trial.number] for trial in self.finished if self.spec.aim.admits(trial)}
        first = min(kept, default=math.inf)
        after = [trial.number for trial in self.trials if trial.number >= first]
        best = list(accumulate((kept.get(number, self.spec.worst) for number in after), max))
        most = max(values, key=lambda number: values[number])
        chosen = "none keeps the constraints" if self.best is None else f"trial {self.best.number} is the best"
        chosen = f"trial {most} is the most accurate" if self.spec.aim.by_knee else chosen
        rings = self._rings({number: self.accuracies.place(value) for number, value in values.items()})
        if rings and self.best is not None and self.best.number != self.chosen:
            chosen += f", trial {self.chosen} is chosen"
        caption = (
            f"{self.spec.value_labels.caption} on the validation split of {len(values)} finished trials, from"
            f" {min(values.values()):.2f} to {self.spec.value_text(max(values.values()))}; {chosen}."
        )
        points = self._points(lambda trial: trial.number, self.trials)
        steps = [Series(after, best, "best so far", kind="steps", colour=BEST)] if kept else []
        series = [*steps, *points, *rings]
        return self._plot("History", caption, [Facet(Axis("trial", integer_ticks=True), series)])

    def _rings(self, heights: Mapping[int, float]) -> list[Series]:
        if self.chosen is None or self.chosen not in heights:
            return []
        return [Series([self.chosen], [heights[self.chosen]], "chosen", colour=BEST, mark="ring")]

    def _history_of(self, objective: Objective) -> Plot | None:
        values = {each.number: value for each in self.finished if (value := objective.value(each)) is not None}
        if not values:
            return None
        better = max if objective.direction == "maximize" else min
        kept = {each.number: values[each.number] for each in self.finished if self.spec.aim.admits(each)}
        best = list(accumulate(kept.values(), better))
        caption = (
            f"The {objective.name} of {len(values)} finished trials, from {objective.text(min(values.values()))} to"
            f" {objective.text(max(values.values()))}."
        )
        series = [
            *([Series(list(kept), best, "best so far", kind="steps", colour=BEST)] if kept else []),
            Series(list(values), list(values.values()), "trial", trials=list(values)),
            *self._rings(values),
        ]
        return Plot("History", caption, Axis(objective.label), [Facet(Axis("trial", integer_ticks=True), series)])

    def slices(self) -> Plot | None:
        """Return the final accuracy against each hyperparameter, a facet for each."""
        if not self.finished or not self.spec.space:
            return None
        facets = [self._slice(name) for name in self.spec.space]
        caption = f"{self.spec.value_labels.caption} against each hyperparameter. Later trials are yellower."
        plot = self._plot("Slices", caption, facets)
        return replace(plot, scale=("trial", 0, max(1, self.finished[-1].number)))

    def front(self) -> Plot | None:
        """Return the final accuracy over forgetting and over time, and the Pareto front of accuracy and forgetting.

        With several objectives it is the first of them over each of the others, and the front of all.
        """
        if len(self.finished) < 2:
            return None
        front = self.spec.aim.front(self.finished)
        numbers = f"the most accurate first: {', '.join(str(trial.number) for trial in front)}."
        if len(self.spec.objectives) > 1:
            return self._front_of_objectives(front, numbers)
        costs = {
            "forgetting (points)": attrgetter("forgetting"),
            "own time of all tasks (s)": attrgetter("own_seconds"),
        }
        heights = [self.accuracies.place(trial.value or 0.0) for trial in front]
        facets = []
        for label, cost in costs.items():
            rings = Series([cost(trial) for trial in front], heights, "Pareto front", colour=BEST, mark="ring")
            facets.append(Facet(Axis(label), [*self._points(cost, self.finished), rings]))
        caption = (
            f"{self.spec.value_labels.caption}, forgetting and time of the finished trials. Ringed: those that no other"
            f" beats in accuracy and forgetting, the Pareto front, {numbers}"
            " Time does not count there: all took the same steps, and seconds differ from run to run."
        )
        return self._plot("What accuracy costs", caption, facets)

    def _front_of_objectives(self, front: Sequence[TrialSummary], numbers: str) -> Plot:
        first, *others = self.spec.objectives
        measured = [trial for trial in self.finished if len(self.spec.aim.objective_values(trial)) == 1 + len(others)]
        chosen = [trial for trial in measured if trial.number == self.chosen]
        drawn = (measured, "trial", ACCENT), (chosen, "chosen", BEST)

        def of(objective: Objective, trials: Sequence[TrialSummary]) -> list[float]:
            return [objective.value(trial) or 0.0 for trial in trials]

        facets = []
        for each in others:
            points = [
                Series(of(each, some), of(first, some), name, colour=colour, trials=[trial.number for trial in some])
                for some, name, colour in drawn
                if some
            ]
            rings = Series(of(each, front), of(first, front), "Pareto front", colour=BEST, mark="ring")
            facets.append(Facet(Axis(each.label), [*points, rings]))
        caption = (
            f"The objectives of {len(measured)} finished trials: {self.spec.aim}."
            f" {f'Trial {chosen[0].number} is chosen.' if chosen else 'No trial is chosen.'}"
            f" Ringed: those that no other beats in all objectives, the Pareto front, {numbers}"
        )
        if any(any(series.counts) for facet in facets for series in facet.series):
            caption += " ×2: two trials at one place."
        return Plot("The front of the objectives", caption, Axis(first.label), facets)

    def bars(self) -> Plot | None:
        """Return the importances with their intervals."""
        if not self.importances:
            return None
        names = tuple(self.importances)[::-1]
        shown = [self.importances[name] for name in names]
        bars = Series(
            [each.share for each in shown],
            names,
            kind="bars",
            low=[each.low for each in shown],
            high=[each.high for each in shown],
            hover=[f"{name}: {each.text()}" for name, each in zip(names, shown, strict=True)],
        )
        caption = (
            f"What sets the best of {len(self.finished)} finished trials apart (PED-ANOVA), with 90 % intervals over"
            f" resampled trials.{self.warning}"
        )
        numbers = f"Shares: {'; '.join(f'{name} {each.text()}' for name, each in self.importances.items())}."
        facet = Facet(Axis("share", ends=(0, 1.02)), [bars])
        return Plot("Importances", caption, Axis("", words=names), [facet], numbers)

    def early_accuracy(self) -> Plot | None:
        """Return the rank correlations with their intervals."""
        if not self.correlations:
            return None
        found, finished, step = self.correlations, len(self.finished), self.spec.step_noun
        between = {k: correlation_interval(value, finished) for k, value in found.items()}
        line = Series(
            list(found),
            list(found.values()),
            kind="line",
            low=[low for low, _ in between.values()],
            high=[high for _, high in between.values()],
            hover=[f"after {step} {k}: {found[k]:.2f} ({low:.2f} to {high:.2f})" for k, (low, high) in between.items()],
        )
        caption = (
            f"How far the order of trials after {step} k tells their order at the end (Spearman's rank correlation,"
            f" over {finished} finished trials, with 95 % intervals)."
            " Near 1, stopping early can be trusted; near 0, not."
        )
        numbers = f"After {step} {', '.join(f'{k}: {value:.2f}' for k, value in found.items())}."
        facet = Facet(Axis(f"after {step}", integer_ticks=True), [line])
        return Plot(
            "Early stopping's trust", caption, Axis("rank correlation", (-1.05, 1.05), zero=True), [facet], numbers
        )

    def task_by_task(self) -> Plot | None:
        """Return the average accuracy after each finished task, a line per trial; a failed trial has none."""
        drawn = [trial for trial in self.trials if trial.rows and trial.status != "failed"]
        if not drawn:
            return None
        name, best = self.spec.metrics.average_accuracy, None if self.best is None else self.best.number
        lines = [
            Series(
                [row["task"] for row in trial.rows],
                [row[name] for row in trial.rows],
                kind="line",
                colour=BEST if trial.number == best else ACCENT if trial.status == "complete" else FAINT,
                thin=trial.number != best,
                trials=[trial.number],
            )
            for trial in drawn
        ]
        ended_early = sum(trial.status != "complete" for trial in drawn)
        grey = f", {ended_early} that did not reach the last {self.spec.step_noun} grey" if ended_early else ""
        caption = f"Accuracy over the {self.spec.step_noun}s seen so far, a line per trial; the best one thick{grey}."
        axis = AccuracyAxis.of([row[name] for trial in drawn for row in trial.rows])
        if below := sum(any(row[name] < axis.floor for row in trial.rows) for trial in drawn):
            caption += f" Lines that leave the plot below: {below}."
        facet = Facet(Axis(f"after {self.spec.step_noun}", integer_ticks=True), lines)
        return Plot(
            f"{self.spec.step_noun.capitalize()} by {self.spec.step_noun}",
            caption,
            axis.labelled("average accuracy (%)"),
            [facet],
        )

    def axis_of(self, name: str) -> Axis:
        """Return the axis of a hyperparameter: numbers of a range; choices that were tried, as words."""
        dimension = self.spec.space[name]
        if isinstance(dimension, Range):
            return Axis(name, log=dimension.log)
        tried = {str(trial.hyperparameters[name]) for trial in self.trials}
        return Axis(name, words=tuple(text for text in map(str, dimension.choices) if text in tried))

    def _slice(self, name: str) -> Facet:
        axis = self.axis_of(name)

        def place(trial: TrialSummary) -> float | str:
            value = trial.hyperparameters[name]
            return str(value) if axis.words else float(value)

        tried = [trial.hyperparameters[name] for trial in self.finished]
        if self.spec.space[name].numbers:
            caption = f"Tried from {min(tried):.3g} to {max(tried):.3g}."
        else:
            caption = f"Tried: {', '.join(sorted(set(map(str, tried))))}."
        chosen = [trial for trial in self.finished if trial.number == self.chosen]
        heights = [self.accuracies.place(trial.value or 0.0) for trial in chosen]
        rings = [Series(list(map(place, chosen)), heights, "chosen", colour=BEST, mark="ring")] if chosen else []
        return Facet(axis, [*self._points(place, self.trials, scaled=True), *rings], caption)

    def _plot(self, title: str, caption: str, facets: Sequence[Facet]) -> Plot:
        """Return a plot of final accuracies; its caption explains the marks at the lower edge."""
        marks = {series.mark for facet in facets for series in facet.series}
        below = [value for trial in self.finished if (value := trial.value or 0.0) < self.accuracies.floor]
        if "triangle" in marks:
            where = f"{'at' if len(below) == 1 else 'down to'} {self.spec.value_text(min(below), 1)}"
            caption += f" Triangles at the lower edge: {len(below)} far below the others, {where}."
        if "cross" in marks:
            caption += " Crosses at the lower edge: stopped early, diverged or failed."
        if any(any(series.counts) for facet in facets for series in facet.series):
            caption += " ×2: two trials at one place."
        return Plot(title, caption, self.accuracies.labelled(self.spec.value_labels.axis), facets)

    def _points(
        self, x: Callable[[TrialSummary], float | str], trials: Sequence[TrialSummary], *, scaled: bool = False
    ) -> list[Series]:
        """Return the final accuracies of trials over `x`, with marks at the lower edge for those off the axis.

        If `scaled`, the colour of a finished trial is its number on the plot's scale.
        """
        shown = [trial for trial in trials if trial.value is not None and trial.status == "complete"]
        below = [trial for trial in shown if (trial.value or 0.0) < self.accuracies.floor]
        without = [trial for trial in trials if trial.status != "complete"]  # one that failed at its end has a value

        def series(some: Sequence[TrialSummary], name: str, mark: Mark, colour: str = ACCENT) -> Series:
            numbers = [trial.number for trial in some]
            y = [trial.value or 0.0 if mark == "circle" else self.accuracies.edge for trial in some]
            colours = numbers if scaled and colour == ACCENT else colour
            return Series([x(trial) for trial in some], y, name, colour=colours, mark=mark, trials=numbers)

        marks = (
            series(shown, "trial", "circle"),
            series(below, "far below", "triangle"),
            series(without, "stopped, diverged or failed", "cross", FAINT),
        )
        return [each for each in marks if each.x]
