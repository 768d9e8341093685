"""A process that dies, or was dead, when Tune uses it again for another trial."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial

from tausearch.execution.tune_adapters import MAX_FAILURES, TuneScheduler
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import dispatcher_of, search_spec


class Process:
    """Stands in for Tune's handle of a process."""

    def set_on_stop(self, function: object) -> None: ...

    def set_on_error(self, function: object) -> None: ...


class Controller(TuneController):
    """Tune's own handling of failures, with one trial that waits until a process is ready for it."""

    def __init__(self, trial: Trial) -> None:
        scheduler = TuneScheduler(dispatcher_of(search_spec(), FixedSearcher([])))
        self.trial = trial
        self.trial.max_failures = MAX_FAILURES
        self.process, self.told = Process(), list[str]()
        self._fail_fast = self._print_trial_errors = False
        self._iteration, self._earliest_stopping_actor = 0, 0.0
        self._cached_trial_decisions: Any = {}
        self._pending_trials, self._pending_trials_list = {self.trial}, [self.trial]
        self._running_trials, self._paused_trials, self._stopped_trials, self._failed_trials = (set() for _ in range(4))
        self._resources_to_pending_trials: Any = defaultdict(set)
        self._trials, self._live_trials, self._staged_trials = [self.trial], {self.trial}, {self.trial}
        self._resetting_trials, self._trials_to_cache = {self.trial}, set()
        self._actor_to_trial: Any = {self.process: self.trial}
        self._trial_to_actor: Any = {self.trial: self.process}
        self._started_actors, self._stopping_actors = {self.process}, {}
        nothing: Any = SimpleNamespace(
            **dict.fromkeys(
                ("clear_actor_task_futures", "remove_actor", "schedule_actor_task"), lambda *given, **options: False
            )
        )
        self._actor_manager = nothing
        self._search_alg: Any = SimpleNamespace(
            on_trial_complete=lambda trial, error: self.told.append("the searcher: over")
        )
        self._callbacks: Any = SimpleNamespace(
            on_trial_recover=lambda **given: self.told.append("again"),
            on_trial_error=lambda **given: self.told.append("failed"),
        )
        self._scheduler_alg = scheduler
        self._actor_cache: Any = None
        self._wrapped: Any = lambda: SimpleNamespace(_tune_controller=self)
        scheduler.on_trial_add(self._wrapped(), self.trial)
        self._actor_cache.increase_max(self.trial.placement_group_factory)


@pytest.mark.parametrize("told_first", ["process", "task"])
def test_the_trial_gets_another_process(told_first: str, trial: Trial) -> None:
    controller, error = Controller(trial), ActorDiedError()
    if told_first == "process":
        controller._actor_failed(controller.process, error)
    controller._trial_task_failure(trial, error)  # that of `reset`
    assert controller.told == ["again"] and trial.status == Trial.PENDING and trial.num_failures == 1
    assert not controller._resetting_trials and not controller._staged_trials, "Tune asks for a process again"


def test_after_that_many_failures_it_has_failed(trial: Trial) -> None:
    controller = Controller(trial)
    for number in range(MAX_FAILURES + 1):
        controller._actor_to_trial[controller.process] = trial
        controller._trial_to_actor[trial] = controller.process
        controller._set_trial_status(trial, Trial.RUNNING)
        controller._trial_task_failure(trial, ActorDiedError())
        assert controller.told[number] == ("again" if number < MAX_FAILURES else "the searcher: over")
    assert controller.told[-1] == "failed"
