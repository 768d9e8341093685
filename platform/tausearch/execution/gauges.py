"""Gauges of a run among Ray's metrics, for Prometheus and Grafana."""

from __future__ import annotations

import logging
from collections import Counter
from functools import cache

from ray.util.metrics import Gauge

from tausearch.runs import STATUSES, Aim, RunSpec, SearchSpec, TrialSummary, TrialTable, best_trial, planned_trials
from trainables.metrics import CACHE_HIT

_RUN = ("run", "benchmark", "method")
_log = logging.getLogger(__name__)


@cache
def _gauge(name: str, description: str, *more: str) -> Gauge:
    """Return the gauge with a name. Ray allows each to be made once per process."""
    return Gauge(f"tausearch_{name}", description, tag_keys=(*_RUN, *more))


class Gauges:
    """A `TrialListener` that keeps the gauges of a run up to date.

    Prometheus has them as `ray_tausearch_trials` (by `state`), `ray_tausearch_tasks_done`,
    `ray_tausearch_preconsolidations` (by `source`: `cache` or `computed`) and `ray_tausearch_best_accuracy`, each with
    the labels `run`, `benchmark` and `method`. Trials in the state `running` are the busy slots.
    """

    def __init__(self, spec: RunSpec, trials: TrialTable) -> None:
        self.spec = spec
        self.trials = trials
        tags = {"run": spec.name, "benchmark": spec.benchmark, "method": spec.method}
        self._sources: Counter[float] = Counter()
        self._counted: dict[int, Counter[float]] = {}
        for trial in trials:
            self._count(trial)
        self._choose()
        # Ray allows no other characters, and a benchmark can be a folder with any name.
        self.tags = {name: text.encode("ascii", "backslashreplace").decode() for name, text in tags.items()}

    def trial_changed(self, trial: TrialSummary) -> None:
        """Set the gauges; a failure is logged and has no other effect."""
        try:
            self._count(trial)
            if trial.status != "running":
                self._choose()
            self._set()
        except Exception:  # Ray's metrics raise many kinds
            _log.warning("gauges of %s cannot be set", self.spec.name, exc_info=True)

    def _count(self, trial: TrialSummary) -> None:
        """Count the cache hits and misses of one trial again; other trials' counts stay."""
        now = Counter(row[CACHE_HIT] for row in trial.rows if CACHE_HIT in row)
        self._sources.update(now)
        self._sources.subtract(self._counted.get(trial.number, Counter()))
        self._counted[trial.number] = now

    def _choose(self) -> None:
        """Look at all trials: which is the best, and how many there will be. Both change only when a trial ends."""
        self._best = best_trial(self.trials, self.spec.aim if isinstance(self.spec, SearchSpec) else Aim())
        self._planned = planned_trials(self.spec, self.trials)

    def _set(self) -> None:
        states = self.trials.counts.copy()
        states["pending"] += self._planned - len(self.trials)
        gauge = _gauge("trials", "Number of trials by state.", "state")
        for state in STATUSES:
            gauge.set(states[state], {**self.tags, "state": state})
        _gauge("tasks_done", "Number of tasks that trials have finished.").set(self.trials.tasks_done, self.tags)
        gauge = _gauge("preconsolidations", "Number of tasks by where their pre-consolidation came from.", "source")
        gauge.set(self._sources[1.0], {**self.tags, "source": "cache"})
        gauge.set(self._sources[0.0], {**self.tags, "source": "computed"})
        if self._best is not None:
            value = self._best.final.get(self.spec.metrics.final_accuracy, self._best.value or 0.0)
            _gauge("best_accuracy", "Final accuracy of the best trial, percent.").set(value, self.tags)
