"""What a trial does with the memory of a GPU, as far as it can be seen without one."""

from __future__ import annotations

import pytest

from tests.support.methods.small_digits import small_digits
from trainables import sequence
from trainables.backbones import Backbone
from trainables.preconsolidation import Consolidation, Preconsolidator

ITA = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.01, "lr_pre": 0.03, "epochs_pre": 1}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to memory and around it, in order."""
    happened, compute = list[str](), Preconsolidator.task

    def noted(self: Preconsolidator, index: int) -> Consolidation:
        happened.append("pre-consolidation")
        return compute(self, index)

    monkeypatch.setattr(sequence, "give_back", lambda: happened.append("given back"))
    monkeypatch.setattr(Preconsolidator, "task", noted)
    return happened


def test_neither_training_nor_preconsolidation_keeps_what_the_other_reserved(seen: list[str]) -> None:
    trial = sequence.IncrementalSequence(small_digits(), "ita-lora", ITA, backbone=Backbone())
    trial.run_next_task()
    trial.run_next_task()
    assert seen == ["given back", "pre-consolidation", "given back"] * 2


def test_without_preconsolidation_memory_is_kept(seen: list[str]) -> None:
    sequence.IncrementalSequence(small_digits(), "finetune", {"lr": 0.01}, backbone=Backbone()).run_next_task()
    assert not seen
