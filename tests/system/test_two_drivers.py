"""Two drivers at once: in one storage root on one Ray cluster, and on one and the same search."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tausearch.runs import Storage, is_driven
from tests.support.searches import (
    assert_mlflow_has_each_task_once,
    run,
    started,
    study_trials,
    trials_of,
    without_time,
)
from tests.support.services import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

# Both methods read the same entries of the pre-consolidation store, which the one finds while the other computes them.
SEARCHES = {
    "lora": ["ita-lora", "--set", "alpha=50", "--set", "alpha_cls=0.1", "--set", "alpha_cls_prior=0.01"],
    "ia3": ["ita-ia3", "--set", "alpha=50", "--set", "alpha_cls=0.1", "--set", "alpha_cls_prior=0.01"],
}
TRIALS = 2


def arguments(name: str, storage: Path) -> list[str]:
    options = ["--algorithm", "grid", "--trials", str(TRIALS), "--name", name, "--storage", str(storage)]
    return ["search", "digits", *SEARCHES[name], *options]


def test_two_searches_in_one_storage_root_on_one_cluster(address: str, tmp_path: Path) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"
    together.mkdir()  # empty: both drivers make the tracking store and the pre-consolidation store
    outs = {name: tmp_path / f"{name}.txt" for name in SEARCHES}
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(
                started(*arguments(name, together), "--address", address, cwd=tmp_path, out=outs[name])
            )
            for name in SEARCHES
        }
        for name, process in processes.items():
            assert process.wait(900) == 0, outs[name].read_text()
    for name in SEARCHES:
        run(*arguments(name, alone), "--address", address, cwd=tmp_path)
        trials = trials_of(together, name)
        assert [trial.status for trial in trials] == ["complete"] * TRIALS
        assert without_time(trials) == without_time(trials_of(alone, name))
        assert len(study_trials(together, name)) == TRIALS
        assert_mlflow_has_each_task_once(together, name, trials)
    entries = [{file.name for file in Storage(root).store.iterdir()} for root in (together, alone)]
    assert entries[0] == entries[1] and entries[0]


def test_a_second_driver_of_a_search_is_refused_and_disturbs_nothing(address: str, tmp_path: Path) -> None:
    root, out = tmp_path / "runs", tmp_path / "out.txt"
    search = ["search", "digits", "finetune", "--algorithm", "grid", "--concurrent", "1", "--name", "s"]
    place = ["--storage", str(root), "--address", address]
    with started(*search, *place, cwd=tmp_path, out=out) as process:

        def under_way() -> bool:
            assert process.poll() is None, out.read_text()
            return is_driven(Storage(root).run("s"))

        wait_until(under_way, 400, "the first driver")
        spec = (root / "s" / "run.yaml").read_bytes()
        for second in (["resume", "s"], ["extend", "s", "--trials", "7"]):
            refused = run(*second, *place, cwd=tmp_path, code=2)
            assert refused == "tausearch: run 's' is being driven by another process\n"
        assert process.poll() is None, "it ended before the others were refused"
        assert (root / "s" / "run.yaml").read_bytes() == spec
        assert process.wait(400) == 0, out.read_text()
    trials = trials_of(root, "s")
    assert [trial.status for trial in trials] == ["complete"] * 6
    assert [[row["task"] for row in trial.rows] for trial in trials] == [[1, 2, 3, 4, 5]] * 6
    assert_mlflow_has_each_task_once(root, "s", trials)
