"""What is known of a trial that failed, at the moment at which Tune says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray.exceptions import RayTaskError
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial

from tausearch.execution.tune_adapters import TuneScheduler, latest_error
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import dispatcher_of, search_spec


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """A trial of Tune's that has a quarter of a GPU; its driver's files and its storage are two folders."""
    session = tmp_path / "session"
    monkeypatch.setattr("ray.train._internal.storage._get_ray_train_session_dir", lambda: str(session))
    storage = StorageContext(
        storage_path=str(tmp_path / "storage"), experiment_dir_name="search", trial_dir_name="trial"
    )
    made = Trial("none", stub=True, config={"gpus_per_trial": 0.25}, storage=storage)
    made.update_resources({"CPU": 1, "GPU": 0.25})
    Path(made.local_path).mkdir(parents=True)
    return made


def fail(trial: Trial, cause: Exception) -> tuple[TuneScheduler, Any]:
    """What Tune does when it will try a trial again; returns the scheduler that is told, and Tune."""
    trial.status = Trial.RUNNING
    trial.handle_error(RayTaskError("train", "traceback", cause))
    return TuneScheduler(dispatcher_of(search_spec(), FixedSearcher([]))), SimpleNamespace(
        _cleanup_cached_actors=lambda force_all: None
    )


def test_an_error_is_known_before_it_reaches_the_storage(trial: Trial) -> None:
    assert latest_error(trial) is None
    fail(trial, OSError("first"))
    assert str(latest_error(trial).cause) == "first"
    fail(trial, OSError("second"))
    assert str(latest_error(trial).cause) == "second"
    assert trial.get_pickled_error() is None


def test_out_of_memory_is_tried_again_on_a_whole_gpu_and_nothing_else_is(trial: Trial) -> None:
    scheduler, tune = fail(trial, RuntimeError("something else"))
    trial.status = Trial.ERROR
    scheduler.on_trial_error(tune, trial)
    assert trial.config["gpus_per_trial"] == 0.25
    fail(trial, torch.OutOfMemoryError("CUDA out of memory"))
    trial.status = Trial.ERROR
    scheduler.on_trial_error(tune, trial)
    assert trial.config["gpus_per_trial"] == 1.0
    assert trial.placement_group_factory.required_resources == {"CPU": 1, "GPU": 1}
    assert trial.max_failures == 2


@pytest.mark.parametrize("share", [None, 0, 1])
def test_a_trial_that_shares_no_gpu_is_not_tried_again(trial: Trial, share: float | None) -> None:
    trial.set_config({} if share is None else {"gpus_per_trial": share})
    scheduler, tune = fail(trial, torch.OutOfMemoryError("CUDA out of memory"))
    trial.status = Trial.ERROR
    scheduler.on_trial_error(tune, trial)
    assert trial.config.get("gpus_per_trial") == share
    assert trial.placement_group_factory.required_resources == {"CPU": 1, "GPU": 0.25}


def test_processes_that_wait_for_trials_let_go_of_the_gpu(trial: Trial) -> None:
    scheduler, tune = fail(trial, torch.OutOfMemoryError("CUDA out of memory"))
    trial.status = Trial.ERROR
    asked = []
    tune._cleanup_cached_actors = lambda force_all: asked.append(force_all)
    scheduler.on_trial_error(tune, trial)
    assert asked == [True] and tune._reuse_actors is False


def test_a_trial_that_is_given_up_keeps_its_share(trial: Trial) -> None:
    scheduler, tune = fail(trial, torch.OutOfMemoryError("CUDA out of memory"))
    scheduler.on_trial_error(tune, trial)
    assert trial.config["gpus_per_trial"] == 0.25
