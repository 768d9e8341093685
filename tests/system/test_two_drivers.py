"""Drivers at once: two searches in one storage root on one Ray cluster, and another driver of one of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tausearch.runs import Storage, is_driven
from tests.support.drivers.searches import (
    assert_mlflow_has_each_task_once,
    started,
    study_trials,
    trials_of,
    without_time,
)
from tests.support.drivers.services import wait_until
from tests.support.drivers.trained_here import without_ray

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

# Both methods read the same entries of the pre-consolidation cache, which the one finds while the other computes them.
SEARCHES = {
    "lora": ["ita-lora", "--set", "alpha=50", "--set", "alpha_cls=0.1", "--set", "alpha_cls_prior=0.01"],
    "ia3": ["ita-ia3", "--set", "alpha=50", "--set", "alpha_cls=0.1", "--set", "alpha_cls_prior=0.01"],
}
TRIALS, TASKS = 2, 2


def arguments(name: str, storage: Path) -> list[str]:
    size = ["--tasks", str(TASKS), "--epochs", "1", "--trials", str(TRIALS), "--max-concurrent-trials", "1"]
    grid = ["--algorithm", "grid", "--name", name, "--storage", str(storage)]
    return ["search", "digits", *SEARCHES[name], *size, *grid]


def assert_a_second_driver_is_refused(call: Callable[..., str], root: Path, name: str, place: list[str]) -> None:
    spec = (root / name / "run.yaml").read_bytes()
    for second in (["resume", name], ["extend", name, "--trials", "6"]):
        refused = call(*second, "--storage", str(root), *place, code=2)
        assert refused == f"tausearch: run '{name}' is being driven by another process\n"
    assert (root / name / "run.yaml").read_bytes() == spec


def test_two_searches_in_one_storage_root_on_one_cluster_and_a_third_driver_is_refused(
    call: Callable[..., str], address: str, tmp_path: Path
) -> None:
    together, alone, place = tmp_path / "together", tmp_path / "alone", ["--address", address]
    together.mkdir()  # empty: both drivers make the tracking store and the pre-consolidation store
    outs = {name: tmp_path / f"{name}.txt" for name in SEARCHES}
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(*arguments(name, together), *place, cwd=tmp_path, out=outs[name]))
            for name in SEARCHES
        }

        def under_way() -> bool:
            assert processes["lora"].poll() is None, outs["lora"].read_text()
            return is_driven(Storage(together).run("lora"))

        wait_until(under_way, 400, "the driver whose search is asked for again")
        assert_a_second_driver_is_refused(call, together, "lora", place)
        assert processes["lora"].poll() is None, "it ended before the others were refused"
        for name, process in processes.items():
            assert process.wait(900) == 0, outs[name].read_text()
    for name in SEARCHES:
        with without_ray(tmp_path / "tune"):
            call(*arguments(name, alone), "--tracking", "none")
        trials = trials_of(together, name)
        assert [trial.status for trial in trials] == ["complete"] * TRIALS
        assert [[row["task"] for row in trial.rows] for trial in trials] == [[1, 2]] * TRIALS
        assert without_time(trials) == without_time(trials_of(alone, name))
        assert len(study_trials(together, name)) == TRIALS
        assert_mlflow_has_each_task_once(together, name, trials)
    entries = [{file.name for file in Storage(root).cache.iterdir()} for root in (together, alone)]
    assert entries[0] == entries[1] and entries[0]
