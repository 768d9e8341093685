"""The loop over tasks: what a row says, what is asked before anything is read, and what a state holds of the loop."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import SOURCE, few_digits, small_digits
from trainables import sequence as module
from trainables.backbones import Backbone
from trainables.data import build_benchmark
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.contract import Scenario
from trainables.metrics import STAGES, repeatable, seconds
from trainables.sequence import IncrementalSequence


def made(method: str = "finetune") -> IncrementalSequence:
    return IncrementalSequence(small_digits(), method, {"lr": 1e-3}, backbone=Backbone())


def test_a_row_has_the_time_of_every_stage_and_a_state_brings_back_the_loop() -> None:
    first = made()
    for task in (1, 2):
        row = first.run_next_task()
        assert {name for name in row if name.startswith("seconds/")} == {seconds(stage) for stage in STAGES}
        assert row["task"] == task and row["seconds/training"] > 0 and row["seconds/evaluation"] > 0
    second = made()
    second.load_state(first.state())
    assert second.tasks_done == 2 and second.accuracies == first.accuracies != []
    assert second.accuracies[0] is not first.accuracies[0], "what one does is not the other's"
    rows = [each.run_next_task() for each in (first, second)]
    metrics = [repeatable(row) for row in rows]
    assert metrics[0] == metrics[1] and first.finished and second.finished


@pytest.mark.parametrize(
    ("method", "classes"), [("finetune", (range(2), range(2, 4), range(4, 6))), ("joint", (range(6),))]
)
def test_a_method_is_asked_about_tasks_and_backbone_before_anything_is_read(
    method: str, classes: tuple[range, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(config: object, scenario: Scenario) -> None:
        assert scenario.task_classes == classes and scenario.backbone is backbone
        raise InputError("refused")

    backbone, entry = Backbone(), dataclasses.replace(get_method(method), validate=refuse)
    monkeypatch.setattr(module, "get_method", lambda name: entry)
    with pytest.raises(InputError, match="refused"):
        IncrementalSequence(small_digits(), method, {"lr": 1e-3}, backbone=backbone)


def test_what_a_hyperparameter_is_and_is_not_is_said() -> None:
    with pytest.raises(InputError, match=r"finetune: hyperparameter 'lr': .*, got 'fast'"):
        get_method("finetune").parse({"lr": "fast"})


def uneven_digits(part: str) -> tuple[Tensor, Tensor]:
    """Four test images of classes 0 to 3, one of classes 4 and 5."""
    images, labels = few_digits(part)
    kept = torch.ones(len(labels), dtype=torch.bool)
    if part == "test":
        for c in (4, 5):
            kept[(labels == c).nonzero().flatten()[1:]] = False
    return images[kept], labels[kept]


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_pooled_accuracy_of_a_sequence(method: str) -> None:
    source = dataclasses.replace(SOURCE, load=uneven_digits, epochs=1)
    benchmark = build_benchmark(source, "final")
    assert [len(images) for images in benchmark.evaluation] == [8, 8, 2]
    sequence = IncrementalSequence(benchmark, method, {"lr": 1e-5}, backbone=Backbone())
    rows = [sequence.run_next_task() for _ in sequence.tasks]
    assert [name for row in rows[:-1] for name in row if "pooled" in name] == []
    right = [
        sequence.method.predict(batch.x).argmax(1) == batch.y
        for images in benchmark.evaluation
        for batch in images.batches(5, None, shuffle=False)
    ]
    assert rows[-1]["test/pooled_accuracy"] == 100.0 * int(torch.cat(right).sum()) / 18
    assert rows[-1]["test/pooled_accuracy"] != pytest.approx(rows[-1]["test/final_accuracy"])
