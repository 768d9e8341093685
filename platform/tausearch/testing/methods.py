"""The contract of methods: each check is of a finished trial, which `record` makes, or of trials made for it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from checked_input.fields import require_argument
from tausearch.testing.benchmarks import small_digits
from tausearch.testing.reachable_objects import images_of, reachable
from tausearch.testing.recording import Recorded, record, shown
from trainables.backbones import Backbone, tuned_layers
from trainables.composition import VectorPool, network_for, read_curvature, read_vector, vector_folders
from trainables.methods import Composable, Method, get_method
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence
from trainables.state import State, check_state, read_state, write_state
from trainables.user_code import allow_typed, as_breach, folders_of


def check_method(method: str | type[Method], hyperparameters: Mapping[str, Any], *, least: float = 0.0) -> None:
    """Check a method against the contract `trainables.methods.Method`, on six digits in three tasks.

    It learns, draws from no global generator, repeats itself, resumes bit for bit, predicts the classes seen and no
    other, reports and leaves what it declares, and reaches no image of the evaluation through its attributes. The task
    vectors of a composable method compose to its own predictions.

    Args:
        method: Its class, or its name as on the command line. A `MODULE:NAME`, here and among the hyperparameters, is
            imported as one that you typed, from Python's path or the working folder.
        hyperparameters: With which it learns.
        least: The final accuracy that it must reach, percent; chance is 17.

    Raises:
        AssertionError: If the method breaks the contract, raises or diverges.
        InputError: If an argument is of another type.
    """
    require_argument(isinstance(method, str | type), "method", "a class, or a name", method)
    require_argument(isinstance(hyperparameters, Mapping), "hyperparameters", "a mapping", hyperparameters)
    name = method if isinstance(method, str) else f"{method.__module__}:{method.__name__}"
    named = [name, *(value for value in hyperparameters.values() if isinstance(value, str))]
    allow_typed(*(each for each in named if not folders_of([each])))  # keeps the folder of what is allowed already
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "artifacts").mkdir()

        def make(**options: Any) -> IncrementalSequence:
            given = {"backbone": Backbone(), "cache": folder / "cache", **options}
            return IncrementalSequence(small_digits(), name, hyperparameters, **given)

        with as_breach():
            _check_trials(name, make, folder, least)


def _check_trials(name: str, make: Callable[..., IncrementalSequence], folder: Path, least: float) -> None:
    saves = get_method(name).capabilities.curvature
    trial = record(make(artifacts=folder / "artifacts", save_curvature=saves), folder)
    check_learning(trial, least)
    check_declarations(trial)
    check_predictions(trial)
    check_vectors(trial)
    check_curvatures(trial)
    check_composition(trial, make)
    check_secrecy(trial.sequence, trial.reached)
    check_resuming(trial, make, folder)


def check_learning(trial: Recorded, least: float) -> None:
    """Check the rows of a trial, that it drew nothing global, and that its final accuracy is at least `least`."""
    assert not trial.draws, "draws from torch's global generator; make one with `trainables.randomness.make_generator`"
    last, sequence = trial.rows[-1], trial.sequence
    wanted = {"task", "train/loss", "test/average_accuracy", "test/final_accuracy", "test/forgetting"}
    assert wanted <= set(last), f"the last row lacks {sorted(wanted - set(last))}"
    by_task = [last[f"test/accuracy/task_{k}"] for k in range(1, len(sequence.benchmark.tasks) + 1)]
    assert last["test/final_accuracy"] == last["test/average_accuracy"]
    assert math.isclose(last["test/final_accuracy"], sum(by_task) / len(by_task))
    assert last["test/final_accuracy"] >= least, f"final accuracy {last['test/final_accuracy']:.1f} %, not {least:g} %"
    assert len(trial.rows) == len(sequence.tasks)


def check_declarations(trial: Recorded) -> None:
    """Check that neutral values are defaults, and that rows have no column that the method does not declare."""
    entry = trial.sequence.entry
    defaults = {field.name: field.default for field in dataclasses.fields(entry.config)}
    other = [name for name, value in entry.neutral_values.items() if defaults[name] != value]
    assert not other, f"neutral values are not the defaults: {', '.join(other)}"
    known = {"task", "train/loss", *(metric.name for metric in entry.metrics)}
    for row in trial.rows:
        extra = {name for name in row if name not in known and not name.startswith("test/")}
        assert not extra, f"rows have metrics that are not declared: {sorted(extra)}"
    assert entry.capabilities.tasks_to_peak >= 1, "tasks_to_peak must be at least 1"


def check_predictions(trial: Recorded) -> None:
    """Check that logits are finite, without a graph, and of exactly the classes seen."""
    images = len(trial.sequence.benchmark.evaluation[0])
    for task, done in zip(trial.sequence.tasks, trial.tasks, strict=True):
        assert done.logits.shape == (images, task.classes.stop), f"logits are {tuple(done.logits.shape)}"
        assert done.logits.isfinite().all(), "logits are not finite"
        assert not done.logits.requires_grad, "logits keep a graph; predict under torch.inference_mode"


def check_vectors(trial: Recorded) -> None:
    """Check that a composable method, and no other, leaves files after every task."""
    written = [0, *(done.artifacts for done in trial.tasks)]
    composable = trial.sequence.entry.capabilities.composable
    for task, (before, after) in enumerate(pairwise(written), start=1):
        assert (after > before) == composable, f"task {task} leaves {after - before} files, with {composable=}"


def check_curvatures(trial: Recorded) -> None:
    """Check that a method that declares a curvature leaves one for each task, of its own images and weights."""
    if not trial.sequence.entry.capabilities.curvature:
        return
    theta_0 = {f"{name}.weight": layer.weight for name, layer in tuned_layers(trial.sequence.backbone.load()).items()}
    for task, folder in zip(trial.sequence.tasks, vector_folders(trial.folder / "artifacts"), strict=True):
        with as_breach(f"the curvature of task {task.index} cannot be used: "):
            found = read_curvature(read_vector(folder), theta_0)
        assert found.examples == len(task.train), (
            f"the curvature of task {task.index} is over {found.examples} images, and the task has {len(task.train)}"
        )


def check_composition(trial: Recorded, make: Callable[[], IncrementalSequence]) -> None:
    """Check that the vectors of a composable method are what it predicts by, and what it can continue from."""
    sequence, method = trial.sequence, trial.sequence.method
    if not sequence.entry.capabilities.composable:
        return
    assert isinstance(method, Composable), "so its capabilities say"
    pool = VectorPool(tuple(vector_folders(trial.folder / "artifacts")))
    images, vectors = shown(sequence.benchmark.evaluation[0]), list(pool)
    uniform, first = [1 / len(pool)] * len(pool), [1.0] + [0.0] * (len(pool) - 1)
    network = network_for(vectors, sequence.backbone, sequence.device)
    classes = [task.classes for task in sequence.tasks]
    names = [task.classes for task in sequence.benchmark.spec.named_tasks]
    pool.require_fit(classes, network.theta_0, network.width, sequence.backbone.digest, names)
    before = method.predict(images)
    network.compose(pool, uniform, pool.head())
    close = torch.allclose(network.predict(images), before, rtol=1e-3, atol=1e-3)
    assert close, (
        "the uniform composition of the saved vectors, with weights 1/T for T tasks, predicts something else than the"
        " method; one that adds vectors up gives each the factor T as `scale`"
    )
    with method.composed(vectors, first):
        network.compose(pool, first, pool.head())
        close = torch.allclose(network.predict(images), method.predict(images), rtol=1e-3, atol=1e-3)
        assert close, "`composed` predicts by another composition than the one that was asked for"
    assert torch.equal(method.predict(images), before), "after `composed` the method predicts something else"
    restored = make().method
    assert isinstance(restored, Composable), "so its capabilities say"
    restored.continue_after(vectors)
    require_same(restored.state(), method.state())


def check_secrecy(sequence: IncrementalSequence, reached: list[set[bytes]]) -> None:
    """Check that each task's training images, and no evaluation image, could be reached; see `Recorded.reached`."""
    stored = set(images_of(each.images for each in sequence.benchmark.evaluation))
    evaluation = stored | set(images_of(map(shown, sequence.benchmark.evaluation)))
    for task, found in zip(sequence.tasks, reached, strict=True):
        assert set(images_of([task.train.images])) <= found, "the training images of a task are out of reach"
        assert not found & evaluation, f"images of the evaluation can be reached in task {task.index}"
    assert stored <= set(images_of(reachable(sequence))), "the walk does not find images of the evaluation"


