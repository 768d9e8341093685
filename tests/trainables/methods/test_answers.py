"""What a method returns is checked in a trial: a loss, logits and a state of its contract, or one line."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import small_digits
from trainables import sequence as module
from trainables.backbones import Backbone
from trainables.errors import DivergedError, InputError
from trainables.methods import ExtraMetric, get_method
from trainables.methods.answers import CheckedPredict
from trainables.sequence import IncrementalSequence
from trainables.state import State


class Scripted:
    """A method that answers as a test says."""

    row: Any = {"train/loss": 1.0}
    found: Any = State()

    def logits(self, images: Tensor) -> Any:
        return torch.zeros(len(images), 2)

    def begin_task(self, task: object) -> None:
        pass

    end_task = begin_task

    def train_task(self, task: object) -> Any:
        return self.row

    def predict(self, images: Tensor) -> Any:
        return self.logits(images)

    def state(self) -> Any:
        return self.found

    def load_state(self, state: State) -> None:
        pass


def sequence_of(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> IncrementalSequence:
    method = type("Answering", (Scripted,), answers)()
    entry = dataclasses.replace(
        get_method("finetune"), name="m:Mine", build=lambda *_: method, metrics=(ExtraMetric("train/mine", "1"),)
    )
    monkeypatch.setattr(module, "get_method", lambda name: entry)
    return IncrementalSequence(small_digits(), "m:Mine", {"lr": 1e-3}, backbone=Backbone())


def logits(make: Any) -> Any:
    return lambda self, images: make(len(images))


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({"row": None}, "train_task must return a dict with train/loss, got nothing"),
        ({"row": {}}, "train_task must return a dict with train/loss, got an empty one"),
        ({"row": {"loss": 1.0}}, "train_task must return a dict with train/loss, got loss"),
        ({"row": torch.zeros(2)}, "train_task must return a dict with train/loss, got Tensor"),
        ({"row": {"train/loss": [1, 2]}}, "train_task must return a number as train/loss, got list"),
        ({"row": {"train/loss": torch.zeros(2)}}, "train_task must return a number as train/loss, got Tensor"),
        ({"row": {"train/loss": 0, "task": 9}}, "train_task returns 'task', which metrics does not declare"),
        ({"logits": logits(lambda n: torch.zeros(n, 1))}, "predict must return logits (8, 2), got (8, 1)"),
        ({"logits": logits(lambda n: torch.zeros(n, 6))}, "predict must return logits (8, 2), got (8, 6)"),
        ({"logits": logits(lambda n: torch.zeros(n))}, "predict must return logits (8, 2), got (8,)"),
        ({"logits": logits(lambda n: None)}, "predict must return logits (8, 2), got nothing"),
    ],
)
def test_an_answer_that_is_none_is_said_in_a_line(
    answers: dict[str, Any], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError) as caught:
        sequence_of(monkeypatch, **answers).run_next_task()
    assert str(caught.value) == f"method 'm:Mine': {fault}"


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ({"row": {"train/loss": float("nan")}}, "train/loss is nan"),
        ({"row": {"train/loss": -np.inf}}, "train/loss is -inf"),
        ({"logits": logits(lambda n: torch.tensor([[0.0, torch.nan]] + [[0.0, 0.0]] * (n - 1)))}, "logits are NaN"),
    ],
)
def test_numbers_that_are_none_are_a_divergence(
    answers: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DivergedError, match=f"^{what} at task 1$"):
        sequence_of(monkeypatch, **answers).run_next_task()


@pytest.mark.parametrize("place", [0, 1, None])
def test_nan_in_one_of_several_batches_is_a_divergence(place: int | None) -> None:
    """A batch of another task's images may come last."""
    answers = [torch.zeros(3, 2), torch.zeros(3, 2)]
    if place is not None:
        answers[place][1, 0] = torch.nan
    left, task = iter(answers), small_digits().tasks[0]
    predict = CheckedPredict("method 'm'", lambda images: next(left), 2)
    for _ in answers:
        predict(torch.zeros(3, 1))
    if place is None:
        predict.require_numbers(task)
    else:
        with pytest.raises(DivergedError, match="^logits are NaN at task 1$"):
            predict.require_numbers(task)


def test_numbers_of_libraries_and_declared_metrics_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"train/loss": torch.tensor(0.5), "train/mine": np.float32(2.0)}
    masked = logits(lambda n: torch.tensor([[0.0, -torch.inf]] * n))
    row = sequence_of(monkeypatch, row=given, logits=masked).run_next_task()
    assert (row["train/loss"], row["train/mine"]) == (0.5, 2.0) and type(row["train/loss"]) is float


def test_a_state_is_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="^method 'm:Mine': state must return a State, got dict$"):
        sequence_of(monkeypatch, found={"means": 1}).state()
