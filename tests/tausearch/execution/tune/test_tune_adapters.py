"""A trial that fails under Tune, and the folder of a driver's attempt."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray.exceptions import RayTaskError
from ray.tune import Trainable
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from tausearch.execution import StorageWatch, tune_adapters
from tausearch.execution.observer import Observer, latest_error
from tausearch.execution.tune_adapters import (
    KEPT_SECONDS,
    FreeProcesses,
    TuneScheduler,
    TuneSearcher,
    _next_attempt,
    run_on_tune,
)
from tausearch.runs import RunDirectory, Status, TrialSummary
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import Runs, dispatcher_of, search_spec
from trainables.errors import InputError


def test_tune_keeps_no_result_of_a_trial_that_has_ended(trial: Trial, tmp_path: Path) -> None:
    trial.set_config({"run": "s", "trial": 0, "seed": 0, "hyperparameters": {}})
    (tmp_path / "run.yaml").touch()
    units = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]))
    observer = Observer(units, lambda: None, StorageWatch(RunDirectory(tmp_path)))
    last = {"task": 2.0, "val/average_accuracy": 50.0, "val/final_accuracy": 50.0, "done": True}
    for task in (1.0, 2.0):
        trial.update_last_result(last | {"task": task})
    trial._default_result_or_future = {"pid": 1}
    history = trial.run_metadata
    observer.on_trial_result(0, [], trial, last)
    observer.on_trial_complete(0, [], trial)
    assert history.metric_analysis and history.metric_n_steps and trial.last_result["task"] == 2.0  # Tune still reads
    observer.on_step_begin(1, [])
    assert history.metric_analysis == history.metric_n_steps == {} and set(trial.last_result) == {"trial_id"}


def fail(trial: Trial, cause: Exception, status: str = Trial.ERROR) -> list[bool]:
    """What Tune does when a trial fails; by default Tune will try it again. Returns whether it released processes."""
    trial.status = Trial.RUNNING
    trial.handle_error(RayTaskError("train", "traceback", cause))
    trial.status = status
    released: list[bool] = []
    tune = SimpleNamespace(_cleanup_cached_actors=lambda force_all: released.append(force_all), _reuse_actors=True)
    TuneScheduler(dispatcher_of(search_spec(), FixedSearcher([]))).on_trial_error(tune, trial)
    return released if tune._reuse_actors is False else []


def test_an_error_is_known_before_it_reaches_the_storage(trial: Trial) -> None:
    assert latest_error(trial) is None
    for text in ("first", "second"):
        fail(trial, OSError(text))
        assert str(latest_error(trial).cause) == text
    assert trial.get_pickled_error() is None


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory")


def test_out_of_memory_is_tried_again_on_a_whole_gpu(trial: Trial) -> None:
    assert fail(trial, OUT_OF_MEMORY) == [True]  # processes that wait for trials let go of the GPU
    assert trial.config["gpus_per_trial"] == 1.0
    assert trial.placement_group_factory.required_resources == {"CPU": 1, "GPU": 1}
    assert trial.max_failures == 1


@pytest.mark.parametrize(
    ("share", "cause", "status"),
    [
        (None, OUT_OF_MEMORY, Trial.ERROR),
        (0, OUT_OF_MEMORY, Trial.ERROR),
        (1, OUT_OF_MEMORY, Trial.ERROR),
        (0.25, RuntimeError("something else"), Trial.ERROR),
        (0.25, OUT_OF_MEMORY, Trial.RUNNING),  # Tune has given it up
    ],
)
def test_any_other_trial_keeps_its_share(trial: Trial, share: float | None, cause: Exception, status: str) -> None:
    trial.set_config({} if share is None else {"gpus_per_trial": share})
    assert fail(trial, cause, status) == [] and trial.config.get("gpus_per_trial") == share
    assert trial.placement_group_factory.required_resources == {"CPU": 1, "GPU": 0.25}


class Strict(FixedSearcher):
    """Wants a trial stopped that is below 50, and keeps how it ended."""

    end: tuple[Status, float | None] | None = None

    def report(self, number: int, step: int, value: float) -> bool:
        return value < 50

    def finish(self, number: int, status: Status, value: float | None) -> None:
        self.end = status, value


def test_tune_stops_a_trial_that_the_searcher_wants_stopped_and_ends_when_the_dispatcher_has(trial: Trial) -> None:
    strict = Strict([(0, {"lr": 0.1})])
    units = dispatcher_of(search_spec().model_copy(update={"name": "s"}), strict)
    searcher, scheduler = TuneSearcher(units), TuneScheduler(units)
    assert searcher.suggest("t") is not None and searcher.suggest("u") is None  # while the first runs
    trial.set_config({"run": "s", "trial": 0})
    results = ({"task": 1.0, "val/average_accuracy": value} for value in (50.0, 49.0))
    found = [scheduler.on_trial_result(None, trial, result) for result in results]
    assert found == [TrialScheduler.CONTINUE, TrialScheduler.STOP]
    searcher.on_trial_complete("t", {"task": 1.0, "val/average_accuracy": 49.0})
    assert searcher.suggest("u") == TuneSearcher.FINISHED and strict.end == ("pruned", None)


class Broken(FixedSearcher):
    """Fails at each report and at each end of a trial."""

    def report(self, number: int, step: int, value: float) -> bool:
        raise InputError("the pruner failed")

    def finish(self, number: int, status: Status, value: float | None) -> None:
        raise InputError("the sampler failed")


def test_an_error_of_the_users_code_ends_the_run_and_no_trial(trial: Trial) -> None:
    """Tune would take it for a failure of the trial, and train again what the record has."""
    units = dispatcher_of(search_spec().model_copy(update={"name": "s"}), Broken([(0, {"lr": 0.1})]))
    searcher, scheduler, queue = TuneSearcher(units), TuneScheduler(units), units.queue
    assert isinstance(queue, Runs) and searcher.suggest("t") is not None
    trial.set_config({"run": "s", "trial": 0, "seed": 0, "hyperparameters": {}})
    row = {"task": 2.0, "val/average_accuracy": 50.0, "val/final_accuracy": 50.0}
    assert scheduler.on_trial_result(None, trial, row) == TuneScheduler.CONTINUE
    assert queue.errors == ["s: the pruner failed"] and units.active == 1
    searcher.on_trial_complete("t", row)
    assert queue.errors[1:] == ["s: the pruner failed", "s: the sampler failed"] and units.active == 0
    assert searcher.suggest("u") == TuneSearcher.FINISHED


def test_the_last_result_of_a_trial_that_failed_is_not_reported_once_more() -> None:
    units = dispatcher_of(search_spec(), Broken([(0, {"lr": 0.1})]))
    searcher, queue = TuneSearcher(units), units.queue
    assert isinstance(queue, Runs) and searcher.suggest("t") is not None
    searcher.on_trial_complete("t", {"task": 2.0, "val/average_accuracy": 50.0}, error=True)
    assert [error.partition(": ")[2] for error in queue.errors] == ["the sampler failed"]


def test_an_error_of_a_pruner_that_a_listener_asks_ends_the_run_and_all_listeners_are_told(
    trial: Trial, tmp_path: Path
) -> None:
    """On several benchmarks the parts of a trial stop together."""
    told = []

    class Asks:
        def trial_changed(self, summary: TrialSummary) -> None:
            raise InputError("the pruner failed")

    class Told:
        def trial_changed(self, summary: TrialSummary) -> None:
            told.append(summary.number)

    trial.set_config({"run": "s", "trial": 0, "seed": 0, "hyperparameters": {}})
    units = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]), [Asks(), Told()])
    Observer(units, lambda: None, StorageWatch(RunDirectory(tmp_path))).on_trial_start(0, [], trial)
    assert isinstance(units.queue, Runs) and units.queue.errors == ["s: the pruner failed"] and told == [0]


@pytest.mark.parametrize("known", [True, False])
def test_an_error_of_a_listener_is_raised_as_it_is(
    known: bool, trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Denied:
        def trial_changed(self, summary: TrialSummary) -> None:
            raise PermissionError("not allowed")

    def fit(run_config: Any) -> None:
        (observer,) = run_config.callbacks
        trial.set_config({"run": "s", "trial": 0, "seed": 0, "hyperparameters": {}})
        if known:
            with suppress(PermissionError):
                observer.on_trial_start(0, [], trial)
        raise TuneError("a traceback")

    monkeypatch.setattr(
        tune_adapters.tune, "Tuner", lambda *given, **options: SimpleNamespace(fit=lambda: fit(options["run_config"]))
    )
    (tmp_path / "run.yaml").touch()
    home = RunDirectory(tmp_path)
    units = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]), [Denied()])
    with pytest.raises(PermissionError if known else TuneError):
        run_on_tune(units, home, Trainable, int, StorageWatch(home), before_first=int, own_ray=True)


def test_what_tune_has_written_is_removed_where_no_trial_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = RunDirectory(tmp_path)

    def fit(run_config: Any) -> None:
        (home.ray / run_config.name).mkdir(parents=True)
        raise InputError("a node is unfit")

    monkeypatch.setattr(
        tune_adapters.tune, "Tuner", lambda *given, **options: SimpleNamespace(fit=lambda: fit(options["run_config"]))
    )
    units = dispatcher_of(search_spec(), FixedSearcher([]))
    with pytest.raises(InputError, match="a node is unfit"):
        run_on_tune(units, home, Trainable, int, StorageWatch(home), before_first=int, own_ray=True)
    assert not home.ray.exists()


def test_no_two_drivers_share_a_folder_also_of_searches_of_one_name(tmp_path: Path) -> None:
    here, there = (RunDirectory(tmp_path / root / "s") for root in ("here", "there"))
    first = _next_attempt(here)
    (here.ray / first).mkdir(parents=True)
    second = _next_attempt(here)
    assert first.startswith("attempt-1-") and second.startswith("attempt-2-")
    (here.ray / first).rmdir()
    again = _next_attempt(here)  # of a run that was deleted and made anew
    assert again.startswith("attempt-1-") and len({first, second, again, _next_attempt(there)}) == 4


def test_a_trial_is_chosen_when_it_was_just_added_and_waits() -> None:
    scheduler = TuneScheduler(dispatcher_of(search_spec(), FixedSearcher([])))
    running, first, second = (
        SimpleNamespace(status=status) for status in (Trial.RUNNING, Trial.PENDING, Trial.PENDING)
    )
    wrapped = SimpleNamespace(_tune_controller=SimpleNamespace(_actor_cache=None, _trial_task_failure=print))
    for each in (running, first, second):
        scheduler.on_trial_add(wrapped, each)
    assert scheduler.choose_trial_to_run(None) is first
    assert scheduler.choose_trial_to_run(None) is None  # Tune itself asks for a process for the second


@pytest.mark.parametrize("own_ray", [True, False])
def test_the_processes_of_our_own_ray_have_no_environment_of_their_own(
    monkeypatch: pytest.MonkeyPatch, own_ray: bool
) -> None:
    """On a cluster they get the driver's variables as Tune gives them. A class is made once."""
    monkeypatch.setattr("ray.remote", lambda *classes, **options: options or (lambda: classes[0]))
    scheduler = TuneScheduler(dispatcher_of(search_spec(), FixedSearcher([])), own_ray=own_ray)
    controller = SimpleNamespace(_class_cache="of Tune", _actor_cache=None, _trial_task_failure=print)
    for _ in range(2):
        scheduler.on_trial_add(SimpleNamespace(_tune_controller=controller), SimpleNamespace(status=Trial.PENDING))
    if own_ray:
        made = controller._class_cache.get(SimpleNamespace)
        assert made() is SimpleNamespace and controller._class_cache.get(SimpleNamespace) is made
    else:
        assert controller._class_cache == "of Tune"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that `FreeProcesses` sees, in its only element."""
    now = [100.0]
    monkeypatch.setattr(tune_adapters, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_free_processes_wait_for_trials_to_come_and_one_of_them_for_ever(clock: list[float]) -> None:
    free = FreeProcesses()
    assert free.cache_object("small", "first")
    clock[0] += KEPT_SECONDS / 2
    assert free.cache_object("small", "second") and free.cache_object("small", "third")
    assert list(free.flush_cached_objects()) == []
    clock[0] += KEPT_SECONDS / 2 + 1
    assert list(free.flush_cached_objects()) == ["first"]
    clock[0] += KEPT_SECONDS
    assert list(free.flush_cached_objects()) == ["second"]
    assert free.pop_cached_object("small") == "third" and free.num_cached_objects == 0


def test_a_free_process_for_which_a_trial_waits_is_kept(clock: list[float]) -> None:
    free = FreeProcesses()
    for name in ("first", "second"):
        free.cache_object("small", name)
    free.increase_max("small", 2)
    clock[0] += 2 * KEPT_SECONDS
    assert list(free.flush_cached_objects()) == []
    assert list(free.flush_cached_objects(force_all=True)) == ["first", "second"]  # the driver ends


def test_free_processes_make_room_for_trials_with_other_resources(clock: list[float]) -> None:
    free = FreeProcesses()
    for name in ("first", "second"):
        free.cache_object("small", name)
    free.increase_max("large")
    assert free.cache_object("large", "fitting") and not free.cache_object("small", "third")
    assert list(free.flush_cached_objects()) == ["first", "second"]
    assert free.pop_cached_object("large") == "fitting"
    free.increase_max("small")
    assert free.cache_object("small", "third") and not free.cache_object("small", "fourth")  # one trial waits for it


def test_a_trial_that_waits_for_its_own_kind_of_process_takes_the_room_of_none(clock: list[float]) -> None:
    free = FreeProcesses()
    free.increase_max("small")
    assert all(free.cache_object("small", name) for name in ("first", "second"))
    assert list(free.flush_cached_objects()) == []
