"""A sequence that takes its first tasks from the vectors of another one: equal to an unbroken one, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.methods.small_digits import COMPOSABLE, run
from trainables.backbones import Backbone
from trainables.composition import SavedVector, VectorPool, vector_folders
from trainables.data import build_benchmark, get_source
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence
from trainables.state import State
from trainables.user_code import allow_code

SMALL = "tests.support.methods.small_digits:SOURCE"
WITHOUT = {"the second task": f"{SMALL}?task=0,1&task=4,5", "class 3": f"{SMALL}?task=0,1&task=2,4,5"}
allow_code(SMALL)
CASES: Mapping[str, Mapping[str, Any]] = {
    "ita-lora": {},
    "ita-fft": {"heads": "averaged"},
    "ita-ia3": {},
    "iel-lora": {"heads": "averaged"},
    "iel-fft": {},
}


def made(
    method: str, values: Mapping[str, Any], name: str = SMALL, folder: Path | None = None, **more: Any
) -> IncrementalSequence:
    hyperparameters = {**COMPOSABLE.get(method, {}), "lr": 0.01, **values}
    benchmark = build_benchmark(get_source(name), "final")
    return IncrementalSequence(benchmark, method, hyperparameters, backbone=Backbone(), artifacts=folder, **more)


def vectors(folder: Path) -> list[SavedVector]:
    return list(VectorPool(tuple(vector_folders(folder))))


def require_equal(state: State, other: State) -> None:
    assert state.values == other.values and state.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(value, other.tensors[name]) for name, value in state.tensors.items())


@pytest.mark.parametrize("method", [*CASES, "tmc", "tak"])
def test_two_tasks_of_three_are_taken_from_their_vectors(method: str, tmp_path: Path) -> None:
    values = {"strength": 0.1, "alpha": 0.7} if method == "tak" else CASES.get(method, {})
    measured = {"removability": method in ("ita-lora", "tak")}  # it needs the vectors of the first tasks, too
    whole, then = made(method, values, folder=tmp_path, **measured), made(method, values, **measured)
    first = [whole.run_next_task() for _ in range(2)]
    then.continue_after(vectors(tmp_path), whole.accuracies)
    require_equal(then.state(), whole.state())
    assert len(first) == then.tasks_done == 2 and run(then) == [repeatable(whole.run_next_task())]
    require_equal(then.state(), whole.state())


@pytest.mark.parametrize("gone", WITHOUT)
@pytest.mark.parametrize("method", ["ita-lora", "iel-fft"])
def test_without_classes_the_first_tasks_are_those_of_a_sequence_with_them(
    method: str, gone: str, tmp_path: Path
) -> None:
    """Draws depend on the seed, and on the numbers of task and class: up to the first task that lost one, all equal."""
    with_them, anew, then = (made(method, {}, name, tmp_path / name[-5:]) for name in (SMALL, *2 * (WITHOUT[gone],)))
    with_them.run_next_task()
    then.continue_after(vectors(with_them.artifacts or tmp_path), with_them.accuracies)
    rows = run(anew)
    assert run(then) == rows[1:]
    require_equal(then.state(), anew.state())


def test_a_run_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """On a machine that does not see the storage the vectors would lie where nobody finds them."""
    with pytest.raises(FileNotFoundError):
        made("ita-ia3", {}, folder=tmp_path / "run" / "task_vectors" / "seed_0").run_next_task()
    assert list(tmp_path.iterdir()) == []
