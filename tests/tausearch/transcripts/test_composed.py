"""Commands that compose task vectors. What a composition answers is a formula of its weights and of its rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor

from tausearch.runs import FinalSpec, Record, RunDirectory, read_spec, write_results
from tests.support.runs.composable_runs import make_composable_run
from tests.support.terminal import Terminal
from trainables.composition import ChosenRule, ComposedNetwork
from trainables.data import ImageSet

CLASSES = 2  # of a task


@pytest.fixture
def trained(terminal: Terminal, no_mlflow: None, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A person with two final runs of three tasks, whose compositions answer by a formula."""
    for name, method, curvature in (("judged", "ita-lora", None), ("curved", "iel-lora", "diagonal")):
        _set_accuracies(make_composable_run(terminal.storage, name, method, curvature=curvature))
    compose = ComposedNetwork.compose

    def noting(network: Any, vectors: Any, weights: Any, head: Any, rule: ChosenRule | None = None) -> None:
        compose(network, vectors, weights, head, rule)
        network.answered = [_right_of_four(weight * len(weights), rule) for weight in weights]

    monkeypatch.setattr(ComposedNetwork, "compose", noting)
    for module in ("trainables.evaluation", "tausearch.models.removal.measure"):
        monkeypatch.setattr(f"{module}.answers", _answers)
    return terminal


def _set_accuracies(directory: RunDirectory) -> None:
    """Give a run's tests results of a formula: those of training differ from one processor to another."""
    spec = read_spec(directory)
    assert isinstance(spec, FinalSpec)
    names, trials = spec.metrics, Record(directory.record).trials()
    for trial in trials:
        for row in trial.rows:
            own = [100.0 - 25 * (task == trial.seed + 1) for task in range(1, int(row["task"]) + 1)]
            row |= {names.accuracy(task): value for task, value in enumerate(own, start=1)}
            row[names.average_accuracy] = sum(own) / len(own)
        row |= dict.fromkeys((names.final_accuracy, names.pooled_accuracy), row[names.average_accuracy])
        row |= {names.forgetting: 5.0, names.average_incremental_accuracy: 90.0}
        Record(directory.record, tasks=3).write(replace(trial, value=row[names.final_accuracy]))
    write_results(spec, directory, Record(directory.record).trials())


def _right_of_four(weight: float, rule: ChosenRule | None) -> int:
    """Return how many of four images are classified right of a task with a weight; 1 is that of a mean."""
    moved = 0 if rule is None else 4 * abs(rule.parameters.get("density", 0.5) - 0.5)
    return round(min(4, max(0, 1 + 2 * weight - moved)))


def _answers(predict: Any, images: ImageSet, device: object) -> Iterator[tuple[Tensor, Tensor]]:
    """Stand in for `trainables.evaluation.answers`: the first of each four images are right, the others wrong."""
    network = predict.args[0].network
    for batch in images.batches(256, None, shuffle=False, device="cpu"):
        right = torch.tensor([network.answered[min(int(y) // CLASSES, len(network.answered) - 1)] for y in batch.y])
        wrong = (torch.arange(len(batch.y)) % 4) >= right
        rows = CLASSES * len(network.answered)
        yield 3.0 * torch.nn.functional.one_hot((batch.y + wrong) % rows, rows), batch.y


def test_compositions(trained: Terminal, kept: SnapshotAssertion) -> None:
    for words in (
        "",
        "--keep 1,3",
        "--drop '2, 3' --coefficient negate",
        "--drop 2 --coefficient subtract --seeds 1 --format json",
        "--weights 0.5,-1,2",
        "--rule ties --density 0.4",
        "--rule dare --search 3",
    ):
        trained(f"compose judged {words}".strip())
    trained("compose judged:1,2 curved:3")
    trained("compose judged:1,2 curved:2", code=2)
    trained("compose curved --rule fisher")
    trained.add_text_of(sorted(trained.storage.run("judged").compositions.glob("*.json")))
    assert trained.transcript == kept


def test_classes_that_are_taken_out_for_good(trained: Terminal, kept: SnapshotAssertion) -> None:
    trained("compose judged --forget task:2 --export without")
    trained("compose judged --forget class:0 --format json")
    trained.add_files("the export", trained.folder / "without")
    assert trained.transcript == kept


def test_the_protocol_of_the_paper(trained: Terminal, kept: SnapshotAssertion) -> None:
    trained("evaluate judged curved")
    trained("evaluate judged --seeds 1 --format json")
    trained("compare --composition")
    trained("report judged --output judged.html")
    assert trained.transcript == kept


def test_what_is_exported(trained: Terminal, kept: SnapshotAssertion) -> None:
    trained("compose judged --seeds 0 --export exported")
    trained.add_files("the export", trained.folder / "exported")
    trained.add_text_of(sorted((trained.folder / "exported").rglob("README.md")))
    trained.add_text_of(sorted((trained.folder / "exported").rglob("*.json")))
    trained("compose exported/vectors --keep 1")
    trained("compose judged --seeds 0 --rule ties --export merged")
    trained("compose judged --seeds 0 --rule ties --forms vectors --export vectors")
    assert trained.transcript == kept
