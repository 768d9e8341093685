"""Recorded steps, TF32 and compiled blocks on a real GPU; without one nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from tests.support.cuda_graphs import launched
from tests.support.methods.small_digits import COMPOSABLE, run, small_digits
from trainables.backbones import Backbone
from trainables.backbones.compiling import can_compile
from trainables.config import PRECISIONS, Precision
from trainables.methods import contract, cuda_graphs
from trainables.sequence import IncrementalSequence

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
METHODS = {**{name: COMPOSABLE[name] for name in ("ita-lora", "ita-fft")}, "finetune": {"lr": 0.003}}
CLOSE = 10.0  # points of accuracy; one of the 24 test images is 4


@pytest.fixture(autouse=True)
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `device.claim` leaves a trial on a GPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The recordings that a test makes."""
    made: list[Any] = []
    record = cuda_graphs.GraphedStep._record

    def noting(step: cuda_graphs.GraphedStep, batch: Any) -> Any:
        made.append(record(step, batch))
        return made[-1]

    monkeypatch.setattr(cuda_graphs.GraphedStep, "_record", noting)
    return made


def finished(method: str, precision: Precision = "fp32") -> IncrementalSequence:
    gpu = torch.device("cuda")
    sequence = IncrementalSequence(
        small_digits(), method, METHODS[method], backbone=Backbone(), device=gpu, precision=precision
    )
    run(sequence)
    return sequence


def accuracy(sequence: IncrementalSequence) -> float:
    """Return the mean accuracy on the tasks, each right after it was learned."""
    return fmean(row[-1] for row in sequence.accuracies)


def same(one: IncrementalSequence, other: IncrementalSequence) -> bool:
    a, b = one.state().tensors, other.state().tensors
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("method", METHODS)
def test_a_trial_with_recorded_steps_finds_the_same_bit_for_bit(
    method: str, precision: Precision, recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = finished(method, precision)
    assert len(recordings) == 3  # one shape of batches in each task
    monkeypatch.setattr(cuda_graphs.GraphedStep, "__call__", launched)
    one_by_one = finished(method, precision)
    assert len(recordings) == 3
    assert recorded.accuracies == one_by_one.accuracies and same(recorded, one_by_one)


@pytest.mark.parametrize("method", METHODS)
def test_a_trial_without_a_recording_has_nearly_the_same_accuracy(
    method: str, recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule's factor is no float32 tensor there, so learning rates below the first are rounded otherwise."""
    recorded = finished(method)
    monkeypatch.setattr(contract, "LAUNCH_BOUND", dict.fromkeys(PRECISIONS, 0))
    plain = finished(method)
    assert len(recordings) == 3
    assert accuracy(plain) == pytest.approx(accuracy(recorded), abs=CLOSE)


@pytest.mark.parametrize("method", METHODS)
def test_tf32_has_other_weights_and_nearly_the_same_accuracy(method: str) -> None:
    exact, rounded = finished(method), finished(method, "tf32")
    assert not same(exact, rounded)
    assert accuracy(rounded) == pytest.approx(accuracy(exact), abs=CLOSE)


@pytest.fixture
def compiles() -> Iterator[None]:
    """Put torch's settings back after a test, and forget what it has compiled."""
    torch._dynamo.reset()
    counters.clear()
    suppressed = torch._dynamo.config.suppress_errors
    yield
    torch._dynamo.config.suppress_errors = suppressed
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


@pytest.mark.skipif(not can_compile(), reason="needs Triton and a C compiler")
@pytest.mark.parametrize("method", METHODS)
def test_a_trial_with_compiled_blocks_has_nearly_the_same_accuracy(
    method: str, compiles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "LAUNCH_BOUND", dict.fromkeys(PRECISIONS, 0))
    plain = finished(method, "bf16")
    assert not counters["stats"]["unique_graphs"]
    monkeypatch.setattr(contract, "PAYS_FROM", 0)
    compiled = finished(method, "bf16")
    assert counters["stats"]["unique_graphs"]
    assert accuracy(compiled) == pytest.approx(accuracy(plain), abs=CLOSE)
