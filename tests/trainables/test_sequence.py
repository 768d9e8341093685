"""The loop over tasks: what a row says, what is asked before anything is read, and what a state holds of the loop."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.methods.small_digits import small_digits
from trainables import sequence as module
from trainables.backbones import Backbone
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.methods.contract import Setting
from trainables.metrics import STAGES, seconds
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
    metrics = [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]
    assert metrics[0] == metrics[1] and first.finished and second.finished


@pytest.mark.parametrize(
    ("method", "classes"), [("finetune", (range(2), range(2, 4), range(4, 6))), ("joint", (range(6),))]
)
def test_a_method_is_asked_about_tasks_and_backbone_before_anything_is_read(
    method: str, classes: tuple[range, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(config: object, setting: Setting) -> None:
        assert setting.task_classes == classes and setting.backbone is backbone
        raise InputError("refused")

    backbone, entry = Backbone(), dataclasses.replace(get_method(method), requires=refuse)
    monkeypatch.setattr(module, "get_method", lambda name: entry)
    with pytest.raises(InputError, match="refused"):
        IncrementalSequence(small_digits(), method, {"lr": 1e-3}, backbone=backbone)


def test_what_a_hyperparameter_is_and_is_not_is_said() -> None:
    with pytest.raises(InputError, match=r"finetune: hyperparameter 'lr': .*, got 'fast'"):
        get_method("finetune").parse({"lr": "fast"})
