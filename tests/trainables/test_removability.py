"""What each task loses without its vector: as the saved vectors tell it, through a checkpoint, and refused."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.support.methods.small_digits import COMPOSABLE, run, small_digits
from trainables.backbones import Backbone
from trainables.composition import VectorPool, network_for, vector_folders
from trainables.errors import InputError
from trainables.evaluation import Predict, accuracies
from trainables.methods import METHODS, Composable
from trainables.metrics import TEST, removability
from trainables.sequence import IncrementalSequence
from trainables.state import read_state, write_state

FAR = {"ita-lora": 0.02, "iel-fft": 0.004, "ita-ia3": 0.3, "tmc": 0.002, "tak": 0.004}  # a vector carries its task
OWN = {"tak": {"strength": 0.1}}
NAMES = ("test/removability", "test/removability/target", "test/removability/rest", "test/removability/forgotten")


def made(
    method: str, artifacts: Path | None = None, *, measured: bool = True, heads: str = "concatenated"
) -> IncrementalSequence:
    values = {**COMPOSABLE.get(method, {}), **OWN.get(method, {}), "lr": FAR.get(method, 0.001)}
    if heads != "concatenated":
        values["heads"] = heads
    return IncrementalSequence(
        small_digits(), method, values, backbone=Backbone(), artifacts=artifacts, removability=measured
    )


def answers_of_others(predict: Predict, classes: range, x: torch.Tensor) -> torch.Tensor:
    """1 at the best of all classes but these, and 0 elsewhere."""
    logits = predict(x)
    kept = torch.tensor([label for label in range(logits.shape[1]) if label not in classes])
    return F.one_hot(kept[logits[:, kept].argmax(1)], logits.shape[1])


@pytest.mark.parametrize("method", FAR)
def test_it_is_what_the_saved_vectors_say_and_changes_nothing_else(method: str, tmp_path: Path) -> None:
    sequence = made(method, tmp_path)
    rows = run(sequence)
    found = [rows[-1].pop(name) for name in NAMES]
    images = sequence.benchmark.evaluation
    assert rows == run(made(method, measured=False))
    assert accuracies(sequence.method.predict, images, "cpu") == sequence.accuracies[-1], "the whole is back"
    pool = VectorPool(tuple(vector_folders(tmp_path)))
    network, without, forgotten = network_for(pool, Backbone(), torch.device("cpu")), [], []
    for out, task in enumerate(sequence.benchmark.tasks):
        network.compose(pool, [0.0 if t == out else 0.5 for t in range(3)], pool.head())
        without.append(accuracies(network.predict, images, "cpu"))
        forgotten.append(accuracies(partial(answers_of_others, network.predict, task.classes), images, "cpu"))
    assert found == list(removability(sequence.accuracies[-1], without, forgotten))
    assert found[1] != 0 and found[0] == pytest.approx(found[1] - found[2]), "vectors that carry something"
    assert [row[out] for out, row in enumerate(forgotten)] == [0.0] * 3 and found[3] >= found[0]


@pytest.mark.parametrize("method", ["ita-lora", "tmc", "tak"])
def test_an_error_within_another_composition_ends_it(method: str) -> None:
    sequence = made(method)
    run(sequence)
    assert sequence.leave_one_task_out is not None and isinstance(sequence.method, Composable)
    with pytest.raises(KeyError), sequence.method.composed(sequence.leave_one_task_out.vectors, [1.0, 0.0, 0.0]):
        raise KeyError
    assert accuracies(sequence.method.predict, sequence.benchmark.evaluation, "cpu") == sequence.accuracies[-1]


@pytest.mark.parametrize("method", ["ita-lora", "ita-ia3"])
def test_averaged_heads_stay_as_they_are_when_a_vector_is_left_out(method: str, tmp_path: Path) -> None:
    """They keep their share 1 / T, also the rows of the task that is left out, as rows side by side do."""
    sequence = made(method, tmp_path, heads="averaged")
    last = run(sequence)[-1]
    pool, images = VectorPool(tuple(vector_folders(tmp_path))), sequence.benchmark.evaluation
    weights, biases = zip(*(vector.head for vector in pool), strict=True)
    network, found = network_for(pool, Backbone(), torch.device("cpu")), []
    for head in (pool.head(), (torch.cat(weights), torch.cat(biases))):
        without = []
        for out in range(3):
            network.compose(pool, [0.0 if task == out else 0.5 for task in range(3)], head)
            without.append(accuracies(network.predict, images, "cpu"))
        found.append(removability(sequence.accuracies[-1], without, without)[:3])
    assert tuple(last[name] for name in NAMES[:3]) == found[0] != found[1]


@pytest.mark.parametrize("method", ["ita-lora", "tmc"])
def test_a_checkpoint_keeps_the_vectors(method: str, tmp_path: Path) -> None:
    whole, first = run(made(method)), made(method)
    first.run_next_task()
    first.run_next_task()
    (tmp_path / "checkpoint").mkdir()
    write_state(tmp_path / "checkpoint", first.state(), tmp_path / "blobs", {})
    del first
    gc.collect()
    second = made(method)
    second.load_state(read_state(tmp_path / "checkpoint", tmp_path / "blobs"))
    assert run(second) == whole[2:]
    assert not [name for name in made(method, measured=False).state().values if name.startswith("left_out")]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_only_methods_with_task_vectors_and_other_tasks_have_it(method: str) -> None:
    entry = METHODS[method]
    able = method.startswith(("ita-", "iel-", "tmc", "tak"))
    assert (entry.removability_fault(2) is None) == able
    assert entry.removability_fault(1)


def test_a_sequence_without_task_vectors_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^removability: finetune has no task vectors to leave out; .* ita-fft, .*tmc, tak$"
    ):
        made("finetune")


def test_falls_by_hand() -> None:
    whole = [90.0, 80.0, 70.0]
    without = [[30.0, 81.0, 70.0], [88.0, 50.0, 70.0], [90.0, 80.0, 40.0]]
    # targets fall by 60, 30 and 30; the others by -1, 0, 2, 0, 0 and 0
    forgotten = [[0.0, 84.0, 70.0], [91.0, 0.0, 70.0], [90.0, 81.0, 0.0]]
    # targets fall by 90, 80 and 70; the others by -4, 0, -1, 0, 0 and -1
    assert removability(whole, without, forgotten) == (39.833333333, 40.0, 0.166666667, 81.0)
    assert TEST.removability == NAMES
