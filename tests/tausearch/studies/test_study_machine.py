"""A search under any interleaving of starts, reports, ends and kills of its driver, against a model of a few lines.

The model is a table of trials as the record has them, and the median rule written out. What the machine compares with
it: which trial comes next and with which point, whether a trial is stopped, and all that Optuna is told.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tausearch.runs import TrialSummary
from tausearch.studies import OptunaSearcher
from tausearch.studies.grid import grid_points
from tausearch.studies.schedulers import FIRST_STOP, MEDIAN_OF
from tests.support.runs.trials import FIXED, search_spec
from trainables.metrics import VALIDATION

TRIALS, STEPS = 6, 8
AVERAGE = VALIDATION.average_accuracy
ENDED = {"complete": "COMPLETE", "pruned": "PRUNED", "diverged": "PRUNED", "failed": "FAIL", "running": "RUNNING"}
values = st.sampled_from([10.0, 50.0, 50.5, 60.0, 90.0])
which = st.integers(0, TRIALS - 1)


class Search(RuleBasedStateMachine):
    """A driver, its source, and the record that outlives both."""

    @initialize(algorithm=st.sampled_from(["random", "tpe", "grid"]), scheduler=st.sampled_from(["none", "median"]))
    def begin(self, algorithm: str, scheduler: str) -> None:
        changes = {"algorithm": algorithm, "scheduler": scheduler, "trials": TRIALS, "steps": STEPS}
        self.spec = search_spec().model_copy(update=changes)
        self.source = OptunaSearcher(self.spec)
        self.record: dict[int, TrialSummary] = {}
        self.waiting: list[int] = []  # that ran when the driver was killed
        self.out: list[int] = []  # that run
        self.stopped: set[int] = set()

    @rule()
    def start(self) -> None:
        suggestion = self.source.next()
        if not self.waiting and len(self.record) == TRIALS:
            assert suggestion is None
            return
        assert suggestion is not None
        number, point = suggestion
        assert number == (self.waiting.pop(0) if self.waiting else len(self.record))
        known = self.record.setdefault(number, TrialSummary(number, 0, "running", {**point, **FIXED}))
        assert known.hyperparameters == {**point, **FIXED}
        self.out.append(number)

    @precondition(lambda self: self.out)
    @rule(which=which, some=st.lists(values, min_size=1, max_size=STEPS - 1))
    def report(self, which: int, some: list[float]) -> None:
        self._advance(self.out[which % len(self.out)], some)

    @rule(all_of_them=st.lists(st.lists(values, min_size=2, max_size=STEPS - 1), min_size=TRIALS, max_size=TRIALS))
    def go_on(self, all_of_them: list[list[float]]) -> None:
        """All that may run do, and each gets on: so that there is something to compare with."""
        for _ in range(TRIALS - len(self.out)):
            self.start()
        for number, some in zip(list(self.out), all_of_them, strict=False):
            self._advance(number, some)

    def _advance(self, number: int, some: list[float]) -> None:
        for value in some[: STEPS - 1 - self.record[number].tasks_done]:
            if number not in self.stopped:
                self._report(number, value)
                trial = self.record[number]
                row = {"task": trial.tasks_done + 1.0, AVERAGE: value}
                self.record[number] = replace(trial, rows=[*trial.rows, row])

    def _report(self, number: int, value: float) -> None:
        step = self.record[number].tasks_done + 1
        others = [self._told(other).get(step) for other in self.record if other != number]
        there = [other for other in others if other is not None]
        if self.spec.scheduler == "median" and step >= FIRST_STOP and len(there) >= MEDIAN_OF:
            self.stopped |= {number} if value < statistics.median(there) else set()
        for _ in range(2):  # Tune tells of a trial's last task twice
            assert self.source.report(number, step, value) == (number in self.stopped)

    @precondition(lambda self: self.out)
    @rule(which=which, value=values)
    def complete(self, which: int, value: float) -> None:
        number = self.out[which % len(self.out)]
        if self.record[number].tasks_done == STEPS - 1 and number not in self.stopped:
            self._report(number, value)
            row = {"task": float(STEPS), AVERAGE: value, VALIDATION.final_accuracy: value}
            self._end(number, "complete", value, row)

    @precondition(lambda self: self.stopped & set(self.out))
    @rule()
    def prune(self) -> None:
        self._end(min(self.stopped & set(self.out)), "pruned")

    @precondition(lambda self: self.out)
    @rule(which=which)
    def diverge(self, which: int) -> None:
        number = self.out[which % len(self.out)]
        if number not in self.stopped:
            self._report(number, self.spec.worst)
            self._end(number, "diverged")

    @precondition(lambda self: self.out)
    @rule(which=which)
    def fail(self, which: int) -> None:
        self._end(self.out[which % len(self.out)], "failed")

    def _end(self, number: int, status: Any, value: float | None = None, *rows: dict[str, float]) -> None:
        self.source.finish(number, status, value)
        trial = self.record[number]
        self.record[number] = replace(trial, status=status, value=value, rows=[*trial.rows, *rows])
        self.out.remove(number)

    @rule(which=which, unwritten=st.booleans())
    def kill(self, which: int, unwritten: bool) -> None:
        """Continue from the record, which may lack a task that the study was told of."""
        if unwritten and self.out:
            number = self.out[which % len(self.out)]
            self.record[number] = replace(self.record[number], rows=self.record[number].rows[:-1])
        self.waiting = [number for number, trial in sorted(self.record.items()) if trial.status == "running"]
        self.out, self.stopped = [], set()
        self.source = OptunaSearcher(self.spec, [trial for _, trial in sorted(self.record.items())])

    def _told(self, number: int) -> dict[int, float]:
        trial = self.record[number]
        worst = {trial.tasks_done + 1: self.spec.worst} if trial.status == "diverged" else {}
        return {int(row["task"]): row[AVERAGE] for row in trial.rows} | worst

    @invariant()
    def optuna_knows_what_the_record_says(self) -> None:
        if not hasattr(self, "source"):
            return
        found = {self._point(t.params): t for t in self.source.study.optuna.trials if t.state.name != "WAITING"}
        points = {number: self._point(trial.hyperparameters) for number, trial in self.record.items()}
        assert len(set(points.values())) == len(points) and len(found) == len(points)
        for number in self.record:
            told, trial = found[points[number]], self.record[number]
            assert told.state.name == ENDED[trial.status] and told.intermediate_values == self._told(number)
            assert trial.value is None or told.value == trial.value
        if self.spec.algorithm == "grid":
            assert set(points.values()) <= {self._point(point) for point in grid_points(self.spec.space)}
        elif self.record:
            assert points[0] == self._point(self.spec.start)

    def _point(self, hyperparameters: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(hyperparameters[name] for name in self.spec.space)

    def teardown(self) -> None:
        """However it went, a driver that is let run ends every trial that was asked for, each once."""
        if not hasattr(self, "source"):
            return
        self.kill(0, unwritten=False)
        while len(self.out) < TRIALS and (self.waiting or len(self.record) < TRIALS):
            self.start()
        for number in list(self.out):
            self._end(number, "failed")
        assert self.source.next() is None and sorted(self.record) == list(range(TRIALS))
        self.optuna_knows_what_the_record_says()


Search.TestCase.settings = settings(max_examples=45, stateful_step_count=40)
TestSearch = Search.TestCase
