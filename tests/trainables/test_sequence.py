"""The loop over tasks: its rows of metrics, its checks before it reads data, and its state."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import SOURCE, few_digits, small_digits
from trainables import sequence as module
from trainables.backbones import Backbone
from trainables.composition import Origin
from trainables.data import Task, build_benchmark
from trainables.data.transforms.spec import described
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.contract import Context, Scenario
from trainables.metrics import STAGES, WAITING, repeatable, seconds
from trainables.sequence import IncrementalSequence
from trainables.state import Heartbeat, State


def made(method: str = "finetune") -> IncrementalSequence:
    return IncrementalSequence(small_digits(), method, {"lr": 1e-3}, backbone=Backbone())


def test_a_row_has_the_time_of_every_stage_and_a_state_brings_back_the_loop() -> None:
    first = made()
    for task in (1, 2):
        row = first.run_next_task()
        assert {name for name in row if name.startswith("seconds/")} == {*map(seconds, STAGES), WAITING}
        assert row["task"] == task and row["seconds/training"] > 0 and row["seconds/evaluation"] > 0
        assert 0 < row[WAITING] < row["seconds/training"]
    second = made()
    second.load_state(first.state())
    assert second.tasks_done == 2 and second.accuracies == first.accuracies != []
    assert second.accuracies[0] is not first.accuracies[0], "what one does is not the other's"
    rows = [each.run_next_task() for each in (first, second)]
    metrics = [repeatable(row) for row in rows]
    assert metrics[0] == metrics[1] and first.finished and second.finished


def test_a_task_after_which_nothing_is_right_is_done_too() -> None:
    sequence = made()
    sequence.accuracies = [[0.0], [0.0, 0.0]]
    assert sequence.tasks_done == 2 and not sequence.finished


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


ROWS = [[90.0], [60.0, 80.0], [70.0, 50.0, 100.0]]


class Scripted:
    """A method that learns nothing and keeps its arguments."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def begin_task(self, task: Task) -> None:
        pass

    def train_task(self, task: Task) -> dict[str, float]:
        return {"train/loss": float(task.index)}

    def end_task(self, task: Task) -> None:
        pass

    def predict(self, images: Tensor) -> Tensor:
        raise NotImplementedError

    def state(self) -> State:
        raise NotImplementedError

    def load_state(self, state: State) -> None:
        raise NotImplementedError

    def vector(self, origin: Origin) -> Origin:
        return origin

    def composed(self, vectors: object, weights: object) -> None:
        raise NotImplementedError

    def continue_after(self, vectors: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("writes", [True, False])
def test_rows_and_artifacts_of_a_sequence(writes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finetune = get_method("finetune")
    can = dataclasses.replace(finetune.capabilities, composable=writes)
    entry = dataclasses.replace(finetune, capabilities=can, build=lambda context, config: Scripted(context))
    evaluated: list[list[object]] = []

    def measured(predict: object, sets: list[object], device: torch.device) -> list[float]:
        evaluated.append(sets)
        return ROWS[len(sets) - 1]

    monkeypatch.setattr(module, "get_method", lambda name: entry)
    monkeypatch.setattr(module, "accuracies", measured)
    saved: list[tuple[Path, Origin]] = []
    monkeypatch.setattr(module, "write_vector", lambda folder, vector, **_: saved.append((folder, vector)))
    benchmark, told = small_digits(), Heartbeat(None)
    sequence = IncrementalSequence(
        benchmark, "finetune", {"lr": 0.1}, backbone=Backbone(), artifacts=tmp_path, on_epoch=told
    )
    rows = [repeatable(sequence.run_next_task()) for _ in benchmark.tasks]
    assert evaluated == [list(benchmark.evaluation[:count]) for count in (1, 2, 3)]
    names = ["test/accuracy/task_1", "test/accuracy/task_2", "test/accuracy/task_3"]
    for row, wanted, average in zip(rows, ROWS, (90.0, 70.0, 73.333333333), strict=True):
        assert row.items() >= {"test/average_accuracy": average, **dict(zip(names, wanted, strict=False))}.items()
    assert rows[1].keys() == {"task", "train/loss", "test/average_accuracy", *names[:2]}
    assert rows[2]["test/final_accuracy"] == 73.333333333 and rows[2]["test/forgetting"] == 25.0  # (20 + 30) / 2
    assert rows[2]["test/average_incremental_accuracy"] == 77.777777778  # (90 + 70 + 73.33...) / 3
    method: Any = sequence.method
    assert method.context.on_epoch is told and [folder for folder, _ in saved] == [tmp_path] * (3 * writes)
    for (_, origin), task in zip(saved, benchmark.tasks, strict=False):
        assert (origin.task, origin.classes, origin.method) == (task.index, task.classes, "finetune")
        assert (origin.backbone, origin.backbone_digest) == ("glyph_vit", Backbone().digest)
        assert origin.class_names == tuple(str(c) for c in task.classes)
        assert origin.transform == described(benchmark.evaluation[0].transform, 32)
        assert origin.transform is not None
    closed: list[bool] = []
    sequence.preparer = SimpleNamespace(close=lambda: closed.append(True))  # type: ignore[assignment]
    sequence.close()
    assert closed == [True]


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
    assert ("test/average_incremental_accuracy" in rows[-1]) == (method != "joint")  # one row is no average over tasks