def check_resuming(trial: Recorded, make: Callable[[], IncrementalSequence], folder: Path) -> None:
    """Check that a second trial repeats task 1, and that a third resumes it and repeats task 2, bit for bit."""
    nan = sorted({name for row in trial.rows for name, value in row.items() if value != value})
    assert not nan, f"metrics are NaN: {', '.join(nan)}"
    before, broken, resumed = torch.get_rng_state(), make(), make()
    assert repeatable(broken.run_next_task()) == trial.rows[0], "the first task of a second trial has another row"
    with as_breach("a trial that goes on from `load_state`: "):
        resumed.load_state(through_checkpoint(broken.state(), folder))
        erase(folder / "checkpoint")
        rows = [repeatable(resumed.run_next_task()) for _ in resumed.tasks[1:2]]
    assert rows == trial.rows[1:2], "a resumed trial has another row"
    require_same(resumed.state(), trial.state(resumed.tasks_done))
    assert torch.equal(before, torch.get_rng_state())


def through_checkpoint(state: State, folder: Path) -> State:
    """Return a state from a checkpoint and what it shares with others, as Tune's workers read it."""
    blobs, checkpoint = folder / "blobs", folder / "checkpoint"
    checkpoint.mkdir()
    write_state(checkpoint, state, blobs)
    assert check_state(checkpoint, blobs)
    return read_state(checkpoint, blobs)


def erase(checkpoint: Path) -> None:
    """Overwrite a checkpoint that was loaded: what a method keeps must be its own."""
    for file in checkpoint.iterdir():
        file.write_bytes(bytes(file.stat().st_size))


def require_same(one: State, other: State) -> None:
    """Check that two states are equal bit for bit."""
    assert one.values == other.values, "a resumed trial ends in another state: values differ"
    for found, wanted in ((one.tensors, other.tensors), (one.constant, other.constant)):
        assert found.keys() == wanted.keys(), "a resumed trial ends in another state: other tensors"
        differ = [name for name, tensor in found.items() if not torch.equal(tensor, wanted[name])]
        assert not differ, f"a resumed trial ends in another state: {', '.join(differ)} differ"
