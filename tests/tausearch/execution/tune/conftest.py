"""A trial of Tune's."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial


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
